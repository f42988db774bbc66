/// @file
/// The macros that record a scope from where they are to the end of the block.
///
/// A name is a literal, or any expression that converts to `std::string_view`; it is evaluated only
/// if something listens, inputs and keyword arguments only if something needs them. Several inputs are
/// `marey::inputs(a, b)`, a container of tensors, or one value: see `inputs.hpp`.
///
/// ATen's macros of the same names, which go to PyTorch's profiler, are kept if they are defined
/// before, and replace these if they are defined after. The names with the prefix `MAREY_` always
/// exist.
#ifndef MAREY_MACROS_HPP
#define MAREY_MACROS_HPP

#include "module.hpp"
#include "record.hpp"
#include "version.hpp"

namespace marey {
inline namespace MAREY_HPP_VERSION_ {

namespace detail {

/// Ends a scope that was made in memory, if it was. Inlined, also where an exception ends the block, the
/// pointer needs no memory.
struct ScopeInMemory {
    __attribute__((always_inline)) explicit ScopeInMemory(RecordFunction *scope) noexcept
        : made(scope) {}
    __attribute__((always_inline)) ~ScopeInMemory() {
        if (__builtin_expect(static_cast<long>(made != nullptr), 0)) {
            made->~RecordFunction();
        }
    }
    ScopeInMemory(const ScopeInMemory &) = delete;
    ScopeInMemory &operator=(const ScopeInMemory &) = delete;

    RecordFunction *const made;
};

} // namespace detail

} // namespace MAREY_HPP_VERSION_
} // namespace marey

/// @cond
/* The first argument, and the two after it, which are -1 if they are missing. */
#define MAREY_INPUTS_(...) MAREY_INPUTS_I_(__VA_ARGS__, -1)
#define MAREY_INPUTS_I_(inputs, ...) inputs
#define MAREY_SEQUENCE_(...) MAREY_SEQUENCE_I_(__VA_ARGS__, -1, -1, -1)
#define MAREY_SEQUENCE_I_(inputs, sequence, forward_thread, ...) sequence, forward_thread

/* The scope is made only if something listens, in memory of its own, so that the pointer to it stays in
 * a register. GCC would keep a constant pointer in memory. */
#define MAREY_BEGIN_(guard, scope, fn, describe, ...)                                             \
    alignas(::marey::RecordFunction) unsigned char MAREY_JOIN_(                                   \
        guard, _memory)[sizeof(::marey::RecordFunction)];                                         \
    ::marey::detail::ScopeInMemory MAREY_JOIN_(guard, _end)(                                      \
        ::marey::detail::is_listened_to()                                                         \
            ? ::marey::RecordFunction::make(MAREY_JOIN_(guard, _memory), scope)                   \
            : nullptr);                                                                           \
    if (MAREY_JOIN_(guard, _end).made != nullptr) {                                              \
        ::marey::RecordFunction &guard = *MAREY_JOIN_(guard, _end).made;                         \
        static ::std::atomic<::std::uint32_t> marey_name_{0};                                     \
        guard.setName((fn), __builtin_constant_p(fn) ? &marey_name_ : nullptr);                   \
        describe;                                                                                 \
        guard.before(__VA_ARGS__);                                                                \
    }                                                                                             \
    static_assert(true, "ends with a semicolon")

#define MAREY_IF_NEEDED_(guard, inputs, ...)                                                      \
    if (guard.needsInputs()) {                                                                    \
        guard.setInputs(inputs);                                                                  \
        __VA_ARGS__                                                                               \
    }

#define MAREY_GUARD_ MAREY_JOIN_(marey_guard_, __COUNTER__)

#define MAREY_WITH_INPUTS_(guard, scope, fn, ...)                                                 \
    MAREY_BEGIN_(guard, scope, fn, MAREY_IF_NEEDED_(guard, MAREY_INPUTS_(__VA_ARGS__), ),         \
                 MAREY_SEQUENCE_(__VA_ARGS__))

#define MAREY_WITH_KWARGS_(guard, scope, fn, inputs, kwargs)                                      \
    MAREY_BEGIN_(guard, scope, fn,                                                                \
                 MAREY_IF_NEEDED_(guard, inputs, guard.setKwargs(kwargs);), -1)

#define MAREY_WITH_HANDLE_(guard, fn, handle, inputs)                                             \
    MAREY_BEGIN_(guard, ::marey::RecordScope::LITE_INTERPRETER, fn,                               \
                 MAREY_IF_NEEDED_(guard, inputs, ) guard.setDebugHandle(handle), -1)
/// @endcond

/** RECORD_FUNCTION_WITH_SCOPE(scope, fn, inputs[, sequence number[, forward thread]]) */
#define MAREY_RECORD_FUNCTION_WITH_SCOPE(scope, fn, ...)                                          \
    MAREY_WITH_INPUTS_(MAREY_GUARD_, scope, fn, __VA_ARGS__)

