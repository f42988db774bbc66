/// @file
/// `enableProfiler` and `disableProfiler`.
#ifndef MAREY_PROFILER_HPP
#define MAREY_PROFILER_HPP

#include "collecting.hpp"
#include "record.hpp"
#include "result.hpp"
#include "version.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {
namespace detail {

inline std::uint32_t option_bits(const ProfilerConfig &config,
                                 const std::set<ActivityType> &activities) {
    const ExperimentalConfig &experimental = config.experimental_config;
    const bool has_all_threads =
        experimental.profile_all_threads || config.state == ProfilerState::KINETO_ONDEMAND;
    const bool has_scopes =
        activities.count(ActivityType::CPU) > 0 || config.state == ProfilerState::CPU;
    const std::pair<bool, std::uint32_t> bits[] = {
        {has_scopes, records_scopes},
        {config.report_input_shapes, records_shapes},
        {experimental.verbose, records_names_around},
        {config.with_stack, records_frames},
        {config.with_modules, records_modules},
        {config.with_flops, records_flops},
        {!experimental.performance_events.empty(), records_counters},
        {config.profile_memory, records_memory},
        {has_all_threads, records_all_threads},
    };
    std::uint32_t options = 0;
    for (const auto &bit : bits) {
        options |= bit.first ? bit.second : 0;
    }
    return options;
}

inline std::vector<std::string> option_names(const ProfilerConfig &config) {
    const std::pair<bool, const char *> names[] = {{config.report_input_shapes, "record_shapes"},
                                                   {config.profile_memory, "profile_memory"},
                                                   {config.with_stack, "with_stack"},
                                                   {config.with_modules, "with_modules"},
                                                   {config.with_flops, "with_flops"}};
    std::vector<std::string> set;
    for (const auto &name : names) {
        if (name.first) {
            set.emplace_back(name.second);
        }
    }
    return set;
}

/// Returns counters with these names and metrics, of an earlier profile if it had the same. The
/// caller holds the lock.
inline const Counters &kept_counters(Shared &shared, const std::vector<std::string> &names,
                                     const std::vector<std::uint32_t> &metrics) {
    for (const std::unique_ptr<Counters> &kept : shared.kept_counters) {
        if (kept->names == names && kept->metrics == metrics) {
            return *kept;
        }
    }
    shared.kept_counters.push_back(std::make_unique<Counters>(Counters{names, metrics}));
    return *shared.kept_counters.back();
}

inline void add_warning(void *warnings, const std::uint8_t *text, std::size_t size) {
    static_cast<std::vector<std::string> *>(warnings)->emplace_back(
        reinterpret_cast<const char *>(text), size);
}

/// Starts the performance counters that can be counted. The caller holds the lock.
inline void start_counters(Shared &shared) {
    const std::vector<std::string> &requested = shared.config.experimental_config.performance_events;
    shared.counters = nullptr;
    if (requested.empty()) {
        return;
    }
    std::string list;
    for (const std::string &name : requested) {
        list += (list.empty() ? "" : ",") + name;
    }
    std::vector<std::uint32_t> answers(requested.size(), MAREY_NO_METRIC);
    marey_load()->possible_performance_events(list.data(), list.size(), answers.data(),
                                              answers.size(), add_warning, &shared.warnings);
    std::vector<std::string> names;
    std::vector<std::uint32_t> metrics;
    for (std::size_t i = 0; i < requested.size(); i++) {
        if (answers[i] != MAREY_NO_METRIC) {
            names.push_back(requested[i]);
            metrics.push_back(answers[i]);
        }
    }
    if (!names.empty()) {
        shared.counters = &kept_counters(shared, names, metrics);
    }
}

/// Adds a warning for each activity and state whose events do not exist. The caller holds the lock.
inline void refuse_devices(Shared &shared, const std::set<ActivityType> &activities) {
    const std::pair<ActivityType, const char *> unknown[] = {
        {ActivityType::XPU, "XPU"},
        {ActivityType::HPU, "HPU"},
        {ActivityType::MTIA, "MTIA"},
        {ActivityType::PrivateUse1, "PrivateUse1"}};
    for (const auto &each : unknown) {
        if (activities.count(each.first) > 0) {
            shared.warnings.push_back(std::string("`ActivityType::") + each.second +
                                   "` has no effect: marey records devices of NVIDIA alone (CUDA)");
        }
    }
    const std::pair<ProfilerState, const char *> others[] = {
        {ProfilerState::NVTX, "NVTX` has no effect: marey emits no ranges of NVTX, it records them"},
        {ProfilerState::ITT, "ITT` has no effect: marey emits no tasks of ITT"},
        {ProfilerState::PRIVATEUSE1, "PRIVATEUSE1` has no effect: marey calls no backend of a program"},
        {ProfilerState::KINETO_PRIVATEUSE1_FALLBACK,
         "KINETO_PRIVATEUSE1_FALLBACK` has no effect: marey calls no backend of a program"}};
    for (const auto &each : others) {
        if (shared.config.state == each.first) {
            shared.warnings.push_back(std::string("`ProfilerState::") + each.second +
                                   "; this is a profile of the state KINETO");
        }
    }
}

/// Adds a warning for each metric of devices that was requested. The caller holds the lock.
inline void refuse_metrics(Shared &shared) {
    const ExperimentalConfig &requested = shared.config.experimental_config;
    for (const std::string &metric : requested.profiler_metrics) {
        shared.warnings.push_back("the metric `" + metric +
                               "` is not recorded: marey reads no hardware counters of kernels; use "
                               "`ncu --metrics " + metric + "`");
    }
    if (requested.profiler_measure_per_kernel) {
        shared.warnings.emplace_back("`profiler_measure_per_kernel` has no effect: marey records no "
                                  "metrics of `profiler_metrics`, only the times of each kernel");
    }
}

/// Starts the recording of devices and the session of the recorder. The caller holds the lock.
inline void start_session(Shared &shared, bool has_devices) {
    marey_error_t error;
    if (has_devices) {
        marey_gpu_options_t gpu = {sizeof gpu, 1, 1, "", 0};
        if (marey_load()->gpu_start(&gpu, &error) != MAREY_OK) {
            shared.warnings.push_back(std::string("devices are not recorded: ") + error.message);
        }
    }
    shared.has_devices = has_devices;
    const char *folder = std::getenv("TMPDIR");
    shared.run_stem = std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") +
                   "/marey-profile-" + integer_text(getpid()) + "-" +
                   integer_text(shared.next_profile);
    marey_options_t options = {};
    options.format = MAREY_RUN;
    const std::uint64_t *active = marey_load()->active;
    const std::uint64_t before = __atomic_load_n(active, __ATOMIC_RELAXED);
    shared.session = marey_start(shared.run_stem.c_str(), &options, &error);
    const std::uint64_t started = __atomic_load_n(active, __ATOMIC_RELAXED) & ~before;
    const bool is_one = (started & (started - 1)) == 0; // no other thread has started a session
    shared.own_session = is_one ? started : 0;
    shared.run.clear();
    if (shared.session >= 0) {
        marey_load()->run_dir(shared.session, append_bytes, &shared.run, nullptr);
    } else {
        shared.warnings.push_back(std::string("there is no run: ") + error.message);
    }
}

} // namespace detail

