// Loads libraries with scopes, closes one, forks, and records scopes after main.
#include "report.hpp"

#include <dlfcn.h>
#include <future>
#include <memory>
#include <sys/wait.h>
#include <thread>

namespace {

struct AtExit {
    bool has_profile = false;
    ~AtExit() {
        { RECORD_USER_SCOPE("after main"); }
        if (has_profile) {
            const auto result = marey::disableProfiler();
            report(*result);
            result->save("at_exit.json");
            result->save("at_exit.marey");
        }
        std::puts("destroyed");
    }
} at_exit;

bool work(void *library, const char *function) {
    void *symbol = library == nullptr ? nullptr : dlsym(library, function);
    if (symbol == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    void (*call)() = nullptr;
    std::memcpy(&call, &symbol, sizeof call);
    call();
    return true;
}

const std::set<marey::ActivityType> host = {marey::ActivityType::CPU};

int libraries() {
    marey::ProfilerConfig config;
    config.report_input_shapes = true;
    marey::enableProfiler(config, host);
    void *closed = dlopen("./libfirst.so", RTLD_NOW | RTLD_LOCAL);
    void *kept = dlopen("./libsecond.so", RTLD_NOW | RTLD_LOCAL);
    if (!work(closed, "work_first") || !work(kept, "work_second")) {
        return 1;
    }
    dlclose(closed);
    const bool is_closed = dlopen("./libfirst.so", RTLD_NOW | RTLD_NOLOAD) == nullptr;
    { RECORD_USER_SCOPE("host"); }
    report(*marey::disableProfiler());
    std::printf("%d\n", is_closed);
    return 0;
}

int forks() {
    marey::ProfilerConfig config;
    marey::enableProfiler(config, host);
    { RECORD_USER_SCOPE("before"); }
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        { RECORD_USER_SCOPE("child"); }
        const auto inherited = marey::disableProfiler();
        marey::enableProfiler(config, host);
        { RECORD_USER_SCOPE("own profile"); }
        const auto own = marey::disableProfiler();
        const bool is_right = inherited->events().empty() && own->events().size() == 1 &&
                              own->events()[0].thread_id() == static_cast<std::uint64_t>(getpid());
        _exit(is_right ? 0 : 3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    { RECORD_USER_SCOPE("after"); }
    report(*marey::disableProfiler());
    std::printf("%d\n", WEXITSTATUS(status));
    return 0;
}

// The profile ends in the destructor of a static object.
int at_exit_profile() {
    marey::enableProfiler(marey::ProfilerConfig(), host);
    { RECORD_USER_SCOPE("in main"); }
    at_exit.has_profile = true;
    return 0;
}

std::unique_ptr<marey::ObserverContext> ignore(const marey::RecordFunction &) { return nullptr; }

// Forks while another thread has a callback of its own.
int listeners() {
    std::promise<void> ready;
    std::promise<void> done;
    std::thread listener([&] {
        marey::addThreadLocalCallback(marey::RecordFunctionCallback(ignore));
        ready.set_value();
        done.get_future().wait();
    });
    ready.get_future().wait();
    const pid_t child = fork();
    if (child == 0) {
        _exit(marey::detail::is_listened_to());
    }
    int status = 0;
    waitpid(child, &status, 0);
    const bool is_listened_to = marey::detail::is_listened_to();
    done.set_value();
    listener.join();
    std::printf("%d\n%d\n", WEXITSTATUS(status), is_listened_to);
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    const std::string name = argc > 1 ? argv[1] : "";
    if (name == "at_exit") {
        return at_exit_profile();
    }
    return name == "libraries" ? libraries() : name == "forks" ? forks() : listeners();
}
