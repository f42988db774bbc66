//! How far a collection is.

/// How far a collection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the spools that are done. Each is read twice and then written, so it counts in three
    /// steps.
    pub done_bytes: u64,
    /// Bytes of the spools.
    pub total_bytes: u64,
    /// Spans and values that have been written.
    pub events: u64,
}

/// Passes over each byte: two readings and the writing.
const PASSES: u64 = 3;

/// Progress is told each time so many more bytes are done, passes counted.
const STEP_BYTES: u64 = 1 << 20;

/// Counts what is done, and tells it now and then.
pub(super) struct Meter<'a> {
    tell: &'a mut dyn FnMut(Progress),
    progress: Progress,
    /// What is done in all passes, and what of it has been told.
    passed_bytes: u64,
    told_bytes: u64,
    spool: Spool,
}

/// The spool that is being collected.
#[derive(Clone, Copy, Debug, Default)]
struct Spool {
    bytes: u64,
    /// What was done in all passes when it began.
    before_bytes: u64,
    /// Spans and values, and how many of them have been written.
    events: u64,
    written_events: u64,
}

impl<'a> Meter<'a> {
    pub(super) fn new(total_bytes: u64, tell: &'a mut dyn FnMut(Progress)) -> Self {
        let progress = Progress { total_bytes, ..Progress::default() };
        let spool = Spool::default();
        Self { tell, progress, passed_bytes: 0, told_bytes: 0, spool }
    }

    pub(super) fn begin_spool(&mut self, bytes: u64) {
        self.spool = Spool { bytes, before_bytes: self.passed_bytes, ..Spool::default() };
    }

    /// So many more bytes of the spool have been read, for the first or the second time.
    pub(super) fn read(&mut self, bytes: u64) {
        self.pass(self.passed_bytes + bytes);
    }

    /// The spool has been read; it holds so many events.
    pub(super) fn begin_writing(&mut self, events: u64) {
        self.spool.events = events;
    }

    /// So many more events have been written.
    pub(super) fn wrote(&mut self, events: u64) {
        self.progress.events += events;
        let Spool { bytes, before_bytes, .. } = self.spool;
        self.spool.written_events += events;
        let share = self.spool.written_events as f64 / self.spool.events.max(1) as f64;
        let written_bytes = (bytes as f64 * share.min(1.0)) as u64;
        self.pass(before_bytes + (PASSES - 1) * bytes + written_bytes);
    }

    pub(super) fn end_spool(&mut self) {
        self.passed_bytes = self.spool.before_bytes + PASSES * self.spool.bytes;
        self.tell();
    }

    fn pass(&mut self, passed_bytes: u64) {
        self.passed_bytes = passed_bytes;
        if passed_bytes >= self.told_bytes + STEP_BYTES {
            self.tell();
        }
    }

    fn tell(&mut self) {
        self.told_bytes = self.passed_bytes;
        self.progress.done_bytes = self.passed_bytes / PASSES;
        (self.tell)(self.progress);
    }
}
