/*
 * Parts that the headers of Proton's C++ interface share; nothing here is for programs to call.
 *
 * Each library has its own copy of everything that has static data, which is hidden, so that a library
 * can be unloaded. The inline namespace keeps apart the symbols of Triton's libproton.so, and of code
 * that is compiled without exceptions.
 */
#ifndef MAREY_PROTON_DETAIL_HPP
#define MAREY_PROTON_DETAIL_HPP

#include <cstdint>
#include <cstdio>
#include <exception>
#include <mutex>
#include <new>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <string_view>

#include "../../marey.h"

#ifdef __cpp_exceptions
#define MAREY_PROTON_VERSION marey_1
#else
#define MAREY_PROTON_VERSION marey_1_noexcept
#endif

/** Of static data, and of the functions and classes that use them: a copy for each library. */
#define MAREY_PROTON_HIDDEN __attribute__((visibility("hidden")))

/** Proton's classes. Plug-ins may be declared in it too. */
namespace proton {
inline namespace MAREY_PROTON_VERSION {
#pragma GCC visibility push(hidden)
namespace detail {

/* Reports an error: throws std::runtime_error, or without exceptions prints the message, after which
 * the caller returns. */
inline void fail(const std::string &message) {
#ifdef __cpp_exceptions
    throw std::runtime_error(message);
#else
    std::fprintf(stderr, "marey: error: %s\n", message.c_str());
#endif
}

/* Fails if a call of the recorder has failed. Without libmarey.so nothing is recorded, which is no
 * failure. */
inline bool check(const marey_error_t &error) {
    if (error.code == MAREY_OK || error.code == MAREY_ABSENT) {
        return true;
    }
    fail(error.message);
    return false;
}

/* Calls a function where nobody can catch its exception. */
template <typename Function> void printErrors(Function function) {
#ifdef __cpp_exceptions
    try {
        function();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "marey: error: %s\n", error.what());
    }
#else
    function();
#endif
}

inline std::string nameText(const marey_table_t &table, std::uint32_t name) {
    std::string text;
    table.name_text(
        name,
        [](void *context, const std::uint8_t *bytes, std::size_t len) {
            static_cast<std::string *>(context)->assign(reinterpret_cast<const char *>(bytes), len);
        },
        &text);
    return text;
}

inline std::uint32_t intern(const marey_table_t &table, std::string_view name) {
    return table.intern(name.data(), name.size());
}

/* The depth of operators on this thread. Interfaces are told of the outermost one alone. */
inline std::size_t &opDepth() {
    static thread_local std::size_t depth = 0;
    return depth;
}

/* Replaces the state that this thread has set here; null exits it. */
inline void setState(const char *name) {
    static thread_local bool isSet = false;
    if (isSet) {
        marey_state_exit();
        isSet = false;
    }
    if (name != nullptr && marey_live_table_() != nullptr) {
        marey_state_enter(marey_name(name));
        isSet = true;
    }
}

/* The lock of all data of this library: held for a moment, and never while a plug-in or the recorder is
 * called. A fork waits for it, so that a child finds everything complete. */
inline std::mutex &dataMutex() {
    struct Lock {
        std::mutex mutex;
        Lock() {
            pthread_atfork([] { dataMutex().lock(); }, [] { dataMutex().unlock(); },
                           [] { dataMutex().unlock(); });
        }
    };
    static Lock &lock = *new Lock;  // never destroyed: destructors of static objects may record
    return lock.mutex;
}

} // namespace detail
#pragma GCC visibility pop

/** A class with one instance for each library that includes this header. */
template <typename T> class Singleton {
public:
    Singleton(const Singleton &) = delete;
    Singleton &operator=(const Singleton &) = delete;

    /** Returns the instance, which the first call makes. */
    MAREY_PROTON_HIDDEN static T &instance() {
        static T &object = *new T;  // never destroyed, for the same reason
        return object;
    }

protected:
    Singleton() = default;
    ~Singleton() = default;
};

} // namespace MAREY_PROTON_VERSION
} // namespace proton

#endif // MAREY_PROTON_DETAIL_HPP
