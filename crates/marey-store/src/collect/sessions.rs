//! What the sessions of a process did, frame by frame.

use std::collections::HashMap;

use marey_model::spool::SessionEvent;

/// The sessions of a process up to a frame.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    all: Vec<Session>,
    /// Position of each session that has not ended, by its number.
    alive: HashMap<u32, usize>,
}

/// A session. Times are of the recorder's clock.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) start_nanos: i64,
    pub(super) end_nanos: Option<i64>,
    /// In order; the last one is open until the session ends.
    pub(super) phases: Vec<(u32, i64)>,
    /// From when to when it was recording, each time.
    recording: Vec<(i64, i64)>,
}

impl Sessions {
    /// Something happens to the session of this number. What happens to one that never started is
    /// no news of any.
    pub(super) fn turn(&mut self, number: u32, event: SessionEvent, name: &str, time_nanos: i64) {
        if event == SessionEvent::Started {
            self.alive.insert(number, self.all.len());
            self.all.push(Session {
                number,
                name: name.to_owned(),
                start_nanos: time_nanos,
                end_nanos: None,
                phases: vec![(0, time_nanos)],
                recording: vec![(time_nanos, i64::MAX)],
            });
            return;
        }
        let Some(&at) = self.alive.get(&number) else { return };
        let session = &mut self.all[at];
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
                self.alive.remove(&number);
            }
        }
    }

    /// Every session so far, in the order in which they started.
    pub(super) fn all(&self) -> &[Session] {
        &self.all
    }

    /// The phase that the first session of a mask is in.
    pub(super) fn phase(&self, sessions: u64) -> u32 {
        let first = self.alive.get(&sessions.trailing_zeros());
        first.and_then(|&at| self.all[at].phases.last()).map_or(0, |&(phase, _)| phase)
    }

    /// The sessions, among those of a mask, that have not ended and were recording at a moment.
    pub(super) fn recording_at(&self, sessions: u64, time_nanos: i64) -> u64 {
        let alive = self.alive.iter().filter(|&(&number, &at)| {
            bit(number) & sessions != 0 && self.all[at].was_recording(time_nanos)
        });
        alive.fold(0, |mask, (&number, _)| mask | bit(number))
    }
}

impl Session {
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

/// The bit of a session in a mask; none has more than 64.
pub(super) fn bit(session: u32) -> u64 {
    1_u64.checked_shl(session).unwrap_or(0)
}
