/// @file
/// How a scope becomes an event of the profile, and the tables of callbacks.
#ifndef MAREY_RECORDING_HPP
#define MAREY_RECORDING_HPP

#include "args.hpp"
#include "shared.hpp"
#include "stack.hpp"
#include "version.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

/// @cond
#if defined(__cpp_exceptions)
#define MAREY_TRY_ try
#define MAREY_CATCH_ALL_ catch (...)
#else
#define MAREY_TRY_ if (true)
#define MAREY_CATCH_ALL_ else
#endif
/// @endcond

namespace marey {
inline namespace MAREY_HPP_VERSION_ {
namespace detail {

/// The number of a name that did not fit into the table of names.
constexpr std::uint32_t lost_name = 1;

inline void append_bytes(void *to, const std::uint8_t *bytes, std::size_t size) {
    static_cast<std::string *>(to)->append(reinterpret_cast<const char *>(bytes), size);
}

/// Returns the name with a number.
inline std::string name_text(std::uint32_t number) {
    std::string text;
    if (const marey_table_t *table = marey_load()) {
        table->name_text(number, append_bytes, &text);
    }
    return text;
}

/// Returns the kind of a scope's node in the recorder.
inline marey_kind kind_of(RecordScope scope) {
    return scope == RecordScope::USER_SCOPE ? MAREY_KIND_SCOPE : MAREY_KIND_OPERATOR;
}

/// Returns the profile that records this thread, 0 if none does.
inline std::uint64_t profile_of_thread(const Shared &shared, const Thread &thread) {
    const std::uint64_t profile = shared.profile.load(std::memory_order_acquire);
    const bool has_all_threads =
        (shared.options.load(std::memory_order_relaxed) & records_all_threads) != 0;
    return has_all_threads || thread.joined_profile == profile ? profile : 0;
}

/// Whether no other session of the recorder would have a scope that the profile does not take.
inline bool is_only_session(const Shared &shared) {
    const std::uint64_t active = __atomic_load_n(marey_load()->active, __ATOMIC_RELAXED);
    return (active & ~shared.own_session.load(std::memory_order_relaxed)) == 0;
}

/// Returns the totals of the performance events of this thread, in the order of their names; empty
/// if they are not counted.
inline std::vector<std::uint64_t> counter_totals(const Counters &counters) {
    constexpr std::size_t max_events = 8;
    std::uint32_t metrics[max_events];
    std::uint64_t counts[max_events];
    const std::size_t count = marey_load()->performance_counts(metrics, counts, max_events);
    std::vector<std::uint64_t> totals;
    for (std::uint32_t metric : counters.metrics) {
        const auto found = std::find(metrics, metrics + std::min(count, max_events), metric);
        if (found != metrics + std::min(count, max_events)) {
            totals.push_back(counts[found - metrics]);
        }
    }
    return totals.size() == counters.metrics.size() ? totals : std::vector<std::uint64_t>();
}

/// Returns what the options of the profile demand beyond name and times; null if that is nothing.
/// The contents of `given` are moved. `caller` is where the call of the scope returns to.
inline std::unique_ptr<Details> details_at_start(Shared &shared, Thread &thread,
                                                 Details *given, const void *caller) {
    const std::uint32_t options = shared.options.load(std::memory_order_relaxed);
    const Counters *counters = shared.counters.load(std::memory_order_acquire);
    const bool has_modules = (options & (records_modules | records_names_around)) != 0 &&
                             !thread.modules.empty();
    const bool has_frames = (options & records_frames) != 0;
    const bool has_counters = (options & records_counters) != 0 && counters != nullptr;
    if (given == nullptr && !has_modules && !has_frames && !has_counters) {
        return nullptr;
    }
    auto details = std::make_unique<Details>();
    if (given != nullptr) {
        *details = std::move(*given);
    }
    if (has_modules) {
        details->modules = thread.modules.back();
    }
    if (has_frames) {
        update_code(thread.code, shared.code_files, shared.mutex);
        for (void *frame : native_frames(caller)) {
            const auto address = reinterpret_cast<std::uintptr_t>(frame);
            details->frames.push_back({address, thread.code.file_of(address)});
        }
    }
    if (has_counters) {
        details->counts_at_start = counter_totals(*counters);
    }
    return details;
}

/// Adds inputs, keyword arguments and the native stack to the scope of the recorder that was just
/// entered.
inline void record_args(const Record &record) {
    std::string json;
    const Details &details = *record.details;
    if (details.keeps_inputs) {
        append_details(json, details);
    }
    if (!details.frames.empty()) {
        append_key(json, "Native stack"); // the last one, which the collector of the run expects
        const std::vector<CodePlace> outermost_first(details.frames.rbegin(), details.frames.rend());
        append_json_list(json, outermost_first, [](std::string &to, const CodePlace &place) {
            append_json_text(to, recorded_place(place));
        });
    }
    if (!json.empty()) {
        json = "{" + json + "}";
        marey_load()->scope_args(record.name, json.data(), json.size());
    }
}

/// Holds a `ThreadLock`, if it could be acquired, to the end of a block.
class ThreadGuard {
public:
    ThreadGuard(Thread &thread, std::uint32_t holder)
        : lock_(thread.lock.acquire(holder) ? &thread.lock : nullptr) {}
    ~ThreadGuard() {
        if (lock_ != nullptr) {
            lock_->release();
        }
    }
    ThreadGuard(const ThreadGuard &) = delete;
    ThreadGuard &operator=(const ThreadGuard &) = delete;
    bool is_acquired() const { return lock_ != nullptr; }

private:
    ThreadLock *lock_;
};

inline void count_dropped(Shared &shared) {
    shared.dropped_events.fetch_add(1, std::memory_order_relaxed);
}

/// Leaves the exit of a scope of the recorder to `thread`, which entered it and may have ended.
inline void leave_exit(Shared &shared, Thread &thread, std::uint32_t current,
                       const EndedElsewhere &ended) {
    const std::lock_guard<std::mutex> lock(shared.mutex);
    const bool is_alive = std::any_of(shared.threads.begin(), shared.threads.end(),
                                      [&](const auto &each) { return each.get() == &thread; });
    if (!is_alive) {
        return; // the recorder has ended its scopes
    }
    const ThreadGuard guard(thread, current);
    if (!guard.is_acquired()) {
        count_dropped(shared);
        return;
    }
    thread.ended_elsewhere.push_back(ended);
    thread.has_ended_elsewhere.store(true, std::memory_order_release);
}

/// Exits the scopes of the calling thread that other threads have ended, at the times when they did.
inline void exit_ended_elsewhere(Thread &thread) {
    if (!thread.has_ended_elsewhere.load(std::memory_order_acquire)) {
        return;
    }
    const Inside inside(thread);
    std::vector<EndedElsewhere> all_ended;
    {
        const ThreadGuard guard(thread, thread.id);
        if (!guard.is_acquired()) {
            return; // at the next scope
        }
        all_ended.swap(thread.ended_elsewhere);
        thread.has_ended_elsewhere.store(false, std::memory_order_relaxed);
    }
    for (const EndedElsewhere &ended : all_ended) {
        marey_load()->scope_exit_only(ended.id, ended.ticks, ended.sequence, ended.forward_thread);
    }
}

/// Whether the profile has room for another event of the thread.
inline bool reserve_event(Shared &shared, Thread &thread) {
    constexpr std::int64_t batch = 64;
    if (thread.budget == 0 && shared.remaining_events.load(std::memory_order_relaxed) > 0) {
        const std::int64_t remaining = shared.remaining_events.fetch_sub(batch);
        thread.budget = static_cast<std::size_t>(std::clamp<std::int64_t>(remaining, 0, batch));
    }
    if (thread.budget == 0) {
        count_dropped(shared);
        return false;
    }
    thread.budget--;
    return true;
}

/// Removes what the thread has of an earlier profile. The caller holds the lock.
inline void enter_profile(Thread &thread, std::uint64_t profile) {
    if (thread.profile != profile) {
        thread.profile = profile;
        thread.budget = 0;
        thread.open.clear();
        thread.done.clear();
    }
}

/// Adds the names of the scopes around an event.
inline void add_callers(Record &record, const std::vector<Record> &open) {
    if (open.empty()) {
        return;
    }
    Details &details = record.make_details();
    for (const Record &caller : open) {
        details.callers.push_back(caller.name);
    }
}

/// Opens an event. Returns false if the profile has ended or the thread is interrupted in here.
inline bool begin_event(Shared &shared, Thread &thread, std::uint64_t profile, Record record) {
    const ThreadGuard guard(thread, thread.id);
    if (!guard.is_acquired()) {
        count_dropped(shared);
        return false;
    }
    if (shared.profile.load(std::memory_order_acquire) != profile) {
        return false;
    }
    enter_profile(thread, profile);
    record.start_thread = thread.id;
    if ((shared.options.load(std::memory_order_relaxed) & records_names_around) != 0) {
        add_callers(record, thread.open);
    }
    thread.open.push_back(std::move(record));
    thread.open.back().start_ns = now_ns(shared);
    return true;
}

/// Adds an event without a duration.
inline void add_instant(Shared &shared, Thread &thread, std::uint64_t profile, Record record) {
    const ThreadGuard guard(thread, thread.id);
    if (!guard.is_acquired()) {
        count_dropped(shared);
        return;
    }
    if (shared.profile.load(std::memory_order_acquire) != profile) {
        return;
    }
    enter_profile(thread, profile);
    record.start_ns = record.end_ns = now_ns(shared);
    record.start_thread = record.end_thread = thread.id;
    if (reserve_event(shared, thread)) {
        thread.done.push_back(std::move(record));
    }
}

/// Adds the counts of a scope that has ended.
inline void add_counts(const Shared &shared, Details &details) {
    const Counters *counters = shared.counters.load(std::memory_order_acquire);
    if (counters == nullptr || details.counts_at_start.empty()) {
        return;
    }
    const std::vector<std::uint64_t> totals = counter_totals(*counters);
    for (std::size_t i = 0; i < totals.size() && i < details.counts_at_start.size(); i++) {
        details.counters.emplace_back(counters->names[i], totals[i] - details.counts_at_start[i]);
    }
}

/// Ends an event of `thread`, on that thread or another one.
inline void end_event(Shared &shared, Thread &thread, std::uint64_t profile, std::uint64_t id,
                      std::int64_t end_ns, bool is_same_thread) {
    if (shared.profile.load(std::memory_order_acquire) != profile) {
        return; // the profile has the event, and `thread` may be freed
    }
    const std::uint32_t current = is_same_thread ? thread.id : os_thread_id();
    const ThreadGuard guard(thread, current);
    if (!guard.is_acquired()) {
        count_dropped(shared);
        return;
    }
    if (thread.profile != profile) {
        return;
    }
    const auto found = std::find_if(thread.open.rbegin(), thread.open.rend(),
                                    [id](const Record &record) { return record.id == id; });
    if (found == thread.open.rend()) {
        return; // the profile has ended, and has the event
    }
    const auto place = std::prev(found.base());
    Record record = std::move(*place);
    thread.open.erase(place);
    record.end_ns = std::max(end_ns, record.start_ns);
    record.end_thread = current;
    if (record.details != nullptr && is_same_thread) {
        add_counts(shared, *record.details);
    }
    if (reserve_event(shared, thread)) {
        thread.done.push_back(std::move(record));
    }
}

/// Copies the global callbacks to the thread, if they have changed.
inline void update_callbacks(Shared &shared, Thread &thread) {
    if (thread.callbacks_version != shared.callbacks_version.load(std::memory_order_acquire)) {
        const Inside inside(thread);
        const std::lock_guard<std::mutex> guard(shared.mutex);
        thread.global_callbacks = shared.callbacks;
        thread.callbacks_version = shared.callbacks_version.load(std::memory_order_relaxed);
    }
}

/// Makes threads see that the callbacks have changed. The caller holds the lock.
inline void publish_callbacks(Shared &shared) {
    shared.callbacks_version.fetch_add(1, std::memory_order_release);
    listen_to_callbacks(shared);
}

/// Adds a callback around the scopes of all threads, or of `thread`, which is the calling one.
inline CallbackHandle add_callback(Shared &shared, Thread &thread,
                                   const RecordFunctionCallback &callback, bool is_global) {
    const Inside inside(thread);
    const std::lock_guard<std::mutex> guard(shared.mutex);
    (is_global ? shared.callbacks : thread.own_callbacks).push_back({shared.next_handle, callback, true});
    shared.own_callback_count += is_global ? 0 : 1;
    publish_callbacks(shared);
    return shared.next_handle++;
}

enum class Change { Remove, Disable, Enable };

inline void change_callback(Shared &shared, Thread &thread, CallbackHandle handle, Change change) {
    const Inside inside(thread);
    const std::lock_guard<std::mutex> guard(shared.mutex);
    for (std::vector<AddedCallback> *added : {&shared.callbacks, &thread.own_callbacks}) {
        const auto found =
            std::find_if(added->begin(), added->end(),
                         [handle](const AddedCallback &each) { return each.handle == handle; });
        if (found == added->end()) {
            continue;
        }
        if (change != Change::Remove) {
            found->is_enabled = change == Change::Enable;
        } else {
            shared.own_callback_count -= added == &thread.own_callbacks ? 1 : 0;
            added->erase(found);
        }
        publish_callbacks(shared);
        return;
    }
}

} // namespace detail
} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_RECORDING_HPP
