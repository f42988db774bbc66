/// @file
/// The state that all libraries of a process that include this header share: the profile that is
/// being recorded, the events of each thread, and the callbacks.
///
/// `libmarey.so` keeps the address of `Shared`, so that a scope in one library is seen by a profile
/// that another one has enabled. `Shared` is never freed, and a `Thread` only after its thread has
/// ended. Neither points into a library except for the callbacks of the program, so that a library
/// may be closed.
///
/// Each thread writes its own `Thread`, under a lock that is contended only while a profile ends or
/// when a scope ends on another thread.
#ifndef MAREY_SHARED_HPP
#define MAREY_SHARED_HPP

#include "../marey.h"
#include "callbacks.hpp"
#include "event.hpp"
#include "sequence.hpp"
#include "thread_lock.hpp"
#include "version.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <new>
#include <pthread.h>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {
namespace detail {

/// Bits of `Shared::listening`.
constexpr std::uint32_t listens_profile = 1;
constexpr std::uint32_t listens_callbacks = 2;

/// Bits of `Shared::options`.
constexpr std::uint32_t records_scopes = 1;
constexpr std::uint32_t records_shapes = 2;
constexpr std::uint32_t records_names_around = 8;
constexpr std::uint32_t records_frames = 16;
constexpr std::uint32_t records_modules = 32;
constexpr std::uint32_t records_flops = 64;
constexpr std::uint32_t records_counters = 128;
constexpr std::uint32_t records_memory = 256;
constexpr std::uint32_t records_all_threads = 512;

/// A callback that was added.
struct AddedCallback {
    CallbackHandle handle;
    RecordFunctionCallback callback;
    bool is_enabled;
};

/// A scope of the recorder that another thread has ended. Only its own thread can exit it.
struct EndedElsewhere {
    std::uint64_t id;
    std::uint64_t ticks; // its end
    std::uint64_t sequence;
    std::uint64_t forward_thread;
};

/// The events of a thread, and what belongs to the thread alone.
struct Thread {
    explicit Thread(std::uint32_t os_id) : id(os_id), random(os_id * 0x9E3779B97F4A7C15U + 1) {}

    std::uint32_t id; // of the operating system
    ThreadLock lock;
    // Guarded by `lock`.
    std::vector<Record> open; // in the order of their starts
    std::vector<Record> done;
    std::size_t budget = 0;   // events that fit before the next reservation
    std::uint64_t profile = 0; // that `done` and `open` belong to
    std::vector<EndedElsewhere> ended_elsewhere;

    std::atomic<bool> has_ended_elsewhere{false};
    // Used by the thread alone.
    std::uint64_t joined_profile = 0;
    std::vector<std::string> modules; // paths, outermost first
    LoadedCode code;                  // as of its last native stack
    std::vector<AddedCallback> global_callbacks; // a copy
    std::uint64_t callbacks_version = 0;
    std::vector<AddedCallback> own_callbacks;
    std::uint64_t random;
    int disabled = 0; // guards that are open
    int inside = 0;   // `Inside`s that are open
    std::uint64_t entered_id = 0; // of the innermost scope that `RecordFunction` has entered
    std::int64_t backward_sequence = -1; // of the innermost backward operator

    /// Returns a number from 0 to less than 1.
    double next_random() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        return static_cast<double>(random >> 11) * 0x1p-53;
    }
};

/// The performance events of a profile.
struct Counters {
    std::vector<std::string> names;
    std::vector<std::uint32_t> metrics; // numbers of the names, as the recorder has them
};

/// The state that the libraries of a process share.
struct Shared {
    std::uint64_t layout = 0;
    std::atomic<std::uint32_t> listening{0};
    std::atomic<std::uint32_t> options{0};
    std::atomic<std::uint32_t> scopes{0};
    std::atomic<std::uint64_t> profile{0}; // 0 while none is recorded
    std::atomic<std::uint64_t> next_id{1};
    std::atomic<std::int64_t> remaining_events{0};
    std::atomic<std::uint64_t> dropped_events{0};
    std::atomic<std::int64_t> allocated_bytes{0};
    std::atomic<std::int64_t> clock_offset_ns{0};   // from CLOCK_MONOTONIC to CLOCK_REALTIME
    std::atomic<const Counters *> counters{nullptr}; // one of `kept_counters`
    std::atomic<std::uint64_t> own_session{0}; // the bit of the profile's session in `active`
    std::atomic<bool> is_concrete{false};
    std::atomic<bool> is_off{false}; // enableRecordFunction(false)
    std::atomic<std::uint64_t> callbacks_version{1};

    ForwardThreads forward_threads;

    std::atomic<std::uint32_t> starting_thread{0}; // the thread in `enableProfiler`
    std::atomic<std::uint32_t> forking_thread{0};  // the thread in `fork`, which holds `mutex`