/** RECORD_FUNCTION(fn, inputs[, sequence number[, forward thread]]) */
#define MAREY_RECORD_FUNCTION(fn, ...)                                                            \
    MAREY_RECORD_FUNCTION_WITH_SCOPE(::marey::RecordScope::FUNCTION, fn, __VA_ARGS__)

/** RECORD_FUNCTION_WITH_KWARGS(fn, inputs, kwargs), where `kwargs` is a `marey::Kwargs`. */
#define MAREY_RECORD_FUNCTION_WITH_KWARGS(fn, inputs, kwargs)                                     \
    MAREY_WITH_KWARGS_(MAREY_GUARD_, ::marey::RecordScope::FUNCTION, fn, inputs, kwargs)

/** RECORD_USER_SCOPE(fn) */
#define MAREY_RECORD_USER_SCOPE(fn)                                                               \
    MAREY_BEGIN_(MAREY_GUARD_, ::marey::RecordScope::USER_SCOPE, fn, static_cast<void>(0), -1)

/** RECORD_USER_SCOPE_WITH_INPUTS(fn, inputs) */
#define MAREY_RECORD_USER_SCOPE_WITH_INPUTS(fn, inputs)                                           \
    MAREY_RECORD_FUNCTION_WITH_SCOPE(::marey::RecordScope::USER_SCOPE, fn, inputs)

/** RECORD_USER_SCOPE_WITH_KWARGS_ONLY(fn, kwargs) */
#define MAREY_RECORD_USER_SCOPE_WITH_KWARGS_ONLY(fn, kwargs)                                      \
    MAREY_WITH_KWARGS_(MAREY_GUARD_, ::marey::RecordScope::USER_SCOPE, fn, {}, kwargs)

/** RECORD_TORCHSCRIPT_FUNCTION(fn, inputs) */
#define MAREY_RECORD_TORCHSCRIPT_FUNCTION(fn, inputs)                                             \
    MAREY_RECORD_FUNCTION_WITH_SCOPE(::marey::RecordScope::TORCHSCRIPT_FUNCTION, fn, inputs)

/** RECORD_EDGE_SCOPE(fn) */
#define MAREY_RECORD_EDGE_SCOPE(fn)                                                               \
    MAREY_BEGIN_(MAREY_GUARD_, ::marey::RecordScope::LITE_INTERPRETER, fn, static_cast<void>(0),  \
                 -1)

/** RECORD_EDGE_SCOPE_WITH_DEBUG_HANDLE_AND_INPUTS(fn, debug handle, inputs) */
#define MAREY_RECORD_EDGE_SCOPE_WITH_DEBUG_HANDLE_AND_INPUTS(fn, handle, inputs)                  \
    MAREY_WITH_HANDLE_(MAREY_GUARD_, fn, handle, inputs)

/** RECORD_MODULE(name): a module, whose name is a part of the "Module Hierarchy" inside. */
#define MAREY_RECORD_MODULE(name) const ::marey::ModuleScope MAREY_GUARD_(name)

/// The macro with the prefix `MAREY_`, unless ATen defines this one.
/// @{
#ifndef RECORD_FUNCTION
#define RECORD_FUNCTION MAREY_RECORD_FUNCTION
#define RECORD_FUNCTION_WITH_SCOPE MAREY_RECORD_FUNCTION_WITH_SCOPE
#define RECORD_USER_SCOPE MAREY_RECORD_USER_SCOPE
#define RECORD_USER_SCOPE_WITH_INPUTS MAREY_RECORD_USER_SCOPE_WITH_INPUTS
#define RECORD_USER_SCOPE_WITH_KWARGS_ONLY MAREY_RECORD_USER_SCOPE_WITH_KWARGS_ONLY
#define RECORD_TORCHSCRIPT_FUNCTION MAREY_RECORD_TORCHSCRIPT_FUNCTION
#define RECORD_EDGE_SCOPE MAREY_RECORD_EDGE_SCOPE
#define RECORD_EDGE_SCOPE_WITH_DEBUG_HANDLE_AND_INPUTS                                            \
    MAREY_RECORD_EDGE_SCOPE_WITH_DEBUG_HANDLE_AND_INPUTS
#endif
#ifndef RECORD_FUNCTION_WITH_KWARGS
#define RECORD_FUNCTION_WITH_KWARGS MAREY_RECORD_FUNCTION_WITH_KWARGS
#endif
#ifndef RECORD_MODULE
#define RECORD_MODULE MAREY_RECORD_MODULE
#endif
/// @}

#endif // MAREY_MACROS_HPP
