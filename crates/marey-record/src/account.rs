//! What a profile says about itself: the process, what recording cost, what was lost.

use crate::clock;
use crate::device;
use crate::environment;
use crate::local;
use crate::losses;
use crate::os;
use crate::output::{Meta, Process};
use crate::registry;
use crate::session::Session;
use marey_model::profile::Overhead;
use std::sync::atomic::{AtomicU64, Ordering};

/// Time spent on merging trees and writing files since recording began.
static FLUSHING_NANOS: AtomicU64 = AtomicU64::new(0);
/// Cost of a scope in thousandths of a nanosecond.
static SCOPE_PICOS: AtomicU64 = AtomicU64::new(0);

/// Recording begins.
pub(crate) fn reset() {
    losses::reset();
    FLUSHING_NANOS.store(0, Ordering::Relaxed);
}

/// Measures what a scope costs with the sessions that are active now.
pub(crate) fn measure_scope() {
    let picos = local::measure_scope_nanos() * 1000.0;
    SCOPE_PICOS.store(picos as u64, Ordering::Relaxed);
}

/// Counts the time since `ticks` as spent on flushing.
pub(crate) fn add_flushing_since(ticks: u64) {
    FLUSHING_NANOS.fetch_add(elapsed_nanos(ticks), Ordering::Relaxed);
}

/// Rank of this process in a distributed job, if the environment tells one.
pub(crate) fn rank() -> Option<u32> {
    marey_model::rank::from_env(environment::text)
}

/// Time since `ticks`.
pub(crate) fn elapsed_nanos(since_ticks: u64) -> u64 {
    clock::nanos(clock::ticks().saturating_sub(since_ticks))
}

/// What recording cost so far, with the time that was spent on writing it.
pub(crate) fn overhead(flushing_nanos: u64) -> Overhead {
    let events = registry::events();
    let scope_nanos = SCOPE_PICOS.load(Ordering::Relaxed) as f64 / 1000.0;
    let recording_nanos = (events as f64 * scope_nanos / 2.0) as u64;
    Overhead { events, scope_nanos, recording_nanos, flushing_nanos }
}

/// What a session's documents say about themselves; `complete` once the session is over.
pub(crate) fn meta(session: &Session, complete: bool) -> Meta {
    let mut losses = losses::snapshot().to_vec();
    losses.sort_by_key(|(cause, _)| cause.as_str());
    Meta {
        process: Process {
            pid: std::process::id(),
            rank: rank(),
            host: os::host_name(),
            start_unix_nanos: session.started.unix_nanos,
            duration_nanos: elapsed_nanos(session.started.ticks),
            complete,
        },
        overhead: overhead(FLUSHING_NANOS.load(Ordering::Relaxed)),
        losses,
        notes: device::notes(),
    }
}
