//! The recorder's API in safe Rust. The functions of the C table wrap these.

use crate::control::CONTROL;
use crate::detached::Detached;
use crate::device::LaunchKind;
use crate::environment;
use crate::error::Error;
use crate::local;
pub use crate::local::{AutogradCall, CudaApi, OperatorCall};
use crate::losses;
use crate::names;
pub use crate::output::DeviceEvent;
use crate::output::{self, Format};
use crate::perf::{self, PerfError};
use crate::session::{SessionId, SessionOptions};
use crate::tree::PYTHON_ROOT;
use crate::worker::Worker;
use crate::{clock, fork, python_requests, recorder, sampling, sync, trace};
use marey_model::context::{ContextSource, NodeKind};
use marey_model::loss::LossCause;
use marey_model::metric::{MetricError, MetricValue};
pub use marey_model::spool::{Collective, CollectiveState, SampleCause};
use std::ffi::c_void;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

/// Initialises what must be initialised when the library is loaded: the start of the clock's
/// calibration, the fork handlers, and the registration for `membarrier(2)`.
pub fn on_load() {
    clock::on_load();
    fork::on_load();
    sync::register_heavy_fences();
}

/// Copies the environment variables again, as starting a session does: see
/// [`crate::environment`].
pub fn copy_environment() {
    environment::refresh();
}

/// Returns the word that is zero while no session is alive. Bindings test it before they call
/// anything.
pub fn live_word() -> &'static AtomicU64 {
    &CONTROL.live
}

/// Whether any session is alive. Without a session nothing is recorded.
#[inline(always)]
pub fn is_live() -> bool {
    CONTROL.is_live()
}

/// Returns the word that is zero while no session records.
pub fn active_word() -> &'static AtomicU64 {
    &CONTROL.active
}

/// Returns the number of a name, for the calls below.
pub fn intern(name: &str) -> u32 {
    names::intern(name)
}

/// Returns the number of a text that is not a name, for the calls below.
pub fn intern_text(text: &str) -> u32 {
    names::intern_text(text)
}

/// Returns the name with this number.
pub fn name(number: u32) -> Arc<str> {
    names::name(number)
}

/// Returns the number of a user metric's name, suffix included. `None` when the table of names is
/// full.
pub fn intern_metric(name: &str) -> Option<u32> {
    names::intern_metric(name)
}

/// Counts performance events in all scopes that are entered from now on, on every thread, as
/// metrics with the names of the events. No names: stops. After an error the previous events are
/// still counted.
pub fn set_performance_events(names: &[&str]) -> Result<(), PerfError> {
    perf::set_events(names)
}

/// Returns the numbers of the metrics of this thread's performance events, and their totals at its
/// latest entry or exit of a scope. Empty if none are counted.
pub fn performance_totals() -> Vec<(u32, u64)> {
    if !CONTROL.is_live() {
        return Vec::new();
    }
    local::event(|local| Some(local.performance_totals())).unwrap_or_default()
}

/// Enters a scope on this thread. Returns its id, or 0 when nothing is recorded.
#[inline(always)]
pub fn enter(name: u32, kind: NodeKind) -> u64 {
    local::enter(name, kind as u8)
}

/// Enters a scope of the kind with this number. An unknown number means a plain scope.
#[inline(always)]
pub fn enter_kind(name: u32, kind: u8) -> u64 {
    local::enter(name, kind)
}

/// Enters a scope below the innermost scope of the task that this thread runs, or of the thread.
/// For sources that call without the GIL, such as operators. The scope itself is on the thread's
/// stack.
#[inline(always)]
pub fn enter_in_current_task(name: u32, kind: NodeKind) {
    let provider = TASK_PROVIDER.load(Ordering::Acquire);
    if provider.is_null() {
        local::enter(name, kind as u8);
    } else if CONTROL.is_live() {
        let leaf = python_leaf();
        event_in_provided_task(provider, move |local, task| {
            local.enter_in_task(name, kind, leaf, task);
        });
    }
}

/// Exits the innermost scope with that name (0: any name). Returns its id, or 0 when there is none.
#[inline(always)]
pub fn exit(name: u32) -> u64 {
    local::exit(name)
}

