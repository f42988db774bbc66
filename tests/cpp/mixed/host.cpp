/* Loads two copies of a library, and unloads one while the other's session goes on. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include <dlfcn.h>
#include <marey.h>

static void *load(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        std::exit(1);
    }
    return library;
}

static void call(void *library, const char *function, const char *argument) {
    void (*found)(const char *) = nullptr;
    void *symbol = dlsym(library, function);
    std::memcpy(&found, &symbol, sizeof found);
    found(argument);
}

static bool isMapped(const char *name) {
    std::ifstream maps("/proc/self/maps");
    std::string line;
    while (std::getline(maps, line)) {
        if (line.find(name) != std::string::npos) {
            return true;
        }
    }
    return false;
}

int main() {
    void *first = load("./first.so"), *second = load("./second.so");
    call(first, "begin", "of the first");
    call(second, "begin", "of the second");
    {
        MAREY_SCOPE("host");
        call(first, "work", "first");
        call(second, "work", "second");
        dlclose(first);
    }
    std::printf("%d %d\n", isMapped("first.so"), isMapped("second.so"));
    call(second, "work", "alone");
}
