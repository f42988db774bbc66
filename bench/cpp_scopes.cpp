// Nanoseconds of a scope of marey.hpp, beside what any profiler pays: two readings of the clock.
//
// Prints a line `WORKLOAD NANOSECONDS` for each workload, the least of several rounds that take
// turns, so that a busy machine disturbs all of them alike. With `WORKLOAD COUNT SESSION` (none, tree or
// trace) it runs one workload inside the function `measured`, for `bench/instructions.py`.
#include <marey.hpp>
#ifdef TRACY_ENABLE
#include <tracy/Tracy.hpp>
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <time.h>
#include <unistd.h>

namespace {

constexpr int rounds = 15;

void empty_loop(long count) {
    for (long i = 0; i < count; i++) {
        __asm__ volatile("" ::: "memory");
    }
}

void clock_pairs(long count) {
    for (long i = 0; i < count; i++) {
#ifdef __x86_64__
        __builtin_ia32_rdtsc();
        __asm__ volatile("" ::: "memory");
        __builtin_ia32_rdtsc();
#else
        timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        clock_gettime(CLOCK_MONOTONIC, &time);
#endif
        __asm__ volatile("" ::: "memory");
    }
}

void record_function(long count) {
    for (long i = 0; i < count; i++) {
        RECORD_FUNCTION("scope", marey::inputs(i));
        __asm__ volatile("" ::: "memory");
    }
}

void plain_scope(long count) {
    for (long i = 0; i < count; i++) {
        MAREY_SCOPE("scope");
        __asm__ volatile("" ::: "memory");
    }
}

#ifdef TRACY_ENABLE
// Without a viewer Tracy keeps the events in memory.
void tracy_zone(long count) {
    for (long i = 0; i < count; i++) {
        ZoneScopedN("scope");
        __asm__ volatile("" ::: "memory");
    }
}
#endif

double nanoseconds(void (*work)(long), long count) {
    timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    work(count);
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double nanos = static_cast<double>(end.tv_sec - start.tv_sec) * 1e9 +
                         static_cast<double>(end.tv_nsec - start.tv_nsec);
    return nanos / static_cast<double>(count);
}

struct Workload {
    const char *name;
    void (*work)(long);
    double least;
};

template <std::size_t size> void measure(Workload (&workloads)[size], long count) {
    for (int round = 0; round < rounds; round++) {
        for (Workload &workload : workloads) {
            workload.least = std::min(workload.least, nanoseconds(workload.work, count));
        }
    }
    for (const Workload &workload : workloads) {
        std::printf("%s %.2f\n", workload.name, workload.least);
    }
}

} // namespace

extern "C" __attribute__((noinline)) void measured(void (*work)(long), long count) {
    work(count);
    __asm__ volatile(""); // no tail call: the function must still be on the stack
}

int main(int count, char **arguments) {
    if (count == 4) {
        const std::string_view session = arguments[3];
        marey_options_t options = {};
        options.format = session == "trace" ? MAREY_RUN : options.format;
        if (session != "none") {
            marey_start("count", &options, nullptr);
        }
        const std::string_view workload = arguments[1];
        measured(workload == "record_function" ? record_function : plain_scope,
                 std::atol(arguments[2]));
        _exit(0);
    }
    constexpr double unmeasured = 1e9;
    Workload idle[] = {{"empty_loop", empty_loop, unmeasured},
                       {"clock_pair", clock_pairs, unmeasured},
                       {"record_function_idle", record_function, unmeasured},
                       {"plain_scope_idle", plain_scope, unmeasured}};
    measure(idle, 1000000);
    marey_options_t options = {};
    marey_start("tree", &options, nullptr);
    Workload tree[] = {{"clock_pair_beside_tree", clock_pairs, unmeasured},
                       {"record_function_tree", record_function, unmeasured},
                       {"plain_scope_tree", plain_scope, unmeasured}};
    measure(tree, 100000);
    marey_finalize(MAREY_ALL_SESSIONS, nullptr);
    options.format = MAREY_RUN;
    marey_start("trace", &options, nullptr);
    Workload trace[] = {{"clock_pair_beside_trace", clock_pairs, unmeasured},
#ifdef TRACY_ENABLE
                        {"tracy_zone", tracy_zone, unmeasured},
#endif
                        {"plain_scope_trace", plain_scope, unmeasured}};
    measure(trace, 20000);
    marey_finalize(MAREY_ALL_SESSIONS, nullptr);
    for (const bool has_shapes : {false, true}) {
        marey::ProfilerConfig config;
        config.report_input_shapes = has_shapes;
        marey::enableProfiler(config, {marey::ActivityType::CPU});
        Workload profile[] = {{has_shapes ? "record_function_profile_shapes"
                                          : "record_function_profile",
                               record_function, unmeasured}};
        measure(profile, 20000);
        marey::disableProfiler();
    }
}
