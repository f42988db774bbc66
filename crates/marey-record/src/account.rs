//! What a profile says about itself: the process, what recording cost, what was lost.

use crate::clock;
use crate::device;
use crate::environment;
use crate::local;
use crate::losses;
use crate::os;
use crate::output::{Meta, Process};
use crate::registry::{self, Activity};
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
    let measured_nanos = SCOPE_PICOS.load(Ordering::Relaxed) as f64 / 1000.0;
    let activity = registry::activity();
    let (scope_nanos, recording_nanos) = estimate(&activity, measured_nanos);
    Overhead { events: activity.events, scope_nanos, recording_nanos, flushing_nanos }
}

/// What a scope costs and what all events cost. No thread spends more time on its events than it lives: a
/// machine that was busy while a scope was measured must not make that more than it can be.
fn estimate(activity: &Activity, measured_nanos: f64) -> (f64, u64) {
    let scopes = activity.events as f64 / 2.0;
    let longest_nanos = clock::nanos(activity.ticks) as f64;
    let scope_nanos = measured_nanos.min(longest_nanos / scopes.max(1.0));
    (scope_nanos, (scopes * scope_nanos) as u64)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_takes_no_more_than_the_time_of_the_threads() {
        // Of a minute and a quarter, in a tight loop.
        let ticks = (75e9 / clock::nanos(1 << 40) as f64 * (1_u64 << 40) as f64) as u64;
        let activity = Activity { events: 1_188_000_000, ticks };
        let (scope_nanos, recording_nanos) = estimate(&activity, 242.0);
        assert!((120.0..130.0).contains(&scope_nanos), "{scope_nanos}");
        assert!((74_000_000_000..75_010_000_000).contains(&recording_nanos), "{recording_nanos}");
        let (scope_nanos, recording_nanos) = estimate(&activity, 75.0);
        assert_eq!((scope_nanos.to_bits(), recording_nanos), (75_f64.to_bits(), 44_550_000_000));
    }
}
