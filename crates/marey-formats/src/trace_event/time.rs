//! When events are.

use marey_model::args::NewArgs;

use super::event::Event;
use super::number::nanos;

/// When an event is, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times<'a> {
    pub(super) start_nanos: i64,
    /// Never less than 0.
    pub(super) duration_nanos: i64,
    /// Whether the end is unknown.
    pub(super) is_open: bool,
    /// The duration as the file has it, if it is none.
    odd: Option<&'a str>,
}

impl<'a> Times<'a> {
    /// `None`, if there is no time that can be told.
    pub(super) fn of(event: &Event<'a>) -> Option<Self> {
        let start_nanos = nanos(event.time())?;
        let said = event.duration();
        let duration = nanos(said);
        let is_odd = !said.is_empty() && duration.is_none_or(|duration| duration < 0);
        Some(Self {
            start_nanos,
            duration_nanos: duration.unwrap_or(0).max(0),
            is_open: duration.is_none(),
            odd: is_odd.then_some(said),
        })
    }

    /// Keeps what the file says of a duration that is none.
    pub(super) fn odd_into(&self, event: &Event, args: &mut NewArgs) {
        if let Some(duration) = self.odd {
            event.add("dur", duration, args);
        }
    }
}
