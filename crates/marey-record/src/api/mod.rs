//! The recorder's API in safe Rust. The functions of the C table wrap these.
//!
//! This file has the functions for events of the calling thread.

mod providers;
mod sessions;
mod sources;

pub use self::providers::{
    FrameProvider, TaskProvider, TaskReceiver, enter_in_current_task, enter_outliving, frame_child,
    frame_root, set_frame_provider, set_task_provider,
};
pub use self::sessions::*;
pub use self::sources::*;
pub use crate::local::{
    AutogradCall, CudaApi, OperatorCall, enter_timed, exit, exit_timed, thread_os_id,
};
pub use crate::names::{intern, intern_metric, intern_text, name};
pub use crate::output::DeviceEvent;
pub use crate::perf::set_events as set_performance_events;
pub use crate::perf::set_possible_events as set_possible_performance_events;
pub use marey_model::spool::{Collective, CollectiveState, SampleCause};

pub(crate) use self::providers::python_leaf;
use self::providers::{call_frame_provider, event_in_task};
use crate::clock;
use crate::control::CONTROL;
use crate::detached::Detached;
use crate::device::LaunchKind;
use crate::local::{self, Local};
use crate::losses;
use marey_model::context::{ContextSource, NodeKind};
use marey_model::loss::LossCause;
use marey_model::metric::{MetricError, MetricValue};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the word that is zero while no session is alive. Bindings test it before they call
/// anything.
pub fn live_word() -> &'static AtomicU64 {
    &CONTROL.live_sessions
}

/// Whether any session is alive. Without a session nothing is recorded.
#[inline(always)]
pub fn is_live() -> bool {
    CONTROL.is_live()
}

/// Returns the word that is zero while no session records.
pub fn active_word() -> &'static AtomicU64 {
    &CONTROL.active_sessions
}

/// Returns the number of the epoch, which changes when a session starts while none is alive.
pub fn epoch() -> u64 {
    CONTROL.epoch.load(Ordering::Relaxed)
}

/// Returns the metric ids and the totals of this thread's performance events, as of its latest
/// entry or exit of a scope. Empty if none are counted.
pub fn performance_totals() -> Vec<(u32, u64)> {
    if !CONTROL.is_live() {
        return Vec::new();
    }
    local::event(|local| Some(local.performance_totals())).unwrap_or_default()
}

/// Enters a scope on this thread. Returns its id, or 0 when nothing is recorded.
#[inline(always)]
pub fn enter(name_id: u32, kind: NodeKind) -> u64 {
    local::enter(name_id, kind as u8)
}

/// Enters a scope of the kind with this number. An unknown number means a plain scope.
#[inline(always)]
pub fn enter_kind(name_id: u32, kind: u8) -> u64 {
    local::enter(name_id, kind)
}

/// Exits the innermost scope with that name, which is an operator, and records its part in a
/// backward pass for trace sessions. Without a trace session ([`is_tracing`]), [`exit`] is faster.
pub fn exit_autograd(name_id: u32, call: AutogradCall) {
    if CONTROL.is_live() {
        let now = clock::ticks();
        local::event(|local| local.exit_autograd(name_id, now, call));
    }
}

/// Records the arguments of the innermost scope for trace sessions, if that scope has this name.
/// `args_id` is the id of a JSON object, from [`intern_text`]. Returns the
/// operator, for [`add_to_operator`].
pub fn record_inputs(name_id: u32, args_id: u32) -> Option<OperatorCall> {
    if !CONTROL.is_live() {
        return None;
    }
    local::event(|local| local.log_inputs(name_id, args_id))
}

/// Adds metrics, by the ids of their names, to the node of an operator of this thread.
pub fn add_to_operator(call: OperatorCall, values: &[(u32, f64)]) {
    if CONTROL.is_live() {
        local::event(|local| local.add_to_operator(call, values));
    }
}

/// Exits only the scope with this id, which [`enter`] returned on this thread. Scopes inside it
/// stay open. Returns whether it was still open; the end of its session may have closed it.
#[inline(always)]
pub fn exit_only(scope_id: u64) -> bool {
    CONTROL.is_live() && local::event(|local| local.exit_only(scope_id, clock::ticks(), None))
}

/// Exits only the scope with this id, like [`exit_only`], at `end_ticks`, perhaps on another
/// thread. With `call` the scope takes part in a backward pass.
pub fn exit_only_at(scope_id: u64, end_ticks: u64, call: Option<AutogradCall>) -> bool {
    CONTROL.is_live() && local::event(|local| local.exit_only(scope_id, end_ticks, call))
}

/// Exits the scope called `name_id` with this id, and the scopes inside it. It may have been
/// entered on another thread: then that thread exits it alone, at its next event, as of now.
#[inline(always)]
pub fn exit_anywhere(name_id: u32, scope_id: u64) {
    local::exit_anywhere(name_id, scope_id);
}

/// Counts an exit without a matching entry.
pub fn count_unmatched_exit() {
    if CONTROL.is_live() {
        losses::count(LossCause::UnmatchedExit);
    }
}

/// Counts a range that is lost because its table of open ranges is full.
pub fn count_lost_range() {
    losses::count(LossCause::Ranges);
}