/// Enters a scope as [`enter_kind`] does. Returns when it began, in ticks, also when nothing is
/// recorded.
pub fn enter_timed(name: u32, kind: u8) -> u64 {
    local::enter_timed(name, kind)
}

/// Exits a scope as [`exit`] does. Returns when it ended, in ticks, also when there is none.
pub fn exit_timed(name: u32) -> u64 {
    local::exit_timed(name)
}

/// Converts ticks to nanoseconds of `CLOCK_MONOTONIC`. The first call measures the rate of the clock;
/// only ticks of later readings can be converted.
pub fn monotonic_nanos(ticks: u64) -> u64 {
    clock::monotonic_nanos(ticks)
}

/// Exits the innermost scope with that name, an operator, and records its part in a backward pass
/// for trace sessions. Without one ([`is_tracing`]), [`exit`] is faster.
pub fn exit_autograd(name: u32, call: AutogradCall) {
    if CONTROL.is_live() {
        let now = clock::ticks();
        local::event(|local| local.exit_autograd(name, now, call));
    }
}

/// Records the arguments of the innermost scope, an operator, for trace sessions, if it is called
/// `name`. `args` is the number of a JSON object, from [`intern_text`]. Returns the operator, for
/// [`add_to_operator`].
pub fn record_inputs(name: u32, args: u32) -> Option<OperatorCall> {
    if !CONTROL.is_live() {
        return None;
    }
    local::event(|local| local.log_inputs(name, args))
}

/// Adds metrics, by the numbers of their names, to the node of an operator of this thread.
pub fn add_to_operator(call: OperatorCall, values: &[(u32, f64)]) {
    if CONTROL.is_live() {
        local::event(|local| local.add_to_operator(call, values));
    }
}

/// Returns the operating system's id of this thread, 0 if the thread has recorded nothing yet.
pub fn thread_os_id() -> u64 {
    local::thread_os_id()
}

/// Exits only the scope with this id, which [`enter`] returned on this thread; scopes inside it
/// stay open. Returns whether it was still open. The end of its session, for one, closes a scope.
#[inline(always)]
pub fn exit_only(scope: u64) -> bool {
    CONTROL.is_live() && local::event(|local| local.exit_only(scope))
}

/// Counts an exit without a matching entry.
pub fn count_unmatched_exit() {
    if CONTROL.is_live() {
        losses::count(LossCause::UnmatchedExit);
    }
}

/// Counts a range that is lost because the table of open ranges is full.
pub fn count_lost_range() {
    losses::count(LossCause::Ranges);
}

/// Records an instant on this thread, with metrics of its own. It has its own node, which counts
/// it.
pub fn record_instant(name: u32, values: &[(u32, MetricValue)]) -> Result<(), MetricError> {
    if !CONTROL.is_live() {
        return Ok(());
    }
    let leaf = python_leaf();
    local::event(|local| Some(local.record_instant(name, leaf, values))).unwrap_or(Ok(()))
}

/// Enters an operator, such as a kernel launch. Operators inside it are not recorded. Returns its
/// id or 0.
pub fn enter_operator(name: u32) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    let leaf = python_leaf();
    local::event(|local| local.enter_operator(name, leaf, None))
}

/// Enters an operator below a detached scope. The operator itself is on the thread's stack.
pub fn enter_operator_in(scope: &Detached, name: u32) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    scope.enter_operator(name, python_leaf())
}

/// Exits the operator in progress. Returns its id or 0.
pub fn exit_operator(name: u32) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    local::event(|local| local.exit_operator(name))
}

/// Records the start of a call that launches work on a device. `correlation` is the correlation id,
/// not 0, of the activities that follow; `call` is the name of the function.
#[inline]
pub fn launch_enter(correlation: u32, call: u32, kind: LaunchKind) {
    if CONTROL.is_live() {
        let leaf = python_leaf();
        event_in_task(move |local, task| {
            local.launch_enter(correlation, call, kind, leaf, task);
        });
    }
}

/// Records the end of a call that launches work. `has_launched` is false if the call failed.
#[inline]
pub fn launch_exit(correlation: u32, has_launched: bool) {
    if CONTROL.is_live() {
        local::event(|local| local.launch_exit(correlation, has_launched));
    }
}

