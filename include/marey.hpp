/// @file
/// marey for C++17: a profiler of operators with the names of PyTorch's profiler, over `marey.h`.
///
///     #include <marey.hpp>
///
///     marey::ProfilerConfig config(marey::ProfilerState::KINETO);
///     config.report_input_shapes = true;
///     marey::enableProfiler(config, {marey::ActivityType::CPU});
///     {
///         RECORD_FUNCTION("solve", marey::inputs(matrix, vector));
///         ...
///     }
///     auto result = marey::disableProfiler();
///     result->save("trace.json");  // for Perfetto, chrome://tracing, HTA
///     result->save("solve.marey"); // for marey
///
/// Header-only; link with -ldl where the C library wants it. Scopes are also scopes of the sessions
/// of `marey.h` and of Python in the same process. Without `libmarey.so` every call is a no-op, and
/// a scope costs one load and a branch; while nothing listens, four loads.
///
/// Works with `-fno-exceptions` and `-fno-rtti`. Scopes and reports of memory never throw, and the
/// other calls nothing but `std::bad_alloc`; what cannot be recorded is in `ProfilerResult::warnings`
/// and `dropped_events`. Libraries of a process share a profile if the same version of this header
/// and the same standard library compiled them; others record nothing.
#ifndef MAREY_HPP
#define MAREY_HPP

#include "marey/macros.hpp"
#include "marey/memory.hpp"
#include "marey/profiler.hpp"
#include "marey/switches.hpp"

#endif // MAREY_HPP
