//! Keeps the events that have begun and not ended, until their end: `B` waits for `E`, and `b` for
//! `e`.

use std::collections::BTreeMap;

use marey_model::args::NewArgs;

/// An event that has begun.
#[derive(Debug)]
pub(super) struct OpenEvent {
    pub(super) process_id: u32,
    pub(super) start_nanos: i64,
    /// Its index among all events.
    pub(super) order: u64,
    pub(super) name_id: u32,
    pub(super) category_id: Option<u32>,
    /// The track of an asynchronous event.
    pub(super) track_id: u32,
    pub(super) args: NewArgs,
}

/// The track of asynchronous events, which begin and end on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AsyncTrack {
    pub(super) track_id: u32,
    pub(super) category_id: Option<u32>,
    pub(super) name_id: u32,
    /// The process, if the track is local to it.
    pub(super) process: Option<u32>,
}

/// All open events.
#[derive(Debug, Default)]
pub(super) struct OpenEvents {
    by_thread: BTreeMap<u32, Vec<OpenEvent>>,
    by_track: BTreeMap<AsyncTrack, Vec<OpenEvent>>,
}

impl OpenEvents {
    pub(super) fn begin(&mut self, thread_id: u32, open: OpenEvent) {
        self.by_thread.entry(thread_id).or_default().push(open);
    }

    /// Ends the innermost event of a thread.
    pub(super) fn end(&mut self, thread_id: u32) -> Option<OpenEvent> {
        self.by_thread.get_mut(&thread_id)?.pop()
    }

    pub(super) fn begin_async(&mut self, track: AsyncTrack, open: OpenEvent) {
        self.by_track.entry(track).or_default().push(open);
    }

    /// Ends the innermost event of a track.
    pub(super) fn end_async(&mut self, track: AsyncTrack) -> Option<OpenEvent> {
        let events = self.by_track.get_mut(&track)?;
        let last = events.pop();
        if events.is_empty() {
            self.by_track.remove(&track);
        }
        last
    }

    /// Returns all open events.
    pub(super) fn iter(&self) -> impl Iterator<Item = &OpenEvent> {
        self.by_thread.values().chain(self.by_track.values()).flatten()
    }

    /// Returns the open events of threads, each with its thread, and the open events of tracks.
    pub(super) fn into_unfinished(
        self,
    ) -> (impl Iterator<Item = (u32, OpenEvent)>, impl Iterator<Item = OpenEvent>) {
        let by_thread = self.by_thread.into_iter();
        let by_thread = by_thread
            .flat_map(|(thread, events)| events.into_iter().map(move |open| (thread, open)));
        (by_thread, self.by_track.into_values().flatten())
    }
}
