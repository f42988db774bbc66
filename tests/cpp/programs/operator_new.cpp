// A program whose `operator new` reports each allocation, also of marey, and of threads that marey does
// not know yet. Prints how many reports the threads have, and what is wrong.
#include <marey.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <new>
#include <set>
#include <thread>
#include <vector>

void *operator new(std::size_t bytes) {
    void *memory = std::malloc(bytes);
    if (memory == nullptr) {
        std::abort();
    }
    marey::reportMemory(memory, static_cast<std::int64_t>(malloc_usable_size(memory)));
    return memory;
}

void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept { return operator new(bytes); }

void operator delete(void *memory) noexcept {
    marey::reportMemory(memory, -static_cast<std::int64_t>(malloc_usable_size(memory)));
    std::free(memory);
}

void operator delete(void *memory, std::size_t) noexcept { operator delete(memory); }

namespace {

constexpr int threads = 10;
constexpr int rounds = 100;
std::atomic<bool> may_start{false};
std::atomic<bool> may_end{false};
std::atomic<int> ended{0};
const std::vector<float> input = {1, 2, 3};
thread_local void *volatile kept = nullptr; // so that the compiler keeps the allocation

std::unique_ptr<marey::ObserverContext> observe(const marey::RecordFunction &) {
    return std::unique_ptr<marey::ObserverContext>();
}

void wait_for(const std::atomic<bool> &flag) {
    while (!flag) {
        std::this_thread::yield();
    }
}

void work() {
    wait_for(may_start);
    for (int round = 0; round < rounds; round++) {
        void *memory = operator new(12345); // the first one before any scope of the thread
        kept = memory;
        RECORD_MODULE("module");
        RECORD_FUNCTION("function", marey::inputs(input, "text"));
        operator delete(memory);
    }
    const auto callback = marey::addThreadLocalCallback(marey::RecordFunctionCallback(observe));
    { RECORD_USER_SCOPE("with a callback"); }
    marey::removeCallback(callback);
    ended++;
    wait_for(may_end); // the end of a thread releases memory too
}

} // namespace

int main() {
    std::vector<std::thread> all;
    for (int i = 0; i < threads; i++) {
        all.emplace_back(work);
    }
    marey::ProfilerConfig config;
    config.profile_memory = true;
    config.report_input_shapes = true;
    config.experimental_config.profile_all_threads = true;
    config.experimental_config.verbose = true;
    marey::enableProfiler(config, {marey::ActivityType::CPU});
    const auto callback = marey::addGlobalCallback(marey::RecordFunctionCallback(observe));
    may_start = true;
    while (ended < threads) {
        std::this_thread::yield();
    }
    marey::removeCallback(callback);
    const auto result = marey::disableProfiler();
    may_end = true;
    for (std::thread &thread : all) {
        thread.join();
    }
    int reports = 0, others = 0, scopes = 0;
    std::int64_t sum = 0;
    std::set<std::uint64_t> seen;
    const auto main_thread = static_cast<std::uint64_t>(getpid());
    for (const marey::Event &event : result->events()) {
        if (event.thread_id() == main_thread) {
            continue;
        }
        seen.insert(event.thread_id());
        scopes += event.is_memory() ? 0 : 1;
        if (event.is_memory()) {
            const bool is_of_program = event.bytes() >= 12345 || event.bytes() <= -12345;
            (is_of_program ? reports : others)++;
            sum += event.bytes();
        }
    }
    std::printf("threads %zu, scopes %d, reports %d, others %d, sum %lld, dropped %llu\n", seen.size(),
                scopes, reports, others, static_cast<long long>(sum),
                static_cast<unsigned long long>(result->dropped_events()));
}
