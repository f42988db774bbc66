// The listings of XSigma's guide, unchanged, each around work that it is to show.
#include "profiler/kineto/profiler_kineto.h"

#include "report.hpp"

#include <iostream>
#include <set>
#include <stdexcept>
#include <thread>
#include <type_traits>

namespace {

struct Tensor {
    std::vector<float> data;
    std::vector<std::int64_t> shape, strides;
};

Tensor tensor(std::int64_t rows, std::int64_t columns) {
    Tensor made = {std::vector<float>(static_cast<std::size_t>(rows * columns)), {rows, columns}, {columns, 1}};
    for (std::size_t i = 0; i < made.data.size(); i++) {
        made.data[i] = static_cast<float>(i + 1);
    }
    return made;
}

Tensor transposed(const Tensor &other) {
    return {other.data, {other.shape[1], other.shape[0]}, {other.strides[1], other.strides[0]}};
}

} // namespace

template <> struct marey::InputTraits<Tensor> {
    static std::vector<std::int64_t> shape(const Tensor &t) { return t.shape; }
    static const char *dtype(const Tensor &) { return "float"; }
    static std::vector<std::int64_t> strides(const Tensor &t) { return t.strides; }
    static const float *data(const Tensor &t) { return t.data.data(); }
};

using namespace xsigma::profiler::impl;

// The functions and fields of the API reference have its types.
static_assert(std::is_same_v<decltype(&enableProfiler),
                             void (*)(const ProfilerConfig &, const std::set<ActivityType> &,
                                      const std::unordered_set<RecordScope> &)>);
static_assert(std::is_same_v<decltype(&disableProfiler), std::unique_ptr<ProfilerResult> (*)()>);
static_assert(std::is_same_v<decltype(&set_record_concrete_inputs_enabled), void (*)(bool)>);
static_assert(std::is_same_v<decltype(&get_record_concrete_inputs_enabled), bool (*)()>);
static_assert(std::is_same_v<decltype(ProfilerConfig::state), ProfilerState>);
static_assert(std::is_same_v<decltype(ProfilerConfig::report_input_shapes), bool>);
static_assert(std::is_same_v<decltype(ProfilerConfig::profile_memory), bool>);
static_assert(std::is_same_v<decltype(ProfilerConfig::with_stack), bool>);
static_assert(std::is_same_v<decltype(ProfilerConfig::with_flops), bool>);
static_assert(std::is_same_v<decltype(ProfilerConfig::with_modules), bool>);
static_assert(std::is_same_v<decltype(ProfilerConfig::experimental_config), ExperimentalConfig>);
static_assert(std::is_same_v<decltype(ProfilerConfig::trace_id), std::string>);
using Names = std::vector<std::string>;
static_assert(std::is_same_v<decltype(ExperimentalConfig::profiler_metrics), Names>);
static_assert(std::is_same_v<decltype(ExperimentalConfig::profiler_measure_per_kernel), bool>);
static_assert(std::is_same_v<decltype(ExperimentalConfig::verbose), bool>);
static_assert(std::is_same_v<decltype(ExperimentalConfig::performance_events), Names>);
static_assert(std::is_same_v<decltype(ExperimentalConfig::enable_cuda_sync_events), bool>);
static_assert(std::is_same_v<decltype(ExperimentalConfig::profile_all_threads), bool>);