/// Records the start of a CUDA call that launches nothing, for trace sessions. Calls that launch
/// use [`launch_enter`].
pub fn call_enter(cuda_api: CudaApi, correlation: u32, call: u32) {
    if CONTROL.is_live() {
        let leaf = python_leaf();
        event_in_task(move |local, task| {
            local.call_enter(cuda_api, correlation, call, leaf, task);
        });
    }
}

/// Records the end of a CUDA call that launches nothing.
pub fn call_exit(cuda_api: CudaApi, correlation: u32) {
    if CONTROL.is_live() {
        local::event(|local| local.call_exit(cuda_api, correlation));
    }
}

/// Exits the operator with this id and the scopes inside it, if it is still open on this thread.
/// Returns its id or 0.
pub fn exit_operator_with_id(id: u64) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    local::event(|local| local.exit_with_id(id))
}

/// Enters a state on this thread, until [`exit_state`].
pub fn enter_state(name: u32) {
    if CONTROL.is_live() {
        let leaf = python_leaf();
        local::event(|local| local.enter_state(name, leaf));
    }
}

/// Exits the innermost state, so that the state around it applies again. Returns whether there was
/// one.
pub fn exit_state() -> bool {
    CONTROL.is_live() && local::event(super::local::Local::exit_state)
}

/// Opens a training step on this thread, unless one is open.
pub fn step_begin() {
    if CONTROL.is_live() {
        local::event(super::local::Local::step_begin);
    }
}

/// Closes the training step after the optimizer has stepped, and opens the next.
pub fn step_end() {
    if CONTROL.is_live() {
        local::event(super::local::Local::step_end);
    }
}

/// Adds user metrics, by the numbers of their names, to the innermost scope of this thread.
pub fn add_metrics(values: &[(u32, MetricValue)]) -> Result<(), MetricError> {
    if !CONTROL.is_live() {
        return Ok(());
    }
    local::event(|local| Some(local.add_metrics(values))).unwrap_or(Ok(()))
}

/// Returns the number of the innermost scope's name, 0 when this thread has entered none.
pub fn innermost_name() -> u32 {
    if CONTROL.is_live() { local::event(|local| local.top_name()) } else { 0 }
}

/// Enters a scope outside of any stack, below `parent` or below the thread's innermost scope.
pub fn enter_detached(
    parent: Option<Arc<Detached>>,
    name: u32,
    kind: NodeKind,
) -> Option<Arc<Detached>> {
    if !CONTROL.is_live() {
        return None;
    }
    Detached::enter(parent, name, kind, python_leaf())
}

/// Enters a detached scope of the task that this thread runs. PyTorch's autograd threads, which run
/// backward for this thread, record below it too.
pub fn enter_in_task(
    parent: Option<Arc<Detached>>,
    name: u32,
    kind: NodeKind,
) -> Option<Arc<Detached>> {
    let scope = enter_detached(parent, name, kind)?;
    scope.set_as_task();
    Some(scope)
}

/// Returns the innermost scope of this thread as a detached scope that was exited. Values that
/// become available later can be added to it, in the sessions that record now.
pub fn detach_innermost() -> Option<Arc<Detached>> {
    if !CONTROL.is_live() {
        return None;
    }
    Detached::from_innermost()
}

/// Returns a scope, by default the session's root, as one that is addressed to a session: values
/// added to it and scopes inside it are recorded in this session alone. `None` if the session has not
/// seen the scope, so that it has no place for its values, or the thread cannot record.
pub fn address(
    session: SessionId,
    scope: Option<&Detached>,
) -> Result<Option<Arc<Detached>>, Error> {
    recorder::address(session, scope)
}

/// Writes the names of this thread's open scopes, or of its Python frames, outermost first. Returns how many there are, which may be more than fit.
pub fn context_names(source: ContextSource, names: &mut [u32]) -> usize {
    if !CONTROL.is_live() {
        return 0;
    }
    let leaf = (source == ContextSource::Python).then(call_frame_provider);
    local::event(|local| local.context_names(leaf, names))
}

/// Returns the number of the name of this thread's innermost state, 0 for none.
pub fn state_name() -> u32 {
    if CONTROL.is_live() { local::event(|local| local.state_name()) } else { 0 }
}

