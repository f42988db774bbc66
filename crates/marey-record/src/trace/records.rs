//! Records that do not come from the threads' logs: activities, counters, samples, collectives and
//! watched variables. They go into the spool's buffer at once.

use super::drain::request_drain;
use super::is_recording;
use super::spool::Spool;
use super::tracer::TRACER;
use crate::api::{Collective, CounterSample, LineVariables, StackSample};
use crate::device::{JoinedActivity, LaunchingThreads};
use crate::lock::lock;
use crate::losses;
use crate::thread::ThreadTree;
use marey_model::loss::LossCause;
use marey_model::spool::{Detail, SampleCause};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the spool has samples of call stacks.
static HAS_SAMPLES: AtomicBool = AtomicBool::new(false);

/// Adds activities, whose details are ranges of `details`.
pub(crate) fn add_activities(
    threads: &LaunchingThreads,
    joined: &[JoinedActivity],
    details: &[(Detail, u64)],
) {
    let mut tracer = lock(&TRACER);
    match tracer.spool() {
        Ok(Some(spool)) => {
            spool.add_activities(threads, joined, details);
            if spool.should_flush() {
                request_drain();
            }
        }
        Ok(None) => {}
        Err(_no_spool) => losses::add(LossCause::Spool, joined.len() as u64),
    }
}

/// Adds samples of counters. They reach the file with the next drain.
pub(crate) fn write_counters(samples: &[CounterSample]) {
    write_records(samples.len(), |spool| spool.write_counters(samples));
}

/// Adds samples of counters if there is a spool, and drops them otherwise. So the child of a fork
/// that records nothing itself writes no file.
pub(crate) fn write_counters_to_existing_spool(samples: &[CounterSample]) {
    if is_recording()
        && let Some(spool) = &mut lock(&TRACER).spool
    {
        spool.write_counters(samples);
    }
}

/// Adds samples of call stacks, whose nodes are in the tree of the calling thread. They reach the
/// file with the next drain.
pub(crate) fn write_samples(tree: &ThreadTree, samples: &[StackSample], cause: SampleCause) {
    write_records(samples.len(), |spool| {
        spool.write_samples(tree, samples, cause);
        HAS_SAMPLES.store(true, Ordering::Relaxed);
    });
}

/// Notes that a spool begins, which has no samples of call stacks yet.
pub(super) fn forget_samples() {
    HAS_SAMPLES.store(false, Ordering::Relaxed);
}

/// Whether the spool has samples of call stacks.
pub(crate) fn has_samples() -> bool {
    HAS_SAMPLES.load(Ordering::Relaxed)
}

/// Adds collectives. They reach the file with the next drain.
pub(crate) fn write_collectives(collectives: Vec<Collective>) {
    write_records(collectives.len(), |spool| spool.write_collectives(collectives));
}

/// Adds the values of watched variables. They reach the file with the next drain.
pub(crate) fn write_variables(line: &LineVariables<'_>) {
    write_records(line.variables.len(), |spool| spool.write_variables(line));
}

/// Writes records to the spool while a trace session records.
fn write_records(count: usize, write: impl FnOnce(&mut Spool)) {
    if count == 0 || !is_recording() {
        return;
    }
    match lock(&TRACER).spool() {
        Ok(Some(spool)) => write(spool),
        Ok(None) => {}
        Err(_no_spool) => losses::add(LossCause::Spool, count as u64),
    }
}
