/// @file
/// `RecordFunction`, the scope that profiles, callbacks and sessions of the recorder see. The macros
/// are in `macros.hpp`.
#ifndef MAREY_RECORD_HPP
#define MAREY_RECORD_HPP

#include "recording.hpp"
#include "version.hpp"

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {

/// A scope, from `before` to `end` or the end of the object. The macros are the usual way to make
/// one. It may end on another thread than it began on.
class RecordFunction {
public:
    /// A scope of this kind, which has not begun.
    explicit RecordFunction(RecordScope scope = RecordScope::FUNCTION) noexcept : scope_(scope) {
        if (__builtin_expect(static_cast<long>(detail::is_listened_to()), 0)) {
            attach();
        }
    }

    /// Makes a scope in memory of its size; null if nothing listens to it.
    MAREY_FN_ __attribute__((noinline)) static RecordFunction *make(void *memory,
                                                                    RecordScope scope) noexcept {
        auto *made = new (memory) RecordFunction(scope, Listened());
        return made->isActive() ? made : nullptr;
    }

    /// Ends the scope.
    ~RecordFunction() {
        if (active_ != 0) {
            end();
        }
        if (extra_ != nullptr) {
            release_extra();
        }
    }

    RecordFunction(const RecordFunction &) = delete;
    RecordFunction &operator=(const RecordFunction &) = delete;

    /// Whether anything listens to this scope. Otherwise the other calls have no effect.
    bool isActive() const { return active_ != 0; }

    /// Whether anything that listens needs the inputs.
    bool needsInputs() const { return (active_ & needs_inputs) != 0; }

    /// Sets the name, UTF-8. `cache`, if not null, keeps the id of a name that is the same in
    /// every call, such as a literal.
    void setName(std::string_view name, std::atomic<std::uint32_t> *cache = nullptr) noexcept {
        if (thread_ == nullptr) {
            return;
        }
        const std::uint32_t cached_id = cache == nullptr ? 0 : cache->load(std::memory_order_relaxed);
        name_id_ = cached_id != 0 ? cached_id : marey_load()->intern(name.data(), name.size());
        if (cache != nullptr) {
            cache->store(name_id_, std::memory_order_relaxed);
        }
        if (name_id_ == detail::lost_name) {
            const detail::Inside inside(*thread_);
            MAREY_TRY_ { extra().details.name = std::string(name); }
            MAREY_CATCH_ALL_ {}
        }
    }

    /// Describes the inputs: see `inputs.hpp`.
    template <class T> void setInputs(const T &inputs) noexcept {
        if (thread_ == nullptr) {
            return;
        }
        const detail::Inside inside(*thread_);
        MAREY_TRY_ {
            const bool concrete = shared_->is_concrete.load(std::memory_order_relaxed);
            extra().details.inputs = detail::describe_all(inputs, concrete);
        }
        MAREY_CATCH_ALL_ {}
    }

    /// No inputs, or described ones.
    void setInputs(std::initializer_list<Input> inputs) noexcept {
        if (thread_ == nullptr || inputs.size() == 0) {
            return;
        }
        const detail::Inside inside(*thread_);
        MAREY_TRY_ { extra().details.inputs.assign(inputs); }
        MAREY_CATCH_ALL_ {}
    }

    /// Sets the keyword arguments.
    void setKwargs(Kwargs kwargs) noexcept {
        if (thread_ == nullptr) {
            return;
        }
        const detail::Inside inside(*thread_);
        MAREY_TRY_ { extra().details.kwargs = std::move(kwargs); }
        MAREY_CATCH_ALL_ {}
    }

    /// Sets the debug handle of an edge scope.
    void setDebugHandle(std::int64_t handle) noexcept { debug_handle_ = handle; }

    /// Begins the scope. `sequence` is the number that a forward operator shares with its backward,
    /// and `forward_thread` the operating system's id of the thread that ran the former; -1 for
    /// both means unknown.
    __attribute__((noinline)) void before(std::int64_t sequence = -1,
                                          std::int64_t forward_thread = -1) noexcept {
        if (active_ == 0) {
            return;
        }
        active_ |= has_begun;
        sequence_ = sequence;
        forward_thread_ = forward_thread > 0 ? static_cast<std::uint64_t>(forward_thread) : 0;
        if (is_for_recorder_alone()) {
            enter();
            return;
        }
        caller_ = __builtin_extract_return_addr(__builtin_return_address(0));
        MAREY_TRY_ { begin(); }
        MAREY_CATCH_ALL_ { shared_->dropped_events.fetch_add(1, std::memory_order_relaxed); }
    }

    /// Begins the scope with a name and inputs.
    template <class T>
    void before(std::string_view name, const T &inputs, std::int64_t sequence = -1) noexcept {
        if (active_ != 0) {
            setName(name);
            if (needsInputs()) {
                setInputs(inputs);
            }
            before(sequence);
        }
    }

    /// Begins the scope with a name.
    void before(std::string_view name) noexcept {
        if (active_ != 0) {
            setName(name);
            before();
        }
    }

    /// Ends the scope. Later calls have no effect.
    void end() noexcept {
        if ((active_ & has_begun) != 0 && !(is_for_recorder_alone() && exit_alone())) {
            MAREY_TRY_ { finish(); }
            MAREY_CATCH_ALL_ { shared_->dropped_events.fetch_add(1, std::memory_order_relaxed); }
        }
        active_ = 0;
    }

    /// The name.
    std::string name() const {
        const bool is_lost = name_id_ == detail::lost_name && extra_ != nullptr;
        return is_lost ? extra_->details.name : detail::name_text(name_id_);
    }
    /// The kind.
    RecordScope scope() const { return scope_; }
    /// A number that no other scope of the process has; 0 if no profile or callback listens.
    std::uint64_t handle() const { return id_; }
    /// The sequence number; -1 if there is none.
    std::int64_t seqNr() const { return sequence_; }
    /// The operating system's id of the thread that began the scope.
    std::uint64_t threadId() const { return thread_id_; }
    /// The operating system's id of the forward operator's thread; 0 if there is none.
    std::uint64_t forwardThreadId() const { return forward_thread_; }
    /// The inputs, if something that listens needed them.
    const std::vector<Input> &inputs() const {
        return extra_ ? extra_->details.inputs : detail::no_details().inputs;
    }
    /// The keyword arguments.
    const Kwargs &kwargs() const {
        return extra_ ? extra_->details.kwargs : detail::no_details().kwargs;
    }

private:
    struct Listened {};

    /// A scope that something listens to.
    RecordFunction(RecordScope scope, Listened) noexcept : scope_(scope) { attach(); }

    /// Bits of `active_`.
    static constexpr std::uint32_t for_recorder = 1;
    static constexpr std::uint32_t for_profile = 2;
    static constexpr std::uint32_t for_callbacks = 4;
    static constexpr std::uint32_t needs_inputs = 8;
    static constexpr std::uint32_t has_begun = 16;
    static constexpr std::uint32_t keeps_inputs = 32; // in the event
    static constexpr std::uint32_t counts_flops = 64; // without keeping the inputs

    /// A callback between its calls for the start and the end.
    struct RunningCallback {
        RecordFunctionCallback callback;
        std::unique_ptr<ObserverContext> context;
    };

    /// The data that only some scopes have.
    struct Extra {
        detail::Details details;
        std::vector<RunningCallback> callbacks;
    };

    Extra &extra() {
        if (!extra_) {
            extra_ = std::make_unique<Extra>();
        }
        return *extra_;
    }

    /// Frees what only some scopes have, on any thread.
    MAREY_FN_ void release_extra() noexcept {
        if (detail::Thread *current = detail::this_thread(*shared_)) {
            const detail::Inside inside(*current);
            extra_.reset();
        }
    }

    /// Finds out what listens.
    MAREY_FN_ void attach() noexcept {
        shared_ = detail::shared();
        if (shared_ == nullptr || shared_->is_off.load(std::memory_order_relaxed)) {
            return;
        }
        MAREY_TRY_ { thread_ = detail::this_thread(*shared_); }
        MAREY_CATCH_ALL_ { detail::count_dropped(*shared_); }
        if (thread_ == nullptr || thread_->disabled > 0 || thread_->inside > 0) {
            return;
        }
        thread_id_ = thread_->id;
        if (thread_->has_ended_elsewhere.load(std::memory_order_relaxed)) {
            detail::exit_ended_elsewhere(*thread_);
        }
        active_ = marey_live_table_() != nullptr ? for_recorder : 0;
        const std::uint32_t listening = shared_->listening.load(std::memory_order_acquire);
        if ((listening & detail::listens_profile) != 0) {
            attach_to_profile();
            if ((active_ & for_profile) == 0 && detail::is_only_session(*shared_)) {
                active_ = 0; // the run has the scopes of the profile
            }
        }
        if ((listening & detail::listens_callbacks) != 0) {
            const detail::Inside inside(*thread_);
            MAREY_TRY_ { attach_callbacks(); }
            MAREY_CATCH_ALL_ {}
        }
    }

    /// Finds out whether a profile takes the scope, and its inputs.
    void attach_to_profile() {
        profile_ = detail::profile_of_thread(*shared_, *thread_);
        const std::uint32_t options = shared_->options.load(std::memory_order_relaxed);
        const std::uint32_t scopes = shared_->scopes.load(std::memory_order_relaxed);
        if (profile_ == 0 || (options & detail::records_scopes) == 0 ||
            (scopes >> static_cast<unsigned>(scope_) & 1U) == 0) {
            return;
        }
        active_ |= for_profile;
        const bool concrete = shared_->is_concrete.load(std::memory_order_relaxed);
        if (concrete || (options & detail::records_shapes) != 0) {
            active_ |= needs_inputs | keeps_inputs;
        } else if ((options & detail::records_flops) != 0) {
            active_ |= needs_inputs | counts_flops;
        }
    }

    /// Keeps the callbacks that are to be called for this scope.
    void attach_callbacks() {
        detail::update_callbacks(*shared_, *thread_);
        for (const auto *added : {&thread_->global_callbacks, &thread_->own_callbacks}) {
            for (const detail::AddedCallback &each : *added) {
                const RecordFunctionCallback &callback = each.callback;
                const double probability = callback.samplingProb();
                if (each.is_enabled && callback.checkScope(scope_) &&
                    (probability >= 1 || thread_->next_random() < probability)) {
                    extra().callbacks.push_back({callback, nullptr});
                    active_ |= for_callbacks | (callback.needsInputs() ? needs_inputs : 0);
                }
            }
        }
    }

    /// Begins the scope for everything that listens.
    void begin() {
        if ((active_ & (for_profile | for_callbacks)) != 0) {
            id_ = shared_->next_id.fetch_add(1, std::memory_order_relaxed);
        }
        if ((active_ & for_callbacks) != 0) {
            start_callbacks();
        }
        if (sequence_ >= 0) {
            link_to_forward();
        }
        if ((active_ & for_recorder) != 0) {
            enter();
        }
        if ((active_ & for_profile) != 0 && !begin_event()) {
            active_ &= ~for_profile;
        }
    }

    /// Calls the callbacks for the start, the one that was added first first.
    void start_callbacks() {
        thread_->disabled++; // scopes of a callback are not recorded
        for (RunningCallback &running : extra_->callbacks) {
            MAREY_TRY_ {
                if (running.callback.start() != nullptr) {
                    running.context = running.callback.start()(*this);
                }
            }
            MAREY_CATCH_ALL_ {}
        }
        thread_->disabled--;
    }

    /// Notes a forward operator, or finds the forward operator's thread.
    void link_to_forward() {
        const auto sequence = static_cast<std::uint64_t>(sequence_);
        if (scope_ == RecordScope::BACKWARD_FUNCTION) {
            forward_thread_ =
                forward_thread_ != 0 ? forward_thread_ : shared_->forward_threads.ask(sequence);
            outer_backward_ = std::exchange(thread_->backward_sequence, sequence_);
        } else if (forward_thread_ == 0 && thread_->backward_sequence != sequence_) {
            shared_->forward_threads.add(sequence, thread_id_);
        }
    }

    /// Enters the scope in the recorder.
    void enter() {
        entered_id_ = marey_scope_enter_kind(name_id_, detail::kind_of(scope_));
        if (entered_id_ == 0) {
            active_ &= ~for_recorder;
        } else {
            outer_id_ = std::exchange(thread_->entered_id, entered_id_);
        }
    }

    /// Whether the scope has begun, only for the recorder and without a link to another one.
    bool is_for_recorder_alone() const {
        return active_ == (for_recorder | has_begun) && sequence_ < 0;
    }

    /// Exits the scope in the recorder, if this is its thread and no other scope is to be exited before.
    bool exit_alone() {
        if (detail::this_thread_pointer != thread_ || thread_->entered_id != entered_id_ ||
            thread_->has_ended_elsewhere.load(std::memory_order_relaxed)) {
            return false;
        }
        thread_->entered_id = outer_id_;
        marey_scope_exit(name_id_);
        return true;
    }

    /// Exits the scope in the recorder; scopes that began later may be open.
    void exit(detail::Thread *current) {
        const bool is_backward = scope_ == RecordScope::BACKWARD_FUNCTION;
        const bool is_linked = sequence_ >= 0 && (!is_backward || forward_thread_ != 0);
        const std::uint64_t sequence =
            is_linked ? static_cast<std::uint64_t>(sequence_) : UINT64_MAX;
        const marey_table_t *table = marey_load();
        if (current != thread_) {
            const detail::EndedElsewhere ended = {entered_id_, table->ticks(), sequence,
                                                  forward_thread_};
            detail::leave_exit(*shared_, *thread_, detail::os_thread_id(), ended);
            return;
        }
        detail::exit_ended_elsewhere(*thread_);
        if (thread_->entered_id != entered_id_) {
            table->scope_exit_only(entered_id_, table->ticks(), sequence, forward_thread_);
            return;
        }
        thread_->entered_id = outer_id_;
        if (is_linked) {
            table->scope_exit_autograd(name_id_, sequence, forward_thread_);
        } else {
            marey_scope_exit(name_id_);
        }
    }

    /// Begins the event of the profile. Returns whether the profile takes it.
    bool begin_event() {
        const detail::Inside inside(*thread_);
        detail::Record record;
        record.name = name_id_;
        record.scope = scope_;
        record.id = id_;
        record.sequence = sequence_;
        record.forward_thread = forward_thread_;
        record.debug_handle = debug_handle_;
        detail::Details given;
        if (extra_ != nullptr && (active_ & for_callbacks) != 0) {
            given = extra_->details; // callbacks read the inputs until the scope ends
        } else if (extra_ != nullptr) {
            given = std::move(extra_->details);
        }
        given.keeps_inputs = (active_ & keeps_inputs) != 0;
        if ((active_ & (keeps_inputs | counts_flops)) == 0) {
            given.inputs.clear(); // which only callbacks need
            given.kwargs.clear();
        }
        detail::Details *given_or_null = extra_ != nullptr ? &given : nullptr;
        record.details = detail::details_at_start(*shared_, *thread_, given_or_null, caller_);
        if (record.details != nullptr && (active_ & for_recorder) != 0) {
            detail::record_args(record);
        }
        return detail::begin_event(*shared_, *thread_, profile_, std::move(record));
    }

    /// Ends the scope for everything that listens.
    void finish() {
        detail::Thread *current = detail::this_thread(*shared_);
        const bool is_same_thread = current == thread_;
        const std::int64_t end_ns = (active_ & for_profile) != 0 ? detail::now_ns(*shared_) : 0;
        if (current == nullptr) {
            return; // inside of the first call of this thread
        }
        if (is_same_thread && sequence_ >= 0 && scope_ == RecordScope::BACKWARD_FUNCTION) {
            thread_->backward_sequence = outer_backward_;
        }
        if ((active_ & for_recorder) != 0) {
            const detail::Inside inside(*current);
            exit(current);
        }
        if ((active_ & for_profile) != 0) {
            const detail::Inside inside(*current);
            detail::end_event(*shared_, *thread_, profile_, id_, end_ns, is_same_thread);
        }
        if ((active_ & for_callbacks) != 0) {
            end_callbacks(*current);
        }
    }

    /// Calls the callbacks for the end, the one that was added last first.
    void end_callbacks(detail::Thread &current) {
        current.disabled++;
        for (std::size_t i = extra_->callbacks.size(); i-- > 0;) {
            RunningCallback &running = extra_->callbacks[i];
            MAREY_TRY_ {
                if (running.callback.end() != nullptr) {
                    running.callback.end()(*this, running.context.get());
                }
            }
            MAREY_CATCH_ALL_ {}
        }
        current.disabled--;
    }

    std::uint32_t active_ = 0; // what listens; 0 if nothing does
    RecordScope scope_;
    std::uint32_t name_id_ = 0;
    std::uint64_t id_ = 0;      // for profiles and callbacks
    std::uint64_t profile_ = 0; // number of the profile of the thread
    std::int64_t sequence_ = -1;
    std::int64_t debug_handle_ = -1;
    std::int64_t outer_backward_ = -1; // sequence number of the backward scope around this one
    std::uint64_t forward_thread_ = 0;
    std::uint64_t entered_id_ = 0; // in the recorder
    std::uint64_t outer_id_ = 0;   // of the scope around this one
    detail::Shared *shared_ = nullptr;
    detail::Thread *thread_ = nullptr; // that began the scope
    std::uint32_t thread_id_ = 0;
    const void *caller_ = nullptr; // address after the call of `before`
    std::unique_ptr<Extra> extra_;
};

} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_RECORD_HPP
