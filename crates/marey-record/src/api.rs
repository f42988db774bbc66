//! What faces may ask of the recorder, in safe Rust. The C functions are shells over this.

use crate::control::CONTROL;
use crate::detached::Detached;
use crate::device::LaunchKind;
use crate::environment;
use crate::error::Error;
use crate::local;
pub use crate::local::Interface;
use crate::losses;
use crate::names;
use crate::output::Format;
use crate::session::{SessionId, SessionOptions};
use crate::tree::PYTHON_ROOT;
use crate::worker::Worker;
use crate::{clock, fork, recorder, sync, trace};
use marey_model::context::{ContextSource, NodeKind};
use marey_model::loss::LossCause;
use marey_model::metric::{MetricError, MetricValue};
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Does what is better done as soon as the library is loaded: notes the time, from which the clock is
/// calibrated, and prepares forks and the fences.
pub fn note_load() {
    clock::note_load();
    fork::note_load();
    sync::announce_heavy_fences();
}

/// Looks at the environment again: see [`crate::environment`]. Starting a session does so, too.
pub fn note_environment() {
    environment::note();
}

/// The word that is zero while no session is alive. Faces test it before they call anything.
pub fn live_word() -> &'static AtomicU64 {
    &CONTROL.live
}

/// Whether any session is alive. Without one nothing is recorded.
#[inline(always)]
pub fn is_live() -> bool {
    CONTROL.is_live()
}

/// The word that is zero while no session records.
pub fn active_word() -> &'static AtomicU64 {
    &CONTROL.active
}

/// Number of a name, for the calls below.
pub fn intern(name: &str) -> u32 {
    names::intern(name)
}

/// The name of a number.
pub fn name(number: u32) -> Arc<str> {
    names::name(number)
}

/// Number of a user metric's name, suffix included. `None` when the table of names is full.
pub fn intern_metric(name: &str) -> Option<u32> {
    names::intern_metric(name)
}

/// Enters a scope on this thread; returns its id, 0 when nothing is recorded.
#[inline(always)]
pub fn enter(name: u32, kind: NodeKind) -> u64 {
    local::enter(name, kind as u8)
}

/// The same for the number of a kind; one that names none is a plain scope.
#[inline(always)]
pub fn enter_kind(name: u32, kind: u8) -> u64 {
    local::enter(name, kind)
}

/// Leaves the innermost scope with that name (0: with any); returns its id, 0 when there is none.
#[inline(always)]
pub fn exit(name: u32) -> u64 {
    local::exit(name)
}

/// Leaves the scope with this id, which [`enter`] returned on this thread, and nothing that was entered
/// inside it. Whether it was still open; the end of its session, for one, has closed it.
#[inline(always)]
pub fn leave(scope: u64) -> bool {
    CONTROL.is_live() && local::event(|local| local.leave_only(scope))
}

/// Counts an exit for which there was no entry.
pub fn count_unmatched_exit() {
    if CONTROL.is_live() {
        losses::count(LossCause::UnmatchedExit);
    }
}

/// Counts a range that found no room among those that are open.
pub fn count_lost_range() {
    losses::count(LossCause::Ranges);
}

/// Marks a moment on this thread, with values that belong to it. It counts on a node of its own.
pub fn mark(name: u32, values: &[(u32, MetricValue)]) -> Result<(), MetricError> {
    if !CONTROL.is_live() {
        return Ok(());
    }
    let leaf = python_leaf();
    local::event(|local| Some(local.mark(name, leaf, values))).unwrap_or(Ok(()))
}

/// Enters an operator, such as a kernel launch. Operators inside it are not recorded.
pub fn enter_operator(name: u32) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    let leaf = python_leaf();
    local::event(|local| local.enter_operator(name, leaf, None))
}

/// The same inside a detached scope. The operator itself lies on the thread's stack.
pub fn enter_operator_in(scope: &Detached, name: u32) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    scope.enter_operator(name, python_leaf())
}

/// Leaves the operator.
pub fn exit_operator(name: u32) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    local::event(|local| local.exit_operator(name))
}

/// A call begins on this thread that launches something on a device. `correlation` is the number,
/// not 0, under which the device's library will tell of it, `call` the name of the function.
#[inline]
pub fn launch_enter(correlation: u32, call: u32, kind: LaunchKind) {
    if CONTROL.is_live() {
        let leaf = python_leaf();
        event_in_task(move |local, task| {
            local.launch_enter(correlation, call, kind, leaf, task);
        });
    }
}

/// The call has returned; `has_launched` tells that it did not fail.
#[inline]
pub fn launch_exit(correlation: u32, has_launched: bool) {
    if CONTROL.is_live() {
        local::event(|local| local.launch_exit(correlation, has_launched));
    }
}

/// A call of CUDA begins on this thread, of which sessions that keep every event want to know;
/// [`launch_enter`] is for those that launch.
pub fn call_enter(interface: Interface, correlation: u32, call: u32) {
    if CONTROL.is_live() {
        let leaf = python_leaf();
        event_in_task(move |local, task| {
            local.call_enter(interface, correlation, call, leaf, task);
        });
    }
}