/// Records an instant on this thread, with metrics of its own. The instant has its own node, which
/// counts how often it occurred.
pub fn record_instant(name_id: u32, values: &[(u32, MetricValue)]) -> Result<(), MetricError> {
    if !CONTROL.is_live() {
        return Ok(());
    }
    let leaf = python_leaf();
    local::event(|local| Some(local.record_instant(name_id, leaf, values))).unwrap_or(Ok(()))
}

/// Enters an operator, such as a kernel launch. Operators inside it are not recorded. Returns its
/// id or 0.
pub fn enter_operator(name_id: u32) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    let leaf = python_leaf();
    local::event(|local| local.enter_operator(name_id, leaf, None))
}

/// Enters an operator below a detached scope. The operator itself is on the thread's stack.
pub fn enter_operator_in(scope: &Detached, name_id: u32) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    scope.enter_operator(name_id, python_leaf())
}

/// Exits the operator in progress. Returns its id or 0.
pub fn exit_operator(name_id: u32) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    local::event(|local| local.exit_operator(name_id))
}

/// Records the start of a call that launches work on a device. `correlation_id` is the correlation
/// id, not 0, of the activities that follow; `call_name_id` is the name of the function.
#[inline]
pub fn launch_enter(correlation_id: u32, call_name_id: u32, kind: LaunchKind) {
    if CONTROL.is_live() {
        let leaf = python_leaf();
        event_in_task(move |local, task| {
            local.launch_enter(correlation_id, call_name_id, kind, leaf, task);
        });
    }
}

/// Records the end of a call that launches work. `has_launched` is false if the call failed.
#[inline]
pub fn launch_exit(correlation_id: u32, has_launched: bool) {
    if CONTROL.is_live() {
        local::event(|local| local.launch_exit(correlation_id, has_launched));
    }
}

/// Records the start of a CUDA call that launches nothing, for trace sessions. Calls that launch
/// use [`launch_enter`].
pub fn call_enter(cuda_api: CudaApi, correlation_id: u32, call_name_id: u32) {
    if CONTROL.is_live() {
        let leaf = python_leaf();
        event_in_task(move |local, task| {
            local.call_enter(cuda_api, correlation_id, call_name_id, leaf, task);
        });
    }
}

/// Records the end of a CUDA call that launches nothing.
pub fn call_exit(cuda_api: CudaApi, correlation_id: u32) {
    if CONTROL.is_live() {
        local::event(|local| local.call_exit(cuda_api, correlation_id));
    }
}

/// Exits the operator with this id and the scopes inside it, if it is still open on this thread.
/// Returns its id or 0.
pub fn exit_operator_with_id(scope_id: u64) -> u64 {
    if !CONTROL.is_live() {
        return 0;
    }
    local::event(|local| local.exit_with_id(scope_id, clock::ticks()))
}

/// Enters a state on this thread, until [`exit_state`].
pub fn enter_state(name_id: u32) {
    if CONTROL.is_live() {
        let leaf = python_leaf();
        local::event(|local| local.enter_state(name_id, leaf));
    }
}

/// Exits the innermost state, so that the state around it applies again. Returns whether there was
/// one.
pub fn exit_state() -> bool {
    CONTROL.is_live() && local::event(Local::exit_state)
}

/// Opens a training step on this thread, unless one is open.
pub fn step_begin() {
    if CONTROL.is_live() {
        local::event(Local::step_begin);
    }
}

/// Closes the training step after the optimizer has stepped, and opens the next.
pub fn step_end() {
    if CONTROL.is_live() {
        local::event(Local::step_end);
    }
}

/// Adds user metrics, by the ids of their names, to the innermost scope of this thread.
pub fn add_metrics(values: &[(u32, MetricValue)]) -> Result<(), MetricError> {
    if !CONTROL.is_live() {
        return Ok(());
    }
    local::event(|local| Some(local.add_metrics(values))).unwrap_or(Ok(()))
}

/// Returns the id of the innermost scope's name, 0 if this thread has entered none.
pub fn innermost_name_id() -> u32 {
    if CONTROL.is_live() { local::event(|local| local.top_name_id()) } else { 0 }
}

/// Enters a scope outside of any stack, below `parent` or below the thread's innermost scope.
pub fn enter_detached(
    parent: Option<Arc<Detached>>,
    name_id: u32,
    kind: NodeKind,
) -> Option<Arc<Detached>> {
    if !CONTROL.is_live() {
        return None;
    }
    Detached::enter(parent, name_id, kind, python_leaf())
}

/// Enters a detached scope of the task that this thread runs. PyTorch's autograd threads, which run
/// backward for this thread, record below it too.
pub fn enter_in_task(
    parent: Option<Arc<Detached>>,
    name_id: u32,
    kind: NodeKind,
) -> Option<Arc<Detached>> {
    let scope = enter_detached(parent, name_id, kind)?;
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

/// Writes the ids of the names of this thread's open scopes, or of its Python frames, outermost
/// first. Returns their number, which may be larger than `name_ids`.
pub fn context_name_ids(source: ContextSource, name_ids: &mut [u32]) -> usize {
    if !CONTROL.is_live() {
        return 0;
    }
    let leaf = (source == ContextSource::Python).then(call_frame_provider);
    local::event(|local| local.context_name_ids(leaf, name_ids))
}

/// Returns the id of the name of this thread's innermost state, 0 for none.
pub fn state_name_id() -> u32 {
    if CONTROL.is_live() { local::event(|local| local.state_name_id()) } else { 0 }
}
