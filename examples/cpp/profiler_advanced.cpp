// Counters, values and memory of operators, a callback for a part of them, and backward linked to forward.
// Writes profiler_advanced.json, for Perfetto, and profiler_advanced.marey.

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <vector>

#include <marey.hpp>

// The allocations of these vectors are events of a profile.
using Values = std::vector<float, marey::Allocator<float>>;

static std::atomic<int> observed{0};

// A callback at the start of scopes. What it returns, its end function gets.
static std::unique_ptr<marey::ObserverContext> observe(const marey::RecordFunction &scope) {
    observed += scope.inputs().empty() ? 0 : 1;
    return nullptr;
}

// A forward operator: its number links it to its backward.
static Values scale(const Values &values, float factor, std::int64_t number) {
    RECORD_FUNCTION("aten::mul", marey::inputs(values, factor), number);
    Values result(values);
    for (float &value : result) {
        value *= factor;
    }
    return result;
}

static void backward(const Values &gradient, std::int64_t number) {
    RECORD_FUNCTION_WITH_SCOPE(marey::RecordScope::BACKWARD_FUNCTION, "MulBackward0", gradient, number);
    RECORD_FUNCTION_WITH_KWARGS("aten::sum", gradient, (marey::Kwargs{{"dim", 0}, {"keepdim", false}}));
}

int main() {
    marey::ProfilerConfig config(marey::ProfilerState::KINETO);
    config.report_input_shapes = true;
    config.profile_memory = true;
    config.with_stack = true; // native functions; link with -rdynamic for the names of all
    config.with_modules = true;
    config.trace_id = "advanced";
    config.experimental_config.profile_all_threads = true;
    // What the machine does not count is a warning, and the others are counted.
    config.experimental_config.performance_events = {"cycles", "instructions", "page_faults"};
    marey::set_record_concrete_inputs_enabled(true); // strides and values
    const auto callback = marey::addGlobalCallback(
        marey::RecordFunctionCallback(observe).needsInputs(true).scopes({marey::RecordScope::FUNCTION}));

    marey::enableProfiler(config, {marey::ActivityType::CPU});
    const Values input(8, 1.5F);
    for (std::int64_t step = 0; step < 3; ++step) {
        RECORD_USER_SCOPE("step");
        RECORD_MODULE("model");
        RECORD_MODULE("scale");
        const Values output = scale(input, 2, step);
        std::thread(backward, output, step).join(); // finds its forward operator by the number
    }
    const auto result = marey::disableProfiler();
    marey::removeCallback(callback);

    for (const std::string &warning : result->warnings()) {
        std::fprintf(stderr, "%s\n", warning.c_str());
    }
    std::printf("%d operators observed\n", observed.load());
    result->save("profiler_advanced.json");
    std::filesystem::remove_all("profiler_advanced.marey");
    result->save("profiler_advanced.marey");
}
