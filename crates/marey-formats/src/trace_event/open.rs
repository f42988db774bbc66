//! What has begun and not ended: `B` waits for its `E`, `b` for its `e`.

use std::collections::BTreeMap;

use marey_model::args::NewArgs;

/// Something that has begun.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) process: u32,
    pub(super) start_nanos: i64,
    /// Its number among all that began.
    pub(super) order: u64,
    pub(super) name_id: u32,
    pub(super) category_id: Option<u32>,
    /// What tells it from others that go on beside the stacks of threads.
    pub(super) track_id: u32,
    pub(super) args: NewArgs,
}

/// What tells one thing that goes on from others: its track, its category, its name, and its process
/// if the track is the process's own.
pub(super) type Track = (u32, Option<u32>, u32, Option<u32>);

/// All that is open.
#[derive(Debug, Default)]
pub(super) struct AllOpen {
    by_thread: BTreeMap<u32, Vec<Open>>,
    by_track: BTreeMap<Track, Vec<Open>>,
}

impl AllOpen {
    pub(super) fn begin(&mut self, thread: u32, open: Open) {
        self.by_thread.entry(thread).or_default().push(open);
    }

    /// The innermost one of a thread.
    pub(super) fn end(&mut self, thread: u32) -> Option<Open> {
        self.by_thread.get_mut(&thread)?.pop()
    }

    pub(super) fn begin_async(&mut self, track: Track, open: Open) {
        self.by_track.entry(track).or_default().push(open);
    }

    /// The innermost one of a track.
    pub(super) fn end_async(&mut self, track: Track) -> Option<Open> {
        let open = self.by_track.get_mut(&track)?;
        let last = open.pop();
        if open.is_empty() {
            self.by_track.remove(&track);
        }
        last
    }

    /// What has not ended.
    pub(super) fn all(&self) -> impl Iterator<Item = &Open> {
        self.by_thread.values().chain(self.by_track.values()).flatten()
    }

    /// What never ended: of threads, with these, and of tracks.
    pub(super) fn rest(self) -> (impl Iterator<Item = (u32, Open)>, impl Iterator<Item = Open>) {
        let of_threads = self.by_thread.into_iter();
        let of_threads =
            of_threads.flat_map(|(thread, all)| all.into_iter().map(move |open| (thread, open)));
        (of_threads, self.by_track.into_values().flatten())
    }
}
