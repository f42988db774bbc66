//! Tracks the sessions of a process frame by frame: which are active, in which phase, and when they
//! were recording.

use std::collections::HashMap;

use marey_model::spool::SessionEvent;

/// The sessions of a process as of the last frame.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    sessions: Vec<CollectedSession>,
    /// The position of each session that has not ended, by its number.
    active: HashMap<u32, usize>,
}

/// A session. Times are on the recorder's clock.
#[derive(Debug)]
pub(super) struct CollectedSession {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) start_nanos: i64,
    pub(super) end_nanos: Option<i64>,
    /// The phases with their starts, in order.
    pub(super) phases: Vec<(u32, i64)>,
    /// The intervals in which the session was recording.
    recording: Vec<(i64, i64)>,
}

impl Sessions {
    /// Applies an event to the session of this number. Events of a session that never started are
    /// ignored.
    pub(super) fn apply(&mut self, number: u32, event: SessionEvent, name: &str, time_nanos: i64) {
        if event == SessionEvent::Started {
            self.active.insert(number, self.sessions.len());
            self.sessions.push(CollectedSession {
                number,
                name: name.to_owned(),
                start_nanos: time_nanos,
                end_nanos: None,
                phases: vec![(0, time_nanos)],
                recording: vec![(time_nanos, i64::MAX)],
            });
            return;
        }
        let Some(&index) = self.active.get(&number) else { return };
        let session = &mut self.sessions[index];
        match event {
            SessionEvent::Started => {}
            SessionEvent::Activated => {
                session.pause(time_nanos);
                session.recording.push((time_nanos, i64::MAX));
            }
            SessionEvent::Deactivated => session.pause(time_nanos),
            SessionEvent::Phase(phase) => session.phases.push((phase, time_nanos)),
            SessionEvent::Finalized => {
                session.end_nanos = Some(time_nanos);
                self.active.remove(&number);
            }
        }
    }

    /// Returns all sessions so far, in the order of their starts.
    pub(super) fn all(&self) -> &[CollectedSession] {
        &self.sessions
    }

    /// Returns the phase of the first session in a mask.
    pub(super) fn phase(&self, session_mask: u64) -> u32 {
        let first = self.active.get(&session_mask.trailing_zeros());
        first.and_then(|&index| self.sessions[index].phases.last()).map_or(0, |&(phase, _)| phase)
    }

    /// Returns the sessions of a mask that have not ended and were recording at `time_nanos`.
    pub(super) fn recording_at(&self, session_mask: u64, time_nanos: i64) -> u64 {
        let recording = self.active.iter().filter(|&(&number, &index)| {
            session_bit(number) & session_mask != 0
                && self.sessions[index].was_recording(time_nanos)
        });
        recording.fold(0, |mask, (&number, _)| mask | session_bit(number))
    }
}

impl CollectedSession {
    fn pause(&mut self, time_nanos: i64) {
        if let Some((_, end_nanos)) = self.recording.last_mut() {
            *end_nanos = time_nanos.min(*end_nanos);
        }
    }

    fn was_recording(&self, time_nanos: i64) -> bool {
        let last = self.recording.iter().rfind(|(start_nanos, _)| *start_nanos <= time_nanos);
        last.is_some_and(|(_, end_nanos)| time_nanos < *end_nanos)
    }
}

/// Returns the bit of a session in a mask. There are at most 64 sessions.
pub(super) fn session_bit(session: u32) -> u64 {
    1_u64.checked_shl(session).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_records_until_it_is_paused_or_ends() {
        let mut sessions = Sessions::default();
        sessions.apply(0, SessionEvent::Started, "a", 10);
        sessions.apply(3, SessionEvent::Started, "b", 15);
        sessions.apply(0, SessionEvent::Deactivated, "", 20);
        sessions.apply(0, SessionEvent::Activated, "", 30);
        let recording = |time_nanos| sessions.recording_at(u64::MAX, time_nanos);
        assert_eq!([9, 10, 15, 19].map(recording), [0, 0b1, 0b1001, 0b1001]);
        assert_eq!([20, 29, 30].map(recording), [0b1000, 0b1000, 0b1001]);
        assert_eq!(sessions.recording_at(0b1, 15), 0b1);
        sessions.apply(3, SessionEvent::Finalized, "", 40);
        assert_eq!(sessions.recording_at(u64::MAX, 15), 0b1);
    }
}
