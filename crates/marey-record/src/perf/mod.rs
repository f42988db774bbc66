//! Performance counters of scopes: cycles, instructions, cache misses, page faults …
//!
//! While events are set, each thread opens counters for itself ([`group`]). It reads them whenever
//! it enters or leaves a scope, and adds the difference to the scope that was innermost in between
//! (`local/counters.rs`). So the values of a scope are exclusive.
//!
//! A reading takes about 30 ns where the kernel allows the instruction `rdpmc` ([`page`]), and a
//! system call elsewhere. Scopes with counters do not take the fast path.

mod event;
mod group;
mod page;

pub use self::event::UnknownEvent;
pub use self::group::Refusal;
pub(crate) use self::group::{Counts, MAX_EVENTS};

use self::event::PerfEvent;
use self::group::CounterGroups;
use crate::control::CONTROL;
use crate::lock::lock;
use crate::names;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// Events that cannot be recorded.
#[derive(Debug, Error)]
pub enum PerfError {
    /// A name is not an event's.
    #[error(transparent)]
    Unknown(#[from] UnknownEvent),
    /// More events than a group has.
    #[error("{0} performance events were requested; at most {MAX_EVENTS} can be recorded at once")]
    TooMany(usize),
    /// The system refuses an event.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// The events that all threads count, and the numbers of their metrics.
pub(crate) struct EventSet {
    events: Vec<PerfEvent>,
    pub(crate) metrics: Vec<u32>,
    /// The number of times that the set was made the current one. A thread whose counters are from
    /// an earlier time opens them again.
    times_set: AtomicU64,
}

/// Each set that was ever set, once. Threads may use a set at any time, so none is freed.
static SETS: Mutex<Vec<&'static EventSet>> = Mutex::new(Vec::new());

/// Counts performance events in all scopes that are entered from now on, on every thread, as
/// metrics with the events' names. Without names, stops counting. After an error the previous
/// events are still counted.
pub fn set_events(names: &[&str]) -> Result<(), PerfError> {
    if names.len() > MAX_EVENTS {
        return Err(PerfError::TooMany(names.len()));
    }
    let mut events: Vec<_> =
        names.iter().map(|name| PerfEvent::parse(name)).collect::<Result<_, _>>()?;
    events.sort_by_key(PerfEvent::source); // stable: as requested within a source
    drop(CounterGroups::open(&events)?); // fails now rather than on each thread
    count_from_now_on(events);
    Ok(())
}

/// Counts those of the events that can be counted, like [`set_events`]. Returns the metric id of
/// each name, or the reason why it is not counted.
pub fn set_possible_events(names: &[&str]) -> Vec<Result<u32, PerfError>> {
    let mut counted: Vec<PerfEvent> = Vec::new();
    let results = names.iter().map(|name| {
        let event = PerfEvent::parse(name)?;
        if counted.len() == MAX_EVENTS {
            return Err(PerfError::TooMany(names.len()));
        }
        let mut events = counted.clone();
        events.push(event.clone());
        events.sort_by_key(PerfEvent::source);
        drop(CounterGroups::open(&events)?);
        counted = events;
        Ok(names::intern_metric(&event.name).unwrap_or_default())
    });
    let results = results.collect();
    count_from_now_on(counted);
    results
}

/// Counts the events, which are sorted by source, in all scopes that are entered from now on.
fn count_from_now_on(events: Vec<PerfEvent>) {
    if events.is_empty() {
        CONTROL.perf_events.store(std::ptr::null_mut(), Ordering::Release);
    } else {
        let set = kept_set(events);
        set.times_set.fetch_add(1, Ordering::Relaxed);
        CONTROL.perf_events.store(std::ptr::from_ref(set).cast_mut(), Ordering::Release);
    }
    CONTROL.invalidate();
}

/// Returns the set of these events.
fn kept_set(events: Vec<PerfEvent>) -> &'static EventSet {
    let metrics = events.iter().filter_map(|event| names::intern_metric(&event.name)).collect();
    let mut sets = lock(&SETS);
    if let Some(set) = sets.iter().find(|set| set.events == events) {
        return set;
    }
    let set = Box::leak(Box::new(EventSet { events, metrics, times_set: AtomicU64::new(0) }));
    sets.push(set);
    set
}

/// Takes the lock for the duration of a fork.
pub(crate) fn lock_for_fork() -> impl Sized {
    lock(&SETS)
}

/// Returns the events to count, `None` while none are.
#[inline(always)]
#[expect(unsafe_code, reason = "a leaked value is reached by a pointer")]
pub(crate) fn events() -> Option<&'static EventSet> {
    // SAFETY: null, or a value that `kept_set` has leaked.
    unsafe { CONTROL.perf_events.load(Ordering::Acquire).as_ref() }
}

/// The counters of a thread.
#[derive(Default)]
pub(crate) struct ThreadCounters {
    /// The events that `counters` count, and their `times_set` when the counters were opened.
    set: Option<(&'static EventSet, u64)>,
    /// `None` if the thread cannot count `set`.
    counters: Option<CounterGroups>,
}

impl ThreadCounters {
    /// Returns the totals at the latest [`Self::advance`]. `None` if these events are not counted.
    pub(crate) fn latest(&self, set: &'static EventSet) -> Option<Counts> {
        let counters = self.counters.as_ref()?;
        self.is_current(set).then(|| counters.latest())
    }

    /// Begins to count these events, if they were set since the previous call. Returns whether they
    /// were.
    #[inline]
    pub(crate) fn begin_if_new(&mut self, set: &'static EventSet) -> bool {
        if self.is_current(set) {
            return false;
        }
        self.set = Some((set, set.times_set.load(Ordering::Relaxed)));
        self.counters = CounterGroups::open(&set.events).ok();
        true
    }

    /// Returns the counts since the previous call. `None` if they cannot be counted.
    pub(crate) fn advance(&mut self) -> Option<Counts> {
        let counts = self.counters.as_mut()?.advance();
        if counts.is_none() {
            self.counters = None;
        }
        counts
    }

    /// Whether the counters were opened after these events were last set.
    fn is_current(&self, set: &'static EventSet) -> bool {
        let times_set = set.times_set.load(Ordering::Relaxed);
        self.set.is_some_and(|(known, times)| std::ptr::eq(known, set) && times == times_set)
    }
}
