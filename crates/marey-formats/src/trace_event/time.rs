//! Reads the start and the duration of an event.

use marey_model::args::NewArgs;

use super::event::Event;
use super::number::micros_to_nanos;

/// The times of an event in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times<'a> {
    pub(super) start_nanos: i64,
    /// The duration, which is never negative.
    pub(super) duration_nanos: i64,
    /// Whether the end is unknown.
    pub(super) is_open: bool,
    /// The duration in the file, if it is negative or not a number.
    malformed_duration: Option<&'a str>,
}

impl<'a> Times<'a> {
    /// Reads the times. Returns `None` if the start cannot be read.
    pub(super) fn from_event(event: &Event<'a>) -> Option<Self> {
        let start_nanos = micros_to_nanos(event.time())?;
        let duration_json = event.duration();
        let duration = micros_to_nanos(duration_json);
        let is_malformed =
            !duration_json.is_empty() && duration.is_none_or(|duration| duration < 0);
        Some(Self {
            start_nanos,
            duration_nanos: duration.unwrap_or(0).max(0),
            is_open: duration.is_none(),
            malformed_duration: is_malformed.then_some(duration_json),
        })
    }

    /// Adds a malformed duration to arguments.
    pub(super) fn add_malformed_duration(&self, event: &Event, args: &mut NewArgs) {
        if let Some(duration) = self.malformed_duration {
            event.add_arg("dur", duration, args);
        }
    }
}
