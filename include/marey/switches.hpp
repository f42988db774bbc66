/// @file
/// Adding and removing callbacks, and switching scopes off and on.
#ifndef MAREY_SWITCHES_HPP
#define MAREY_SWITCHES_HPP

#include "recording.hpp"
#include "version.hpp"

#include <string>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {

namespace detail {

inline CallbackHandle add_callback(const RecordFunctionCallback &callback, bool is_global) {
    Thread *thread = this_thread();
    return thread == nullptr ? 0 : add_callback(*shared(), *thread, callback, is_global);
}

inline void change_callback(CallbackHandle handle, Change change) {
    if (Thread *thread = this_thread()) {
        change_callback(*shared(), *thread, handle, change);
    }
}

} // namespace detail

/// Calls the functions of `callback` around scopes of all threads, until it is removed.
inline CallbackHandle addGlobalCallback(RecordFunctionCallback callback) {
    return detail::add_callback(callback, true);
}

/// Calls the functions of `callback` around scopes of this thread, until it is removed.
inline CallbackHandle addThreadLocalCallback(RecordFunctionCallback callback) {
    return detail::add_callback(callback, false);
}

/// Removes a global callback, or one of this thread. Its end function is still called for scopes
/// that are open.
inline void removeCallback(CallbackHandle handle) {
    detail::change_callback(handle, detail::Change::Remove);
}

/// Stops calling a callback, without removing it.
inline void disableCallback(CallbackHandle handle) {
    detail::change_callback(handle, detail::Change::Disable);
}

/// Calls a callback again that was disabled.
inline void reenableCallback(CallbackHandle handle) {
    detail::change_callback(handle, detail::Change::Enable);
}

/// Records each operator that libtorch dispatches, and each autograd node, as scopes of the recorder:
/// in the runs of profiles (`save("NAME.marey")`) and in sessions, below the scopes that called them.
/// They are not in `ProfilerResult::events`. False stops. Returns false if that is impossible, with
/// the reason in `error`, which may be null: the process has no libtorch, or one that is too old.
inline bool enableTorchOperators(bool is_enabled = true, std::string *error = nullptr) {
    marey_error_t failure = {};
    const marey_table_t *table = marey_load();
    if (table == nullptr) {
        marey_report_absence_(&failure);
    } else {
        table->torch_operators(is_enabled, 0, 0, &failure);
    }
    if (error != nullptr) {
        *error = failure.message;
    }
    return failure.code == MAREY_OK;
}

/// Whether any global callback, or one of this thread, was added and not removed.
inline bool hasCallbacks() {
    detail::Thread *thread = detail::this_thread();
    if (thread == nullptr) {
        return false;
    }
    detail::update_callbacks(*detail::shared(), *thread);
    return !thread->global_callbacks.empty() || !thread->own_callbacks.empty();
}

/// Records scopes, or none of any thread.
inline void enableRecordFunction(bool is_enabled = true) {
    if (detail::Shared *shared = detail::shared()) {
        shared->is_off = !is_enabled;
    }
}

/// Whether scopes of this thread that begin now are recorded if something listens.
inline bool isRecordFunctionEnabled() {
    detail::Thread *thread = detail::this_thread();
    return thread != nullptr && !detail::shared()->is_off && thread->disabled == 0;
}

/// Scopes of this thread are not recorded from here to the end of the block.
class DisableRecordFunctionGuard {
public:
    /// Switches the scopes of the calling thread off.
    DisableRecordFunctionGuard() {
        if (thread_ != nullptr) {
            thread_->disabled++;
        }
    }

    /// Undoes the constructor.
    ~DisableRecordFunctionGuard() {
        if (thread_ != nullptr) {
            thread_->disabled--;
        }
    }

    DisableRecordFunctionGuard(const DisableRecordFunctionGuard &) = delete;
    DisableRecordFunctionGuard &operator=(const DisableRecordFunctionGuard &) = delete;

private:
    detail::Thread *thread_ = detail::this_thread();
};

/// Scopes of this thread are recorded, or not, from here to the end of the block, whatever guards
/// are around it.
class RecordFunctionGuard {
public:
    /// Switches the scopes of the calling thread on or off.
    explicit RecordFunctionGuard(bool is_enabled = true) {
        if (thread_ != nullptr) {
            previous_ = thread_->disabled;
            thread_->disabled = is_enabled ? 0 : 1;
        }
    }

    /// Restores the state before the constructor.
    ~RecordFunctionGuard() {
        if (thread_ != nullptr) {
            thread_->disabled = previous_;
        }
    }

    RecordFunctionGuard(const RecordFunctionGuard &) = delete;
    RecordFunctionGuard &operator=(const RecordFunctionGuard &) = delete;

private:
    detail::Thread *thread_ = detail::this_thread();
    int previous_ = 0;
};

} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_SWITCHES_HPP