/// The call has returned.
pub fn call_exit(interface: Interface, correlation: u32) {
    if CONTROL.is_live() {
        local::event(|local| local.call_exit(interface, correlation));
    }
}

/// Leaves the operator with this id, and what is open inside it, if it is still open on this thread; returns
/// its id, 0 if it is not.
pub fn exit_operator_with_id(id: u64) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    local::event(|local| local.exit_id(id))
}

/// Sets a state on this thread until [`exit_state`].
pub fn enter_state(name: u32) {
    if CONTROL.is_live() {
        let leaf = python_leaf();
        local::event(|local| local.enter_state(name, leaf));
    }
}

/// Ends the innermost state; the one around it holds again. Whether there was one.
pub fn exit_state() -> bool {
    CONTROL.is_live() && local::event(super::local::Local::exit_state)
}

/// Opens a training step on this thread, unless one is open.
pub fn step_begin() {
    if CONTROL.is_live() {
        local::event(super::local::Local::step_begin);
    }
}

/// The optimizer has stepped: closes the step and opens the next.
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

/// Number of the innermost scope's name; 0 when this thread has entered none.
pub fn top_name() -> u32 {
    if CONTROL.is_live() { local::event(|local| local.top_name()) } else { 0 }
}

/// Enters a scope outside of any stack, below `parent` or below what the thread is in.
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

/// The same for a scope of the task that this thread runs: PyTorch's threads that run backward for it stand
/// there, too.
pub fn enter_in_task(
    parent: Option<Arc<Detached>>,
    name: u32,
    kind: NodeKind,
) -> Option<Arc<Detached>> {
    let scope = enter_detached(parent, name, kind)?;
    scope.stand();
    Some(scope)
}

/// The innermost scope of this thread, as a detached one that was left: values that are known only later
/// can be added to it, in the sessions that record now.
pub fn here() -> Option<Arc<Detached>> {
    if !CONTROL.is_live() {
        return None;
    }
    Detached::here()
}

// Sources beside the program's threads.

/// What a counter of the machine said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counter {
    /// Number of its name, which ends in its unit, as [`intern`] gave it.
    pub name: u32,
    /// Number of the device that it is of, if it is of one.
    pub device: Option<u32>,
    /// When it was read, by [`now_ticks`]; what was read together has one time.
    pub time_ticks: u64,
    /// The value.
    pub value: f64,
}

/// The moment, on the recorder's clock.
pub fn now_ticks() -> u64 {
    clock::ticks()
}

/// Nanoseconds between two moments of the recorder's clock; 0 if the second is no later.
pub fn nanos_between(first_ticks: u64, second_ticks: u64) -> u64 {
    clock::nanos(second_ticks.saturating_sub(first_ticks))
}

/// Whether a trace session records now: without one, nobody wants to know of [`counters`].
pub fn is_tracing() -> bool {
    trace::is_recording()
}

/// Records what counters of the machine said. Takes a lock, and is no call for a program's own threads.
pub fn counters(counters: &[Counter]) {
    trace::counters(counters);
}

/// Counts what a source has lost.
pub fn count_losses(cause: LossCause, losses: u64) {
    losses::add(cause, losses);
}

/// Starts the thread of a source, if it does not run. From then on it is gone while the process
/// forks, and stays away in the child. Sessions that are left open end before the source's library
/// does, if that is loaded by now.
pub fn start_source(source: &'static Worker) {
    fork::start_source(source);
}

/// Makes calls of a vendor's library with locks held that a fork would take. Forks that it makes meanwhile
/// on this thread are its own, and become other programs at once.
pub fn in_library<T>(call: impl FnOnce() -> T) -> T {
    fork::in_library(call)
}

// Tasks.

/// Tells `receive` the innermost scope of the task that the calling thread runs, null where it runs none:
/// once, before it returns, and with `receiver`. Threads that do not hold the GIL call it too.
pub type TaskProvider = extern "C" fn(receive: TaskReceiver, receiver: *mut c_void);

/// Receives a scope, which stays until this returns.
pub type TaskReceiver = unsafe extern "C" fn(receiver: *mut c_void, scope: *const Detached);

static TASK_PROVIDER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Registers the function that knows of tasks. It is called on threads that launch, outside of events.
pub fn set_task_provider(provider: TaskProvider) {
    TASK_PROVIDER.store(provider as *mut (), Ordering::Release);
}

/// Runs an event in the innermost scope of the task that the calling thread runs, if it runs one.
#[inline(always)]
fn event_in_task(run: impl Fn(&mut local::Local, Option<&Detached>)) {
    let provider = TASK_PROVIDER.load(Ordering::Acquire);
    if provider.is_null() {
        local::event(|local| run(local, None));
    } else {
        event_in_asked_task(provider, run);
    }
}

/// The same where there may be one. Takes what it runs along, so that this need not lie in memory elsewhere.
#[inline(never)]
fn event_in_asked_task(provider: *mut (), run: impl Fn(&mut local::Local, Option<&Detached>)) {
    ask_task_provider(provider, &mut |task| local::event(|local| run(local, task)));
}

