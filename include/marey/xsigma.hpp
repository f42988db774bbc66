/// @file
/// The names of `marey.hpp` in the namespaces of XSigma's profiler. With `-I INCLUDE/marey/xsigma`
/// programs find this file under XSigma's name, `profiler/kineto/profiler_kineto.h`.
#ifndef MAREY_XSIGMA_HPP
#define MAREY_XSIGMA_HPP

#include "../marey.hpp"

namespace xsigma {

using ::marey::addGlobalCallback;
using ::marey::addThreadLocalCallback;
using ::marey::CallbackHandle;
using ::marey::disableCallback;
using ::marey::DisableRecordFunctionGuard;
using ::marey::enableRecordFunction;
using ::marey::hasCallbacks;
using ::marey::isRecordFunctionEnabled;
using ::marey::ObserverContext;
using ::marey::RecordFunction;
using ::marey::RecordFunctionCallback;
using ::marey::RecordFunctionGuard;
using ::marey::RecordScope;
using ::marey::reenableCallback;
using ::marey::removeCallback;

namespace profiler {
namespace impl {

using ::marey::ActivityType;
using ::marey::disableProfiler;
using ::marey::enableProfiler;
using ::marey::ExperimentalConfig;
using ::marey::get_record_concrete_inputs_enabled;
using ::marey::KinetoEvent;
using ::marey::ProfilerConfig;
using ::marey::ProfilerResult;
using ::marey::ProfilerState;
using ::marey::RecordScope;
using ::marey::set_record_concrete_inputs_enabled;

} // namespace impl
} // namespace profiler

namespace autograd {
namespace profiler {

using ::marey::disableProfiler;
using ::marey::disableProfilerInChildThread;
using ::marey::enableProfiler;
using ::marey::enableProfilerInChildThread;
using ::marey::KinetoEvent;
using ::marey::ProfilerResult;
using ::marey::profilerEnabled;

} // namespace profiler
} // namespace autograd
} // namespace xsigma

#endif // MAREY_XSIGMA_HPP