// Sources other than the program's threads.

/// One sample of a counter of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterSample {
    /// Number of the counter's name, from [`intern`]. The name ends in the unit.
    pub name: u32,
    /// Number of the device, if the counter belongs to one.
    pub device: Option<u32>,
    /// The time of reading, from [`now_ticks`]. Samples read together share one time.
    pub time_ticks: u64,
    /// The value.
    pub value: f64,
}

/// A sample of the call stack of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct StackSample {
    /// The operating system's id of the sampled thread.
    pub os_id: u64,
    /// Number of the thread's name, from [`intern`].
    pub thread_name: u32,
    /// The innermost frame, from [`frame_child`] on the calling thread.
    pub node: u32,
    /// Time since the previous sample.
    pub duration_nanos: u64,
}

/// Records samples of call stacks, drawn now. Takes a lock: for a thread that does nothing else.
pub fn record_samples(samples: &[StackSample], cause: SampleCause) {
    let tree = local::event(|local| Some(Arc::clone(&local.tree)));
    if let Some(tree) = tree {
        trace::write_samples(&tree, samples, cause);
        if cause == SampleCause::Request {
            python_requests::answer_sample(samples.len());
        }
    }
}

/// Whether the settings or a request need a sampling thread.
pub fn needs_sampling() -> bool {
    sampling::is_needed()
}

/// Returns the number of a new sampling thread, 0 if none is needed or one runs.
pub fn begin_sampling() -> u32 {
    sampling::begin()
}

/// Ends the sampling thread, which returns from [`next_sample`].
pub fn end_sampling() {
    sampling::end();
}

/// Whether a sample that [`next_sample`] has returned is still to be drawn.
pub fn is_sample_due(cause: SampleCause) -> bool {
    sampling::is_due(cause)
}

/// Waits until a sample is to be drawn, on the sampling thread with this number. Returns the cause
/// and the time for which the sample stands, `None` if the thread is to end.
pub fn next_sample(thread: u32) -> Option<(SampleCause, Duration)> {
    sampling::next(thread)
}

/// Records collectives, in the order of their calls, whose texts are numbers of [`intern`]. Takes a
/// lock.
pub fn record_collectives(collectives: Vec<Collective>) {
    trace::write_collectives(collectives);
}

/// The values of watched variables when a line began.
#[derive(Clone, Copy, Debug)]
pub struct LineVariables<'a> {
    /// The operating system's id of the thread.
    pub os_id: u64,
    /// Number of the thread's name, from [`intern`].
    pub thread_name: u32,
    /// Number of the file's path.
    pub file: u32,
    /// Number of the function's name.
    pub function: u32,
    /// Line.
    pub line: u32,
    /// The variables.
    pub variables: &'a [VariableValue],
}

/// The value of a watched variable.
#[derive(Clone, Debug, PartialEq)]
pub struct VariableValue {
    /// Number of the variable's name, from [`intern`].
    pub name: u32,
    /// Number of the name of the value's type.
    pub value_type: u32,
    /// The value: a number or a text.
    pub value: MetricValue,
}

/// Records the values of watched variables for trace sessions. Takes a lock, so callers limit their
/// rate.
pub fn record_variables(line: &LineVariables<'_>) {
    trace::write_variables(line);
}

/// Returns the current time on the recorder's clock.
pub fn now_ticks() -> u64 {
    clock::ticks()
}

/// Returns the nanoseconds between two times of the recorder's clock, 0 if the second is not later.
pub fn nanos_between(first_ticks: u64, second_ticks: u64) -> u64 {
    clock::nanos(second_ticks.saturating_sub(first_ticks))
}

/// Whether a trace session records now. Without one [`record_counters`] drops its samples.
pub fn is_tracing() -> bool {
    trace::is_recording()
}

/// Records samples of counters. Takes a lock, so the program's own threads must not call it.
pub fn record_counters(samples: &[CounterSample]) {
    trace::write_counters(samples);
}

/// Counts losses of a source.
pub fn count_losses(cause: LossCause, losses: u64) {
    losses::add(cause, losses);
}