    std::mutex mutex; // guards what follows
    std::vector<std::unique_ptr<Thread>> threads;
    std::size_t next_sweep = 1024;
    std::vector<AddedCallback> callbacks;
    std::uint64_t own_callback_count = 0;
    CallbackHandle next_handle = 1;
    std::uint64_t next_profile = 1;
    ProfilerConfig config;
    std::int64_t start_ns = 0;
    std::int64_t session = MAREY_NO_SESSION;
    bool has_devices = false;
    std::string run;      // path of the run, which may be that of a session around the profile
    std::string run_stem; // path of a run of its own without the extension
    std::vector<std::string> warnings;
    std::vector<std::unique_ptr<Counters>> kept_counters; // never freed: any thread may read them
    std::vector<std::unique_ptr<CodeFile>> code_files;    // never freed either
};

/// A number that differs between versions and standard libraries with another layout of `Shared`.
constexpr std::uint64_t shared_layout() {
#if defined(_GLIBCXX_USE_CXX11_ABI)
    constexpr std::uint64_t library = 2 + _GLIBCXX_USE_CXX11_ABI;
#else
    constexpr std::uint64_t library = 1;
#endif
    return version << 48 | library << 40 | static_cast<std::uint64_t>(sizeof(Shared)) << 20 |
           sizeof(Thread);
}

/* This library's variables. Functions that use them are hidden too, so that no library reads the
 * variables of another one. Null is the word without libmarey.so. */
MAREY_VAR_ const std::uint32_t unsearched = 0x80000000;
MAREY_VAR_ const std::uint32_t *listening_word = &unsearched;
MAREY_VAR_ Shared *shared_pointer = nullptr;
MAREY_VAR_ thread_local Thread *this_thread_pointer = nullptr;

inline std::uint32_t os_thread_id() { return static_cast<std::uint32_t>(syscall(SYS_gettid)); }

/// Returns the time of a clock in nanoseconds.
inline std::int64_t clock_ns(clockid_t clock) {
    timespec time;
    clock_gettime(clock, &time);
    return static_cast<std::int64_t>(time.tv_sec) * 1000000000 + time.tv_nsec;
}

/// Returns nanoseconds since 1970 by a clock that is not adjusted during a profile.
inline std::int64_t now_ns(const Shared &shared) {
    return clock_ns(CLOCK_MONOTONIC) + shared.clock_offset_ns.load(std::memory_order_relaxed);
}

/// The address of the calling thread's `Thread`, 0 if it has none, `being_made` while it is made.
/// All libraries of the process see the same word; an ended thread may have had the same id.
MAREY_FN_ std::uintptr_t &thread_word() { return *marey_load()->cpp_thread(); }

constexpr std::uintptr_t being_made = 1;

/// Sets a word to `being_made` to the end of the block, unless it gets another value.
struct BeingMade {
    explicit BeingMade(std::uintptr_t &thread_word) : word(thread_word) { word = being_made; }
    ~BeingMade() { word = word == being_made ? 0 : word; }
    BeingMade(const BeingMade &) = delete;
    BeingMade &operator=(const BeingMade &) = delete;
    std::uintptr_t &word;
};

/// The calling thread works for marey to the end of the block. What it allocates there is not
/// reported, because `operator new` may report its allocations: the thread may hold a lock.
class Inside {
public:
    explicit Inside(Thread &thread) : thread_(thread) { thread.inside++; }
    ~Inside() { thread_.inside--; }
    Inside(const Inside &) = delete;
    Inside &operator=(const Inside &) = delete;

private:
    Thread &thread_;
};

/// Makes scopes look for callbacks while a thread has any. The caller holds the lock.
inline void listen_to_callbacks(Shared &shared) {
    if (shared.callbacks.empty() && shared.own_callback_count == 0) {
        shared.listening.fetch_and(~listens_callbacks, std::memory_order_release);
    } else {
        shared.listening.fetch_or(listens_callbacks, std::memory_order_release);
    }
}

/* A forked child has no profile, and no callbacks of threads that it does not have. Other threads may
 * have been writing their events. A vendor's library may fork while a profile starts, to run another
 * program at once: nothing is done then. Each library registers its own functions, because they go
 * when it is closed; those of the first library that is called act for all. */
MAREY_FN_ void before_fork() {
    Shared &shared = *shared_pointer;
    const std::uint32_t thread = os_thread_id();
    if (shared.starting_thread.load() != thread && shared.forking_thread.load() != thread) {
        shared.mutex.lock();
        shared.forking_thread = thread;
    }
}

MAREY_FN_ void after_fork_in_parent() {
    Shared &shared = *shared_pointer;
    if (shared.forking_thread.load() == os_thread_id()) {
        shared.forking_thread = 0;
        shared.mutex.unlock();
    }
}