#[inline(never)]
#[expect(unsafe_code, reason = "an atomic cannot hold a function pointer, and the function is C's")]
fn ask_task_provider(provider: *mut (), mut run: &mut dyn FnMut(Option<&Detached>)) {
    unsafe extern "C" fn receive(receiver: *mut c_void, scope: *const Detached) {
        // SAFETY: the receiver is `run`, below, which nobody else uses meanwhile; the scope is null or stays
        // until we return, as `TaskReceiver` says.
        unsafe { (*receiver.cast::<&mut dyn FnMut(Option<&Detached>)>())(scope.as_ref()) };
    }
    // SAFETY: only `set_task_provider` stores here, and it stores a `TaskProvider`.
    let provider = unsafe { std::mem::transmute::<*mut (), TaskProvider>(provider) };
    provider(receive, (&raw mut run).cast());
}

// Python frames.

/// Returns the node of the innermost Python frame of the calling thread. Threads that do not hold the
/// GIL call it too.
pub type FrameProvider = extern "C" fn() -> u32;

static FRAME_PROVIDER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Registers the function that walks Python frames. It is called only while a session asks for
/// such paths, on the thread that enters a scope or launches.
pub fn set_frame_provider(provider: FrameProvider) {
    FRAME_PROVIDER.store(provider as *mut (), Ordering::Release);
}

#[inline(always)]
pub(crate) fn python_leaf() -> u32 {
    let (_, wanted) = CONTROL.recording();
    if wanted == 0 { PYTHON_ROOT } else { ask_frame_provider() }
}

#[cold]
#[inline(never)]
#[expect(unsafe_code, reason = "an atomic cannot hold a function pointer")]
fn ask_frame_provider() -> u32 {
    let pointer = FRAME_PROVIDER.load(Ordering::Acquire);
    if pointer.is_null() {
        return PYTHON_ROOT;
    }
    // SAFETY: only `set_frame_provider` stores here, and it stores a `FrameProvider`.
    let provider = unsafe { std::mem::transmute::<*mut (), FrameProvider>(pointer) };
    provider()
}

/// The root of this thread's Python paths, and the number of its tree: nodes found under another
/// number mean nothing any more.
pub fn frame_root() -> (u32, u64) {
    (PYTHON_ROOT, local::event(|local| local.tree.generation))
}

/// The node of a Python frame below another one.
pub fn frame_child(parent: u32, name: u32) -> u32 {
    // Frames are nobody's event: any session may find its scopes below them.
    local::event(|local| local.child(parent, name, NodeKind::Frame, u64::MAX))
}

// Sessions.

/// Starts a session, active at once; a live one with the same path is activated and returned.
pub fn start(options: &SessionOptions) -> Result<SessionId, Error> {
    environment::note();
    start_as_noted(options)
}

/// The same with the environment as it was noted last.
pub fn start_as_noted(options: &SessionOptions) -> Result<SessionId, Error> {
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

/// Ids of the sessions that are alive, lowest first.
pub fn alive() -> Vec<SessionId> {
    recorder::alive()
}

/// Ends a session and writes its files; returns their paths.
pub fn finalize(session: SessionId, format: Option<Format>) -> Result<Vec<PathBuf>, Error> {
    recorder::finalize(session, format)
}

/// Ends a session and writes nothing.
pub fn discard(session: SessionId) -> Result<(), Error> {
    recorder::discard(session)
}

/// Closes the session's phase and opens the next, whose number is returned.
pub fn advance_phase(session: SessionId) -> Result<u32, Error> {
    recorder::advance_phase(session)
}

/// Whether a phase will receive nothing more.
pub fn is_phase_complete(session: SessionId, phase: u32) -> Result<bool, Error> {
    recorder::is_phase_complete(session, phase)
}

/// Drops a phase's data, or that of every phase up to it.
pub fn clear(session: SessionId, phase: u32, up_to: bool) -> Result<(), Error> {
    recorder::clear(session, phase, up_to)
}

/// A phase's profile as a document in memory.
pub fn get_data(session: SessionId, phase: u32, format: Format) -> Result<Vec<u8>, Error> {
    recorder::get_data(session, phase, format)
}

/// Scopes of this thread's stack that a session sees.
pub fn depth(session: SessionId) -> Result<u32, Error> {
    recorder::depth(session)
}

/// Where a session's paths come from.
pub fn context(session: SessionId) -> Result<ContextSource, Error> {
    recorder::context(session)
}

/// The run directory that a session's events are in; `None` if it keeps none.
pub fn run_dir(session: SessionId) -> Result<Option<PathBuf>, Error> {
    recorder::run_dir(session)
}

/// Writes no file for this session if it records nothing.
pub fn set_quiet_if_empty(session: SessionId) -> Result<(), Error> {
    recorder::set_quiet_if_empty(session)
}

/// Writes every session's present state to its file, now.
pub fn write_checkpoints() {
    recorder::write_checkpoints();
}

/// Leaves it to the caller to have the background threads started again after this thread's next fork.
pub fn defer_fork_restart() {
    fork::defer_restart();
}

/// Has the background threads started again after a fork, in the parent.
pub fn after_fork_in_parent() {
    fork::restart_workers();
}