/// Starts the thread of a source, if it is not running. From then on the thread is stopped around
/// each fork and does not exist in the child. If the source's library is loaded by now, sessions
/// that are still open at process exit are finalized before that library's exit handlers run.
pub fn start_source(source: &'static Worker) {
    fork::start_source(source);
}

/// Calls a vendor's library with locks held that the fork handlers take. A fork that the library
/// makes on this thread during the call runs another program at once, so the handlers skip it.
pub fn call_library<T>(call: impl FnOnce() -> T) -> T {
    fork::call_library(call)
}

// Tasks.

/// Calls `receive` once, before it returns, with `receiver` and the innermost scope of the task
/// that the calling thread runs, or null if it runs none. Also called by threads that do not hold
/// the GIL.
pub type TaskProvider = extern "C" fn(receive: TaskReceiver, receiver: *mut c_void);

/// Receives a scope, which is valid until this returns.
pub type TaskReceiver = unsafe extern "C" fn(receiver: *mut c_void, scope: *const Detached);

static TASK_PROVIDER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Registers the function that finds the scope of a task. It is called on threads that launch,
/// outside of events.
pub fn set_task_provider(provider: TaskProvider) {
    TASK_PROVIDER.store(provider as *mut (), Ordering::Release);
}

/// Runs an event with the innermost scope of the task that the calling thread runs, if it runs one.
#[inline(always)]
fn event_in_task(run: impl Fn(&mut local::Local, Option<&Detached>)) {
    let provider = TASK_PROVIDER.load(Ordering::Acquire);
    if provider.is_null() {
        local::event(|local| run(local, None));
    } else {
        event_in_provided_task(provider, run);
    }
}

/// Runs an event with the scope that a registered provider finds. Takes the closure by value, so
/// that it can stay in registers on the caller's path without a provider.
#[inline(never)]
fn event_in_provided_task(provider: *mut (), run: impl Fn(&mut local::Local, Option<&Detached>)) {
    call_task_provider(provider, &mut |task| local::event(|local| run(local, task)));
}

#[inline(never)]
#[expect(unsafe_code, reason = "an atomic cannot hold a function pointer, and the function is C's")]
fn call_task_provider(provider: *mut (), mut run: &mut dyn FnMut(Option<&Detached>)) {
    unsafe extern "C" fn receive(receiver: *mut c_void, scope: *const Detached) {
        // SAFETY: `receiver` points to `run` below, which is not used elsewhere during this call.
        // The scope is null or valid until we return, by the contract of `TaskReceiver`.
        unsafe { (*receiver.cast::<&mut dyn FnMut(Option<&Detached>)>())(scope.as_ref()) };
    }
    // SAFETY: only `set_task_provider` stores here, and it stores a `TaskProvider`.
    let provider = unsafe { std::mem::transmute::<*mut (), TaskProvider>(provider) };
    provider(receive, (&raw mut run).cast());
}

// Python frames.

/// Returns the node of the innermost Python frame of the calling thread. Also called by threads
/// that do not hold the GIL.
pub type FrameProvider = extern "C" fn() -> u32;

static FRAME_PROVIDER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Registers the function that walks Python frames. It is called only while a session asks for
/// Python paths, on the thread that enters a scope or launches.
pub fn set_frame_provider(provider: FrameProvider) {
    FRAME_PROVIDER.store(provider as *mut (), Ordering::Release);
}

#[inline(always)]
pub(crate) fn python_leaf() -> u32 {
    let (_, python_sessions) = CONTROL.recording();
    if python_sessions == 0 { PYTHON_ROOT } else { call_frame_provider() }
}

#[cold]
#[inline(never)]
#[expect(unsafe_code, reason = "an atomic cannot hold a function pointer")]
fn call_frame_provider() -> u32 {
    let pointer = FRAME_PROVIDER.load(Ordering::Acquire);
    if pointer.is_null() {
        return PYTHON_ROOT;
    }
    // SAFETY: only `set_frame_provider` stores here, and it stores a `FrameProvider`.
    let provider = unsafe { std::mem::transmute::<*mut (), FrameProvider>(pointer) };
    provider()
}

/// Returns the root of this thread's Python paths and the generation of its tree. Nodes found in
/// another generation are invalid.
pub fn frame_root() -> (u32, u64) {
    (PYTHON_ROOT, local::event(|local| local.tree.generation))
}