MAREY_FN_ void after_fork_in_child() {
    Shared &shared = *shared_pointer;
    const std::uint32_t parent = shared.forking_thread.load();
    if (parent == 0) {
        return;
    }
    std::unique_ptr<Thread> own;
    for (std::unique_ptr<Thread> &thread : shared.threads) {
        if (thread.get() == reinterpret_cast<Thread *>(thread_word())) {
            own = std::move(thread);
        }
        thread.release(); // may be half written
    }
    shared.threads.clear();
    shared.own_callback_count = own == nullptr ? 0 : own->own_callbacks.size();
    if (own != nullptr) {
        own->id = os_thread_id();
        own->open.clear();
        own->done.clear();
        shared.threads.push_back(std::move(own));
    }
    shared.profile = 0;
    shared.session = MAREY_NO_SESSION;
    shared.listening.fetch_and(~listens_profile);
    listen_to_callbacks(shared);
    shared.forking_thread = 0;
    shared.mutex.unlock();
}

/// Finds or creates what the process shares; null without libmarey.so.
MAREY_FN_ Shared *find_shared() {
    const marey_table_t *table = marey_load();
    if (table == nullptr) {
        __atomic_store_n(&listening_word, nullptr, __ATOMIC_RELEASE);
        return nullptr;
    }
    std::uintptr_t address = __atomic_load_n(table->cpp_state, __ATOMIC_ACQUIRE);
    if (address == 0) {
        if (thread_word() == being_made) {
            return nullptr; // `operator new` was called below
        }
        const BeingMade made(thread_word());
        Shared *created = new (std::nothrow) Shared;
        if (created == nullptr) {
            return nullptr;
        }
        created->layout = shared_layout();
        const auto created_address = reinterpret_cast<std::uintptr_t>(created);
        if (__atomic_compare_exchange_n(table->cpp_state, &address, created_address, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            address = created_address;
        } else {
            delete created;
        }
    }
    Shared *shared = reinterpret_cast<Shared *>(address);
    if (shared->layout != shared_layout()) {
        __atomic_store_n(&listening_word, nullptr, __ATOMIC_RELEASE);
        return nullptr;
    }
    __atomic_store_n(&shared_pointer, shared, __ATOMIC_RELEASE);
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    __atomic_store_n(&listening_word, reinterpret_cast<const std::uint32_t *>(&shared->listening),
                     __ATOMIC_RELEASE);
    return shared;
}

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "Shared::listening is read as a plain word");

/// Returns what the process shares; null without libmarey.so.
MAREY_FN_ Shared *shared() {
    Shared *found = __atomic_load_n(&shared_pointer, __ATOMIC_ACQUIRE);
    if (found != nullptr || __atomic_load_n(&listening_word, __ATOMIC_ACQUIRE) == nullptr) {
        return found;
    }
    return find_shared();
}

/// Whether a profile, a callback or a session of the recorder listens to scopes. Without libmarey.so
/// this is one load and a branch.
MAREY_FN_ bool is_listened_to() {
    const std::uint32_t *word = __atomic_load_n(&listening_word, __ATOMIC_ACQUIRE);
    if (word == nullptr) {
        return false;
    }
    return __atomic_load_n(word, __ATOMIC_RELAXED) != 0 ||
           __atomic_load_n(__atomic_load_n(&marey_live_, __ATOMIC_ACQUIRE), __ATOMIC_RELAXED) != 0;
}

/// Frees the threads that have ended and have no events. The caller holds the lock.
inline void sweep_threads(Shared &shared) {
    if (shared.threads.size() < shared.next_sweep) {
        return;
    }
    const std::uint32_t current = os_thread_id();
    std::vector<std::unique_ptr<Thread>> kept;
    for (std::unique_ptr<Thread> &thread : shared.threads) {
        bool is_kept = syscall(SYS_tgkill, getpid(), thread->id, 0) == 0;
        if (!is_kept) {
            // Another thread may be ending a scope of this one.
            is_kept = !thread->lock.acquire(current);
            if (!is_kept) {
                is_kept = !thread->open.empty() || !thread->done.empty();
                thread->lock.release();
            }
        }
        if (is_kept) {
            kept.push_back(std::move(thread));
        } else {
            shared.own_callback_count -= thread->own_callbacks.size();
        }
    }
    shared.threads.swap(kept);
    listen_to_callbacks(shared);
    shared.next_sweep = shared.threads.size() * 2 + 1024;
}

MAREY_FN_ Thread *find_this_thread(Shared &shared) {
    std::uintptr_t &word = thread_word();
    if (word == being_made) {
        return nullptr;
    }
    if (word == 0) {
        const BeingMade made(word);
        const std::lock_guard<std::mutex> guard(shared.mutex);
        sweep_threads(shared);
        shared.threads.push_back(std::make_unique<Thread>(os_thread_id()));
        word = reinterpret_cast<std::uintptr_t>(shared.threads.back().get());
    }
    return this_thread_pointer = reinterpret_cast<Thread *>(word);
}

/// Returns the calling thread's events and settings; null inside of the first such call of the
/// thread, whose allocations may call marey.
MAREY_FN_ Thread *this_thread(Shared &shared) {
    Thread *thread = this_thread_pointer;
    return thread != nullptr ? thread : find_this_thread(shared);
}

/// As above; null without libmarey.so too.
MAREY_FN_ Thread *this_thread() {
    Shared *found = shared();
    return found == nullptr ? nullptr : this_thread(*found);
}

} // namespace detail
} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_SHARED_HPP