namespace {

void matmul(const Tensor &a, const Tensor &b) {
    RECORD_FUNCTION("aten::matmul", marey::inputs(a, b));
    if (a.shape[1] != b.shape[0]) {
        throw std::invalid_argument("shapes do not match");
    }
}

void quick_start() {
    // Configure profiler with enhanced metadata
    xsigma::profiler::impl::ProfilerConfig config(
        xsigma::profiler::impl::ProfilerState::KINETO
    );

    // Enable input shape reporting
    config.report_input_shapes = true;

    // Enable verbose metadata (includes module hierarchy, call stacks)
    config.experimental_config.verbose = true;

    // Enable activities (CPU, CUDA, etc.)
    std::set<xsigma::profiler::impl::ActivityType> activities = {
        xsigma::profiler::impl::ActivityType::CPU,
        xsigma::profiler::impl::ActivityType::CUDA
    };

    // Start profiling
    xsigma::profiler::impl::enableProfiler(
        config,
        activities,
        {} // scopes - empty means all scopes
    );

    {
        RECORD_MODULE("model");
        RECORD_MODULE("encoder");
        RECORD_USER_SCOPE("forward");
        RECORD_USER_SCOPE("encode");
        matmul(tensor(2, 3), tensor(3, 4));
    }

    // Stop profiling and get results
    auto profiler_result = xsigma::profiler::impl::disableProfiler();

    // Save trace to file (Chrome Trace format)
    profiler_result->save("trace.json");
}

void performance_counters() {
    ProfilerConfig config(ProfilerState::KINETO);
    config.experimental_config.performance_events = {
        "cache_misses",
        "cache_references",
        "instructions",
        "cycles",
        "branch_misses"
    };
    enableProfiler(config, {ActivityType::CPU}, {});
    matmul(tensor(2, 3), tensor(3, 4));
    const auto result = disableProfiler();
    report(*result);
    result->save("trace.json");
}

void shape_mismatch() {
    ProfilerConfig config(ProfilerState::KINETO);
    // Enable shape tracking
    config.report_input_shapes = true;

    // Profile problematic operation
    enableProfiler(config, {ActivityType::CPU}, {});

    try {
        matmul(tensor(2, 3), tensor(4, 5));
    } catch (const std::invalid_argument &) {
    }

    auto result = disableProfiler();
    result->save("debug_shapes.json");
}

void memory_layout() {
    ProfilerConfig config(ProfilerState::KINETO);
    // Enable concrete inputs to see strides
    xsigma::profiler::impl::set_record_concrete_inputs_enabled(true);
    config.report_input_shapes = true;

    enableProfiler(config, {ActivityType::CPU}, {});
    {
        const Tensor a = tensor(2, 3);
        RECORD_FUNCTION("aten::add", marey::inputs(a, a));
        RECORD_FUNCTION("aten::mul", marey::inputs(a, transposed(tensor(3, 2))));
    }
    disableProfiler()->save("trace.json");
    set_record_concrete_inputs_enabled(false);
    std::printf("%d\n", get_record_concrete_inputs_enabled());
}

void forward_and_backward() {
    ProfilerConfig config(ProfilerState::KINETO);
    config.experimental_config.enable_cuda_sync_events = true;
    config.experimental_config.profile_all_threads = true;
    // The profiler automatically tracks sequence numbers
    config.report_input_shapes = true;

    // During training:
    enableProfiler(config, {ActivityType::CPU, ActivityType::CUDA}, {});

    { RECORD_FUNCTION("aten::conv2d", tensor(2, 3), 42); }
    std::thread([] {
        RECORD_FUNCTION_WITH_SCOPE(xsigma::RecordScope::BACKWARD_FUNCTION, "ConvolutionBackward0",
                                   {}, 42);
    }).join();

    auto result = disableProfiler();
    result->save("training_trace.json");
}

void custom_metadata() {
    ProfilerConfig config(ProfilerState::KINETO);
    config.report_input_shapes = true;
    config.experimental_config.verbose = true;
    enableProfiler(config, {ActivityType::CPU}, {});
    {
        RECORD_MODULE("model");
        RECORD_USER_SCOPE("step");
        const auto inputs = {tensor(2, 3)};
        // Add custom metadata to operations
        RECORD_FUNCTION_WITH_SCOPE(
            xsigma::RecordScope::USER_SCOPE,
            "my_custom_operation",
            inputs
        );
    }
    auto result = disableProfiler();
    result->save("trace.json");

    // Access events programmatically
    const auto& events = result->events();

    for (const auto& event : events)
    {
        std::cout << "Event: " << event.name() << "\n";
        std::cout << "  Duration: " << event.duration_us() << " us\n";
        std::cout << "  Thread: " << event.thread_id() << "\n";

        // Access metadata
        // (Implementation depends on KinetoEvent API)
    }
}

void production() {
    ProfilerConfig config(ProfilerState::KINETO);
    config.report_input_shapes = false;
    config.experimental_config.verbose = false;
    set_record_concrete_inputs_enabled(false);
    config.experimental_config.performance_events.clear();
    xsigma::autograd::profiler::enableProfiler(config, {ActivityType::CPU});
    matmul(tensor(2, 3), tensor(3, 4));
    xsigma::autograd::profiler::disableProfiler()->save("trace.json");
}

void record_forward() {
    RECORD_MODULE("model");
    RECORD_USER_SCOPE("forward");
    matmul(tensor(2, 3), tensor(3, 4));
}

void development() {
    ProfilerConfig config(ProfilerState::KINETO);
    config.report_input_shapes = true;
    config.experimental_config.verbose = true;
    set_record_concrete_inputs_enabled(false);  // Usually not needed
    enableProfiler(config, {ActivityType::CPU});
    record_forward();
    disableProfiler()->save("trace.json");
}

void debugging() {
    ProfilerConfig config(ProfilerState::KINETO);
    config.report_input_shapes = true;
    config.experimental_config.verbose = true;
    set_record_concrete_inputs_enabled(true);  // When needed
    config.experimental_config.performance_events = {"page_faults"};  // Optional
    enableProfiler(config, {ActivityType::CPU});
    record_forward();
    disableProfiler()->save("trace.json");
}

} // namespace

int main(int argc, char **argv) {
    const std::string name = argc > 1 ? argv[1] : "";
    const std::pair<const char *, void (*)()> listings[] = {
        {"quick_start", quick_start},
        {"performance_counters", performance_counters},
        {"shape_mismatch", shape_mismatch},
        {"memory_layout", memory_layout},
        {"forward_and_backward", forward_and_backward},
        {"custom_metadata", custom_metadata},
        {"production", production},
        {"development", development},
        {"debugging", debugging},
    };
    for (const auto &listing : listings) {
        if (name == listing.first) {
            listing.second();
            return 0;
        }
    }
    return 1;
}
