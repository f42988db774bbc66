// Plays the script of the double of NVIDIA's libraries inside a scope. With `sync` as argument
// synchronisations are events too; with `metrics` metrics of kernels are requested; with `late` 70
// profiles precede this one, beside a session.
#include "report.hpp"

#include <dlfcn.h>

int main(int argc, char **argv) {
    const std::string argument = argc > 1 ? argv[1] : "";
    if (argument == "late") {
        marey_start("beside", nullptr, nullptr);
        for (int profile = 0; profile < 70; profile++) {
            marey::enableProfiler(marey::ProfilerConfig(marey::ProfilerState::CUDA),
                                  {marey::ActivityType::CPU});
            marey::disableProfiler();
        }
    }
    marey::ProfilerConfig config(marey::ProfilerState::CUDA);
    config.experimental_config.enable_cuda_sync_events = argument == "sync";
    if (argument == "metrics") {
        config.experimental_config.profiler_metrics = {"sm__cycles_active.avg"};
        config.experimental_config.profiler_measure_per_kernel = true;
    }
    marey::enableProfiler(config, {marey::ActivityType::CPU});
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    void *symbol = cuda == nullptr ? nullptr : dlsym(cuda, "replay_run");
    if (symbol == nullptr) {
        return 1;
    }
    int (*play)() = nullptr;
    std::memcpy(&play, &symbol, sizeof play);
    {
        RECORD_USER_SCOPE("step");
        RECORD_FUNCTION("aten::mm", {});
        if (play() != 0) {
            return 2;
        }
    }
    const auto result = marey::disableProfiler();
    report(*result);
    result->save("trace.json");
}
