// Two training steps with kernels of the double of NVIDIA's libraries, saved as a trace.
#include "report.hpp"

#include <dlfcn.h>
#include <thread>
#include <vector>

namespace {

struct Tensor {
    std::vector<float> values;
    std::vector<std::int64_t> shape;
};

Tensor tensor(std::int64_t rows, std::int64_t columns) {
    return {std::vector<float>(static_cast<std::size_t>(rows * columns), 1), {rows, columns}};
}

} // namespace

template <> struct marey::InputTraits<Tensor> {
    static std::vector<std::int64_t> shape(const Tensor &tensor) { return tensor.shape; }
    static const char *dtype(const Tensor &) { return "float"; }
    static std::vector<std::int64_t> strides(const Tensor &tensor) { return {tensor.shape[1], 1}; }
    static const float *data(const Tensor &tensor) { return tensor.values.data(); }
};

namespace {

void step(int number, int (*launch)()) {
    RECORD_USER_SCOPE("ProfilerStep#" + std::to_string(number));
    RECORD_MODULE("model");
    RECORD_FUNCTION("forward", {});
    {
        RECORD_MODULE("encoder");
        const marey::Kwargs kwargs = {{"stride", std::vector<int>{1, 1}}, {"groups", 1}};
        RECORD_FUNCTION_WITH_KWARGS("aten::conv2d", marey::inputs(tensor(2, 2)), kwargs);
    }
    {
        RECORD_FUNCTION("aten::mm", marey::inputs(tensor(2, 3), tensor(3, 4)), number);
        launch();
    }
    std::thread([number] {
        RECORD_FUNCTION_WITH_SCOPE(marey::RecordScope::BACKWARD_FUNCTION, "MmBackward0", {}, number);
    }).join();
}

} // namespace

int main() {
    marey::ProfilerConfig config(marey::ProfilerState::KINETO);
    config.report_input_shapes = true;
    config.with_flops = true;
    config.trace_id = "night 7";
    config.experimental_config.verbose = true;
    config.experimental_config.profile_all_threads = true;
    config.experimental_config.performance_events = {"page_faults"};
    marey::set_record_concrete_inputs_enabled(true);
    marey::enableProfiler(config, {marey::ActivityType::CPU, marey::ActivityType::CUDA});
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    void *symbol = cuda == nullptr ? nullptr : dlsym(cuda, "replay_run");
    if (symbol == nullptr) {
        return 1;
    }
    int (*launch)() = nullptr;
    std::memcpy(&launch, &symbol, sizeof launch);
    step(1, launch);
    step(2, launch);
    const auto result = marey::disableProfiler();
    return result->save("trace.json") && result->warnings().empty() ? 0 : 2;
}
