/// @file
/// The lock of a thread's events.
#ifndef MAREY_THREAD_LOCK_HPP
#define MAREY_THREAD_LOCK_HPP

#include "version.hpp"

#include <atomic>
#include <cstdint>
#include <ctime>
#include <thread>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {
namespace detail {

/// A lock that fails instead of waiting for its own thread, which a signal may have interrupted.
class ThreadLock {
public:
    /// Returns false if the calling thread holds the lock, or if another one has held it for a
    /// second.
    bool acquire(std::uint32_t thread) {
        std::uint32_t holder = 0;
        if (holder_.compare_exchange_strong(holder, thread, std::memory_order_acquire)) {
            return true;
        }
        return holder != thread && wait(thread);
    }

    void release() { holder_.store(0, std::memory_order_release); }

private:
    bool wait(std::uint32_t thread) {
        constexpr int spins = 1000;
        constexpr int pauses = 1000; // of a millisecond
        for (int i = 0; i < spins + pauses; i++) {
            std::uint32_t holder = 0;
            if (holder_.compare_exchange_weak(holder, thread, std::memory_order_acquire)) {
                return true;
            }
            if (i < spins) {
                std::this_thread::yield();
            } else {
                const timespec pause = {0, 1000000};
                nanosleep(&pause, nullptr);
            }
        }
        return false;
    }

    std::atomic<std::uint32_t> holder_{0};
};

} // namespace detail
} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_THREAD_LOCK_HPP
