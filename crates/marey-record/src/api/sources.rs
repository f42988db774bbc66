//! The functions of the API for records that do not come from the program's threads: samples of
//! stacks, counters, collectives, watched variables.

pub use crate::clock::{monotonic_nanos, ticks as now_ticks};
use crate::losses;
use crate::python_requests::{self, RequestKind};
pub use crate::sampling::{
    DueTask, begin as begin_sampling, end as end_sampling, find_collectives,
    is_due as is_sample_due, is_needed as needs_sampling, next as next_sample,
};
use crate::worker::Worker;
use crate::{clock, fork, local, trace};
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::spool::{Collective, SampleCause};
use std::sync::Arc;

/// One sample of a counter of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterSample {
    /// The interned id of the counter's name, from [`intern`](super::intern). The name ends in the
    /// unit.
    pub name_id: u32,
    /// The number of the device, if the counter belongs to one.
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
    /// The interned id of the thread's name, from [`intern`](super::intern).
    pub thread_name: u32,
    /// The innermost frame, from [`frame_child`](super::frame_child) on the calling thread.
    pub node: u32,
    /// Time since the previous check whether a sample is due, for which this one stands; 0 for a
    /// signal or a request.
    pub duration_nanos: u64,
}

/// Records samples of call stacks that were taken just now. Takes a lock, so only a thread that
/// does nothing else may call it.
pub fn record_samples(samples: &[StackSample], cause: SampleCause) {
    let tree = local::event(|local| Some(Arc::clone(&local.tree)));
    if let Some(tree) = tree {
        trace::write_samples(&tree, samples, cause);
        if cause == SampleCause::Request {
            python_requests::answer(RequestKind::Sample, Ok(samples.len().to_string()));
        }
    }
}

/// Records collectives in the order of their calls. Their texts are ids from
/// [`intern`](super::intern). Takes a lock.
pub fn record_collectives(collectives: Vec<Collective>) {
    trace::write_collectives(collectives);
}

/// The values of watched variables when a line began.
#[derive(Clone, Copy, Debug)]
pub struct LineVariables<'a> {
    /// The operating system's id of the thread.
    pub os_id: u64,
    /// The interned id of the thread's name, from [`intern`](super::intern).
    pub thread_name_id: u32,
    /// The interned id of the file's path.
    pub file_id: u32,
    /// The interned id of the function's name.
    pub function_id: u32,
    /// The line number.
    pub line: u32,
    /// The variables.
    pub variables: &'a [VariableValue],
}

/// The value of a watched variable.
#[derive(Clone, Debug, PartialEq)]
pub struct VariableValue {
    /// The interned id of the variable's name, from [`intern`](super::intern).
    pub name_id: u32,
    /// The interned id of the name of the value's type.
    pub type_id: u32,
    /// The value: a number or a text.
    pub value: MetricValue,
}

/// Records the values of watched variables for trace sessions. Takes a lock, so callers limit their
/// rate.
pub fn record_variables(line: &LineVariables<'_>) {
    trace::write_variables(line);
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

/// Calls a vendor's library while holding locks that the fork handlers take. If the library forks
/// on this thread during the call, its child runs another program at once, so the handlers skip
/// that fork.
pub fn call_library<T>(call: impl FnOnce() -> T) -> T {
    fork::call_library(call)
}
