//! Measures the progress of a collection and reports it at intervals.

/// Progress of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Spool bytes that are done. A spool is read twice and then written, so each byte is done in
    /// three steps.
    pub done_bytes: u64,
    /// Bytes of all spools.
    pub total_bytes: u64,
    /// Events written.
    pub events: u64,
}

/// Number of passes over each byte: two reads and one write.
const PASSES: u64 = 3;

/// Number of bytes between two reports, summed over passes.
const STEP_BYTES: u64 = 1 << 20;

/// Counts progress and reports it at intervals.
pub(super) struct Meter<'a> {
    report: &'a mut dyn FnMut(Progress),
    progress: Progress,
    /// Bytes that are done, summed over passes.
    passed_bytes: u64,
    /// `passed_bytes` at the last report.
    reported_bytes: u64,
    spool: MeteredSpool,
}

/// The spool that is being collected.
#[derive(Clone, Copy, Debug, Default)]
struct MeteredSpool {
    bytes: u64,
    /// The meter's `passed_bytes` when this spool began.
    before_bytes: u64,
    /// Events in the spool.
    events: u64,
    /// Events of the spool that are written.
    written_events: u64,
}

impl<'a> Meter<'a> {
    pub(super) fn new(total_bytes: u64, report: &'a mut dyn FnMut(Progress)) -> Self {
        let progress = Progress { total_bytes, ..Progress::default() };
        let spool = MeteredSpool::default();
        Self { report, progress, passed_bytes: 0, reported_bytes: 0, spool }
    }

    pub(super) fn begin_spool(&mut self, bytes: u64) {
        self.spool =
            MeteredSpool { bytes, before_bytes: self.passed_bytes, ..MeteredSpool::default() };
    }

    /// Adds bytes read in either pass.
    pub(super) fn add_read(&mut self, bytes: u64) {
        self.advance_to(self.passed_bytes + bytes);
    }

    /// Begins the writing of a spool with this many events.
    pub(super) fn begin_writing(&mut self, events: u64) {
        self.spool.events = events;
    }

    /// Adds events written.
    pub(super) fn add_written(&mut self, events: u64) {
        self.progress.events += events;
        let MeteredSpool { bytes, before_bytes, .. } = self.spool;
        self.spool.written_events += events;
        let share = self.spool.written_events as f64 / self.spool.events.max(1) as f64;
        let written_bytes = (bytes as f64 * share.min(1.0)) as u64;
        self.advance_to(before_bytes + (PASSES - 1) * bytes + written_bytes);
    }

    pub(super) fn end_spool(&mut self) {
        self.passed_bytes = self.spool.before_bytes + PASSES * self.spool.bytes;
        self.report();
    }

    fn advance_to(&mut self, passed_bytes: u64) {
        self.passed_bytes = passed_bytes;
        if passed_bytes >= self.reported_bytes + STEP_BYTES {
            self.report();
        }
    }

    fn report(&mut self) {
        self.reported_bytes = self.passed_bytes;
        self.progress.done_bytes = self.passed_bytes / PASSES;
        (self.report)(self.progress);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_spool_is_done_in_three_steps_and_reported_at_each_mebibyte() {
        let mut reports = Vec::new();
        let mut report =
            |now: Progress| reports.push((now.done_bytes, now.total_bytes, now.events));
        let mut meter = Meter::new(10 * MIB, &mut report);
        meter.begin_spool(3 * MIB);
        meter.add_read(MIB - 1);
        meter.add_read(1);
        meter.add_read(2 * MIB);
        meter.add_read(3 * MIB);
        meter.begin_writing(4);
        // Three quarters of a mebibyte for each event.
        meter.add_written(1);
        meter.add_written(1);
        meter.add_written(2);
        meter.end_spool();
        meter.begin_spool(6 * MIB);
        meter.add_read(12 * MIB);
        meter.begin_writing(2);
        meter.add_written(1);
        // More events than were said do not exceed the spool.
        meter.add_written(5);
        meter.end_spool();
        meter.begin_spool(MIB);
        meter.end_spool();
        let expected = [
            (MIB / 3, 0),
            (MIB, 0),
            (2 * MIB, 0),
            (2 * MIB + MIB / 2, 2),
            (3 * MIB, 4),
            (3 * MIB, 4),
            (7 * MIB, 4),
            (8 * MIB, 5),
            (9 * MIB, 10),
            (9 * MIB, 10),
            (10 * MIB, 10),
        ];
        assert_eq!(reports, expected.map(|(bytes, events)| (bytes, 10 * MIB, events)));
    }
}
