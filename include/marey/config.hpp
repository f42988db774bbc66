/// @file
/// The configuration of a profile: `ProfilerConfig`, its states, activities and kinds of scopes.
#ifndef MAREY_CONFIG_HPP
#define MAREY_CONFIG_HPP

#include "version.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {

/// How a profile records.
enum class ProfilerState : std::uint8_t {
    Disabled,                    ///< `enableProfiler` does nothing.
    CPU,                         ///< The host alone, whatever activities are requested.
    CUDA,                        ///< As KINETO, with the activity CUDA added.
    NVTX,                        ///< As KINETO, with a warning: no ranges of NVTX are emitted.
    ITT,                         ///< As KINETO, with a warning: no tasks of ITT are emitted.
    PRIVATEUSE1,                 ///< As KINETO, with a warning: no backend of a program is called.
    KINETO,                      ///< The requested activities.
    KINETO_GPU_FALLBACK,         ///< As KINETO.
    KINETO_PRIVATEUSE1_FALLBACK, ///< As PRIVATEUSE1.
    KINETO_ONDEMAND,             ///< As KINETO, on all threads.
};

/// A source of events.
enum class ActivityType : std::uint8_t {
    CPU,         ///< Scopes of the host; without it a profile has no events of scopes.
    XPU,         ///< Refused in `ProfilerResult::warnings`, as is each device but NVIDIA's.
    CUDA,        ///< Kernels, copies and fills of NVIDIA GPUs, and the calls that launched them.
    HPU,         ///< Refused.
    MTIA,        ///< Refused.
    PrivateUse1, ///< Refused.
};

/// The kind of a scope. A profile can be limited to some kinds.
enum class RecordScope : std::uint8_t {
    FUNCTION = 0,          ///< An operator.
    BACKWARD_FUNCTION,     ///< The backward of an operator.
    TORCHSCRIPT_FUNCTION,  ///< A function of TorchScript.
    KERNEL_FUNCTION_DTYPE, ///< A kernel and the type of its elements.
    CUSTOM_CLASS,          ///< A class that is registered with PyTorch.
    BUILD_FEATURE,         ///< A feature of the build.
    LITE_INTERPRETER,      ///< A scope of an edge runtime.
    USER_SCOPE,            ///< A section of the program.
    STATIC_RUNTIME_OP,     ///< An operator of the static runtime.
    STATIC_RUNTIME_MODEL,  ///< A model of the static runtime.
    NUM_SCOPES,            ///< The number of kinds.
};

/// Options beyond the usual ones.
struct ExperimentalConfig {
    /// Names of CUPTI's metrics, such as `sm__cycles_active.avg`. marey reads no hardware counters
    /// of kernels: each name is refused in `ProfilerResult::warnings`, and everything else is
    /// recorded.
    std::vector<std::string> profiler_metrics;
    /// Measures the metrics of each kernel, and not their sums; refused with them.
    bool profiler_measure_per_kernel = false;
    /// Records the names of the modules and scopes around each scope: "Module Hierarchy" and
    /// "Call stack".
    bool verbose = false;
    /// Performance counters of each scope, at most eight: `cycles`, `instructions`,
    /// `cache_references`, `cache_misses`, `branch_misses`, `page_faults`, ..., or raw events as
    /// `r01c2`. Values include the scopes inside. Each event that the machine does not count
    /// is reported by name in `ProfilerResult::warnings`, and the others are counted.
    std::vector<std::string> performance_events;
    /// Records synchronisations with devices as events, for waits between streams. Needs the
    /// activity CUDA.
    bool enable_cuda_sync_events = false;
    /// Records all threads of the process. Otherwise a profile records the thread that enabled it
    /// and those that called `enableProfilerInChildThread`.
    bool profile_all_threads = false;
    /// The number of events of scopes and memory that a profile keeps. Further ones are counted in
    /// `ProfilerResult::dropped_events`. Threads reserve 64 at a time: of several threads, up to 63
    /// each may be dropped before the limit. The run has all scopes, and devices have no limit.
    std::size_t max_events = 10000000;
};

/// The parts that `enableProfiler` records.
struct ProfilerConfig {
    /// The default configuration with a state.
    explicit ProfilerConfig(ProfilerState profiler_state = ProfilerState::KINETO)
        : state(profiler_state) {}

    ProfilerState state;              ///< How to record.
    bool report_input_shapes = false; ///< Shapes and types of inputs, and keyword arguments.
    bool profile_memory = false;      ///< Calls of `reportMemory` as events.
    bool with_stack = false;          ///< Native call stacks; names in the run.
    bool with_flops = false;          ///< Floating-point operations of known operators.
    bool with_modules = false;        ///< The modules around each scope (`RECORD_MODULE`).
    ExperimentalConfig experimental_config; ///< Further options.
    std::string trace_id;                   ///< Written to the files of the profile.
};

} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_CONFIG_HPP