/// Returns the node of a Python frame below another node.
pub fn frame_child(parent: u32, name: u32) -> u32 {
    // A frame belongs to no session: any session may have scopes below it.
    local::event(|local| local.child(parent, name, NodeKind::Frame, u64::MAX))
}

// Sessions.

/// Starts a session, active at once. A live session with the same path is activated and returned.
pub fn start(options: &SessionOptions) -> Result<SessionId, Error> {
    environment::refresh();
    start_with_copied_environment(options)
}

/// Starts a session with the environment variables as they were copied last.
pub fn start_with_copied_environment(options: &SessionOptions) -> Result<SessionId, Error> {
    recorder::start(options)
}

/// Lets a session record.
pub fn activate(session: SessionId) -> Result<(), Error> {
    recorder::activate(session)
}

/// Stops a session from recording.
pub fn deactivate(session: SessionId) -> Result<(), Error> {
    recorder::deactivate(session)
}

/// Returns the ids of the live sessions, lowest first.
pub fn live_sessions() -> Vec<SessionId> {
    recorder::live_sessions()
}

/// Returns the ids of the live sessions that record, lowest first.
pub fn active_sessions() -> Vec<SessionId> {
    recorder::active_sessions()
}

/// Ends a session and writes its files. Returns their paths.
pub fn finalize(session: SessionId, format: Option<Format>) -> Result<Vec<PathBuf>, Error> {
    recorder::finalize(session, format)
}

/// Ends a session and writes nothing.
pub fn discard(session: SessionId) -> Result<(), Error> {
    recorder::discard(session)
}

/// Closes the session's phase and opens the next. Returns the number of the next phase.
pub fn advance_phase(session: SessionId) -> Result<u32, Error> {
    recorder::advance_phase(session)
}

/// Whether a phase is complete: no data will be added to it.
pub fn is_phase_complete(session: SessionId, phase: u32) -> Result<bool, Error> {
    recorder::is_phase_complete(session, phase)
}

/// Drops the data of these phases.
pub fn clear_phases(session: SessionId, phases: RangeInclusive<u32>) -> Result<(), Error> {
    recorder::clear_phases(session, phases)
}

/// Returns a phase's profile as a document.
pub fn get_data(session: SessionId, phase: u32, format: Format) -> Result<Vec<u8>, Error> {
    recorder::get_data(session, phase, format)
}

/// Returns the number of scopes on this thread's stack that a session sees.
pub fn stack_depth(session: SessionId) -> Result<u32, Error> {
    recorder::stack_depth(session)
}

/// Returns the source of a session's paths.
pub fn context_source(session: SessionId) -> Result<ContextSource, Error> {
    recorder::context_source(session)
}

/// Returns the run directory that contains a session's events, `None` without a trace.
pub fn run_dir(session: SessionId) -> Result<Option<PathBuf>, Error> {
    recorder::run_dir(session)
}

/// Passes the activities of devices, and the calls of their APIs, of a trace session of this
/// process that has ended to `receive`. `run` is its run directory. Events of an earlier session
/// that had the same slot may be among them. Fails once 64 other sessions have started.
pub fn read_device_events(
    run: &Path,
    session: SessionId,
    mut receive: impl FnMut(DeviceEvent<'_>),
) -> std::io::Result<()> {
    let slot = recorder::slot_of(session)
        .ok_or_else(|| std::io::Error::other(Error::UnknownSession(session)))?;
    output::read_device_events(run, slot, &mut receive)
}

/// Makes a session write no file if it records nothing.
pub fn set_quiet_if_empty(session: SessionId) -> Result<(), Error> {
    recorder::set_quiet_if_empty(session)
}

/// Writes the current state of every session to its file.
pub fn write_checkpoints() {
    recorder::write_checkpoints();
}

/// Ends the background threads if no session is alive. The next session starts them again.
pub fn end_idle_threads() {
    recorder::end_idle_threads();
}

/// Defers the restart of the background threads after this thread's next fork to the caller.
pub fn defer_fork_restart() {
    fork::defer_restart();
}

/// Restarts the background threads after a fork, in the parent.
pub fn after_fork_in_parent() {
    fork::restart_workers();
}
