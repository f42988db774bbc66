//! Collects the metadata of a profile: the process, the recording overhead and the losses.

use crate::clock;
use crate::device;
use crate::environment;
use crate::local;
use crate::losses;
use crate::os;
use crate::registry::{self, Totals};
use crate::session::Session;
use marey_model::hatchet;
use marey_model::profile::{Meta, Overhead, Process};
use std::sync::atomic::{AtomicU64, Ordering};

/// Time spent on merging trees and writing files since recording began, in nanoseconds.
static FLUSHING_NANOS: AtomicU64 = AtomicU64::new(0);
/// Measured cost of one scope, in picoseconds.
static SCOPE_PICOS: AtomicU64 = AtomicU64::new(0);

/// Resets the counters when recording begins.
pub(crate) fn reset() {
    losses::reset();
    FLUSHING_NANOS.store(0, Ordering::Relaxed);
}

/// Measures the cost of a scope with the sessions that are active now.
pub(crate) fn measure_scope() {
    let picos = local::measure_scope_nanos() * 1000.0;
    SCOPE_PICOS.store(picos as u64, Ordering::Relaxed);
}

/// Adds the time since `ticks` to the flushing time.
pub(crate) fn add_flushing_since(ticks: u64) {
    FLUSHING_NANOS.fetch_add(clock::nanos_since(ticks), Ordering::Relaxed);
}

/// Returns the rank of this process in a distributed job, if the environment defines one.
pub(crate) fn rank() -> Option<u32> {
    marey_model::rank::from_env(environment::text)
}

/// Returns the overhead of recording so far, with the given time spent on writing.
pub(crate) fn overhead(flushing_nanos: u64) -> Overhead {
    let measured_nanos = SCOPE_PICOS.load(Ordering::Relaxed) as f64 / 1000.0;
    let totals = registry::totals();
    let (scope_nanos, recording_nanos) = estimate(&totals, measured_nanos);
    Overhead { events: totals.events, scope_nanos, recording_nanos, flushing_nanos }
}

/// Estimates the cost of one scope and of all events. The total is bounded by the lifetime of the
/// threads, because a machine that was busy during the measurement inflates the cost of a scope.
fn estimate(totals: &Totals, measured_nanos: f64) -> (f64, u64) {
    let scopes = totals.events as f64 / 2.0;
    let lifetime_nanos = clock::nanos(totals.lifetime_ticks) as f64;
    let scope_nanos = measured_nanos.min(lifetime_nanos / scopes.max(1.0));
    (scope_nanos, (scopes * scope_nanos) as u64)
}

/// Returns the metadata for a session's documents. `is_complete` is true once the session is over.
pub(crate) fn for_session(session: &Session, is_complete: bool) -> Meta {
    let losses = losses::snapshot().into_iter();
    let mut losses: Vec<(String, u64)> =
        losses.map(|(cause, count)| (cause.as_str().to_owned(), count)).collect();
    losses.sort();
    let notes = device::notes().into_iter();
    Meta {
        version: Some(hatchet::VERSION),
        overhead: Some(overhead(FLUSHING_NANOS.load(Ordering::Relaxed))),
        losses,
        notes: notes.map(|(key, note)| (key.into_owned(), note)).collect(),
        process: Some(Process {
            pid: std::process::id().into(),
            rank: rank().map(u64::from),
            host: os::host_name(),
            argv: Vec::new(),
            start_unix_nanos: session.start.unix_nanos,
            duration_nanos: clock::nanos_since(session.start.ticks),
            is_complete,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_time_is_bounded_by_the_lifetime_of_the_threads() {
        // 75 s of a tight loop.
        let lifetime_ticks = (75e9 / clock::nanos(1 << 40) as f64 * (1_u64 << 40) as f64) as u64;
        let totals = Totals { events: 1_188_000_000, lifetime_ticks };
        let (scope_nanos, recording_nanos) = estimate(&totals, 242.0);
        assert!((120.0..130.0).contains(&scope_nanos), "{scope_nanos}");
        assert!((74_000_000_000..75_010_000_000).contains(&recording_nanos), "{recording_nanos}");
        let (scope_nanos, recording_nanos) = estimate(&totals, 75.0);
        assert_eq!((scope_nanos.to_bits(), recording_nanos), (75_f64.to_bits(), 44_550_000_000));
    }
}
