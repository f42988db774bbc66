/// @file
/// Adding and removing callbacks, and switching scopes off and on.
#ifndef MAREY_SWITCHES_HPP
#define MAREY_SWITCHES_HPP

#include "recording.hpp"

namespace marey {

/// Calls the functions of `callback` around scopes of all threads, until it is removed.
inline CallbackHandle addGlobalCallback(RecordFunctionCallback callback) {
    detail::Shared *all = detail::shared();
    return all == nullptr ? 0 : detail::add_global_callback(*all, callback);
}

/// Calls the functions of `callback` around scopes of this thread, until it is removed.
inline CallbackHandle addThreadLocalCallback(RecordFunctionCallback callback) {
    detail::Shared *all = detail::shared();
    return all == nullptr ? 0 : detail::add_own_callback(*all, detail::this_thread(*all), callback);
}

/// Removes a global callback, or one of this thread. Its end function is still called for scopes
/// that are open.
inline void removeCallback(CallbackHandle handle) {
    if (detail::Shared *all = detail::shared()) {
        detail::change_callback(*all, detail::this_thread(*all), handle, detail::Change::Remove);
    }
}

/// Stops calling a callback, without removing it.
inline void disableCallback(CallbackHandle handle) {
    if (detail::Shared *all = detail::shared()) {
        detail::change_callback(*all, detail::this_thread(*all), handle, detail::Change::Disable);
    }
}

/// Calls a callback again that was disabled.
inline void reenableCallback(CallbackHandle handle) {
    if (detail::Shared *all = detail::shared()) {
        detail::change_callback(*all, detail::this_thread(*all), handle, detail::Change::Enable);
    }
}

/// Whether any global callback, or one of this thread, was added and not removed.
inline bool hasCallbacks() {
    detail::Shared *all = detail::shared();
    if (all == nullptr) {
        return false;
    }
    detail::Thread &thread = detail::this_thread(*all);
    detail::update_callbacks(*all, thread);
    return !thread.global_callbacks.empty() || !thread.own_callbacks.empty();
}

/// Records scopes, or none of any thread.
inline void enableRecordFunction(bool is_enabled = true) {
    if (detail::Shared *all = detail::shared()) {
        all->is_off = !is_enabled;
    }
}

/// Whether scopes of this thread that begin now are recorded if something listens.
inline bool isRecordFunctionEnabled() {
    detail::Shared *all = detail::shared();
    return all != nullptr && !all->is_off && detail::this_thread(*all).disabled == 0;
}

/// Scopes of this thread are not recorded from here to the end of the block.
class DisableRecordFunctionGuard {
public:
    /// Switches the scopes of the calling thread off.
    DisableRecordFunctionGuard() {
        if (detail::Shared *all = detail::shared()) {
            thread_ = &detail::this_thread(*all);
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
    detail::Thread *thread_ = nullptr;
};

/// Scopes of this thread are recorded, or not, from here to the end of the block, whatever guards
/// are around it.
class RecordFunctionGuard {
public:
    /// Switches the scopes of the calling thread on or off.
    explicit RecordFunctionGuard(bool is_enabled = true) {
        if (detail::Shared *all = detail::shared()) {
            thread_ = &detail::this_thread(*all);
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
    detail::Thread *thread_ = nullptr;
    int previous_ = 0;
};

} // namespace marey

#endif // MAREY_SWITCHES_HPP
