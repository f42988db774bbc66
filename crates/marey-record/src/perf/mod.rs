//! Performance counters of scopes: cycles, instructions, cache misses, page faults …
//!
//! While events are set, each thread opens counters for itself ([`group`]), reads it
//! whenever it enters or leaves a scope, and adds the difference to the scope that was the
//! innermost one in between (`local/counters.rs`). So the values of a scope are exclusive.
//!
//! A reading takes about 30 ns where the kernel allows the instruction `rdpmc` ([`page`]), else a
//! system call. Such scopes do not take the fast path.

mod event;
mod group;
mod page;

pub use self::event::UnknownEvent;
pub use self::group::Refusal;
pub(crate) use self::group::{Counts, MAX_EVENTS};

use self::event::Event;
use self::group::Counters;
use crate::control::CONTROL;
use crate::names;
use std::sync::atomic::Ordering;
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
    events: Vec<Event>,
    pub(crate) metrics: Vec<u32>,
}

/// Counts events in all scopes that are entered from now on, on every thread. No names: stops.
/// After an error the previous events are still counted.
pub fn set_events(names: &[&str]) -> Result<(), PerfError> {
    if names.len() > MAX_EVENTS {
        return Err(PerfError::TooMany(names.len()));
    }
    let mut events: Vec<_> =
        names.iter().map(|name| Event::parse(name)).collect::<Result<_, _>>()?;
    events.sort_by_key(Event::source); // stable: as requested within a source
    let set: *const EventSet = if events.is_empty() {
        std::ptr::null()
    } else {
        drop(Counters::open(&events)?); // fails now rather than on each thread
        let metrics = events.iter().filter_map(|event| names::intern_metric(&event.name)).collect();
        // Leaked, because a thread may use it at any time; programs set events a few times.
        Box::leak(Box::new(EventSet { events, metrics }))
    };
    CONTROL.perf_events.store(set.cast_mut(), Ordering::Release);
    CONTROL.invalidate();
    Ok(())
}

/// Returns the events to count, `None` while none are.
#[inline(always)]
#[expect(unsafe_code, reason = "a leaked value is reached by a pointer")]
pub(crate) fn events() -> Option<&'static EventSet> {
    // SAFETY: null, or a value that `set_events` has leaked.
    unsafe { CONTROL.perf_events.load(Ordering::Acquire).as_ref() }
}

/// The counters of a thread.
#[derive(Default)]
pub(crate) struct ThreadCounters {
    /// The events that `counters` count.
    set: Option<&'static EventSet>,
    /// `None` if the thread cannot count `set`.
    counters: Option<Counters>,
}

impl ThreadCounters {
    /// Returns the totals at the latest [`Self::advance`]. `None` if these events are not counted.
    pub(crate) fn latest(&self, set: &'static EventSet) -> Option<Counts> {
        let counters = self.counters.as_ref()?;
        self.set.is_some_and(|known| std::ptr::eq(known, set)).then(|| counters.latest())
    }

    /// Returns the counts since the previous call. `None` if they are unknown: this is the first
    /// call for these events, or they cannot be counted.
    pub(crate) fn advance(&mut self, set: &'static EventSet) -> Option<Counts> {
        if self.set.is_none_or(|known| !std::ptr::eq(known, set)) {
            self.set = Some(set);
            self.counters = Counters::open(&set.events).ok();
            return None;
        }
        let counts = self.counters.as_mut()?.advance();
        if counts.is_none() {
            self.counters = None;
        }
        counts
    }
}
