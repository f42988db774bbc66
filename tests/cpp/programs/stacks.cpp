// Scopes in functions without a dynamic symbol. With the path of a library, whose static function
// `hidden_in_library` has the scope "closed", that is called and closed too. Prints the events.
#include "report.hpp"

#include <dlfcn.h>

namespace {

__attribute__((noinline)) int hidden_inner(int number) {
    RECORD_FUNCTION("inner", marey::inputs(number));
    return number + 1;
}

inline __attribute__((always_inline)) int inlined(int number) { return hidden_inner(number) * 2; }

__attribute__((noinline)) int hidden_outer(int number) {
    volatile int result = inlined(number);
    return result + 1;
}

} // namespace

int main(int count, char **arguments) {
    marey::ProfilerConfig config;
    config.with_stack = true;
    config.report_input_shapes = true;
    marey::enableProfiler(config, {marey::ActivityType::CPU});
    int result = hidden_outer(count);
    if (count > 1) {
        void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            std::fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        reinterpret_cast<void (*)()>(dlsym(library, "work_in_library"))();
        dlclose(library);
    }
    auto profile = marey::disableProfiler();
    report(*profile);
    profile->save("trace.json");
    profile->save("run.marey");
    return result == 0 ? 1 : 0;
}