/// Starts a profile. `scopes` limits it to kinds of scopes; empty means all. What cannot be recorded
/// is in `ProfilerResult::warnings`. Without `libmarey.so` this does nothing.
inline void enableProfiler(const ProfilerConfig &config, const std::set<ActivityType> &activities,
                           const std::unordered_set<RecordScope> &scopes = {}) {
    detail::Shared *shared = detail::shared();
    detail::Thread *current = detail::this_thread();
    if (current == nullptr || config.state == ProfilerState::Disabled) {
        return;
    }
    detail::Thread &thread = *current;
    const detail::Inside inside(thread);
    const std::lock_guard<std::mutex> guard(shared->mutex);
    if (shared->profile != 0) {
        std::fprintf(stderr, "marey: a profile is being recorded already; end it with "
                             "disableProfiler() before enableProfiler()\n");
        return;
    }
    shared->config = config;
    shared->warnings.clear();
    const bool has_devices = config.state == ProfilerState::CUDA ||
                             (config.state != ProfilerState::CPU &&
                              activities.count(ActivityType::CUDA) > 0);
    shared->starting_thread = thread.id;
    detail::start_session(*shared, has_devices);
    shared->starting_thread = 0;
    detail::start_counters(*shared);
    detail::refuse_metrics(*shared);
    detail::refuse_devices(*shared, activities);
    if (!config.trace_id.empty()) {
        marey_load()->note("trace_id", 8, config.trace_id.data(), config.trace_id.size());
    }
    std::uint32_t mask = scopes.empty() ? 0xffffffff : 0;
    for (RecordScope scope : scopes) {
        mask |= 1U << static_cast<unsigned>(scope);
    }
    shared->scopes = mask;
    shared->options = detail::option_bits(config, activities);
    shared->remaining_events = static_cast<std::int64_t>(
        std::min<std::uint64_t>(config.experimental_config.max_events, INT64_MAX));
    shared->dropped_events = 0;
    shared->allocated_bytes = 0;
    shared->clock_offset_ns = detail::clock_ns(CLOCK_REALTIME) - detail::clock_ns(CLOCK_MONOTONIC);
    shared->start_ns = detail::now_ns(*shared);
    thread.joined_profile = shared->next_profile;
    shared->profile.store(shared->next_profile++, std::memory_order_release);
    shared->listening.fetch_or(detail::listens_profile, std::memory_order_release);
}

/// Ends the profile and returns its events; none if there was no profile. Never null.
inline std::unique_ptr<ProfilerResult> disableProfiler() {
    detail::Shared *shared = detail::shared();
    detail::Thread *thread = detail::this_thread();
    if (thread == nullptr) {
        return std::make_unique<ProfilerResult>();
    }
    const detail::Inside inside(*thread);
    detail::exit_ended_elsewhere(*thread);
    detail::TraceHeader header;
    std::vector<detail::Record> records;
    std::string run, run_stem;
    std::int64_t session = MAREY_NO_SESSION;
    detail::DeviceReader reader = {&records, 0, 0, false};
    bool has_devices = false;
    bool with_flops = false;
    bool with_stack = false;
    {
        const std::lock_guard<std::mutex> guard(shared->mutex);
        const std::uint64_t profile = shared->profile;
        if (profile == 0) {
            return std::make_unique<ProfilerResult>();
        }
        shared->listening.fetch_and(~detail::listens_profile, std::memory_order_release);
        header.end_ns = detail::now_ns(*shared);
        shared->profile.store(0, std::memory_order_release);
        records = detail::take_records(*shared, profile, header.end_ns);
        header.start_ns = shared->start_ns;
        header.trace_id = shared->config.trace_id;
        header.flags = detail::option_names(shared->config);
        header.warnings = std::move(shared->warnings);
        header.dropped_events = shared->dropped_events;
        if (shared->counters.load() != nullptr) {
            marey_load()->performance_events("", 0, nullptr);
        }
        shared->counters = nullptr;
        shared->own_session = 0;
        session = std::exchange(shared->session, MAREY_NO_SESSION);
        run = std::move(shared->run);
        run_stem = shared->run_stem;
        has_devices = shared->has_devices;
        with_flops = shared->config.with_flops;
        with_stack = shared->config.with_stack;
        reader.clock_offset_ns = shared->clock_offset_ns;
        reader.start_ns = shared->start_ns;
        reader.has_synchronisations = shared->config.experimental_config.enable_cuda_sync_events;
    }
    if (session >= 0) {
        marey_error_t error;
        if (marey_finalize(session, &error) == MAREY_ERROR_NOT_FOUND) {
            header.warnings.emplace_back("the run ends earlier than the profile: the process, or "
                                         "another caller, has ended all sessions");
        } else if (error.code != MAREY_OK) {
            header.warnings.push_back(std::string("the run is incomplete: ") + error.message);
        }
        if (!header.trace_id.empty()) {
            marey_load()->note("trace_id", 8, "", 0); // not of later sessions
        }
        if (has_devices && !run.empty() &&
            marey_load()->device_events(run.data(), run.size(), session,
                                        detail::receive_device_event, &reader,
                                        &error) != MAREY_OK) {
            header.warnings.push_back(std::string("devices are in the run alone: ") + error.message);
        }
    }
    const std::size_t count = records.size();
    std::vector<Event> events;
    MAREY_TRY_ {
        if (with_stack) {
            detail::update_code(thread->code, shared->code_files, shared->mutex);
        }
        events = detail::resolved_events(std::move(records), header.start_ns, with_flops,
                                         thread->code);
    }
    MAREY_CATCH_ALL_ {
        header.dropped_events += count;
        header.warnings.emplace_back("there is not enough memory for the events: only the run has them");
    }
    const bool owns_run = !run.empty() && run == run_stem + ".marey";
    return std::make_unique<ProfilerResult>(std::move(header), std::move(events), std::move(run),
                                            owns_run);
}

/// Whether a profile is being recorded.
inline bool profilerEnabled() {
    detail::Shared *shared = detail::shared();
    return shared != nullptr && shared->profile != 0;
}

/// Records the calling thread in the current profile too. Only needed without
/// `profile_all_threads`.
inline void enableProfilerInChildThread() {
    if (detail::Thread *thread = detail::this_thread()) {
        thread->joined_profile = detail::shared()->profile;
    }
}

/// Stops recording the calling thread in the current profile.
inline void disableProfilerInChildThread() {
    if (detail::Thread *thread = detail::this_thread()) {
        thread->joined_profile = 0;
    }
}

/// Records strides and values of inputs, in this and later profiles. Off by default.
inline void set_record_concrete_inputs_enabled(bool enable) {
    if (detail::Shared *shared = detail::shared()) {
        shared->is_concrete = enable;
    }
}

/// Whether strides and values of inputs are recorded.
inline bool get_record_concrete_inputs_enabled() {
    detail::Shared *shared = detail::shared();
    return shared != nullptr && shared->is_concrete;
}

} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_PROFILER_HPP
