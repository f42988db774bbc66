//! The decoder: reads the records of completed buffers, on its own thread or on the thread that
//! flushes, and passes the activities to the recorder.

use super::abi::constants::kind;
use super::activity::ActivityReader;
use super::buffers::{self, FullBuffer};
use super::clock::Clock;
use super::subscription::Subscription;
use crate::lock;
use marey_model::loss::LossCause;
use marey_record::device::{ActivityBatch, ActivityDecoder};
use marey_record::{STOP, Worker, api};
use std::sync::Mutex;
use std::time::Duration;

/// The decoder's thread. No thread of the program waits for it.
pub(super) static WORKER: Worker = Worker::new("marey-gpu", run_decoder);

/// The request to read buffers and launches.
pub(super) const DRAIN: u32 = 2;

/// The maximum time between two reads. It is short enough that no thread's ring of launches fills
/// up.
const READ_PERIOD: Duration = Duration::from_millis(100);

static READER: Mutex<Option<Reader>> = Mutex::new(None);

/// State of the decoder.
#[derive(Debug)]
struct Reader {
    /// The subscription whose records are read; `None` between two sessions.
    subscription: Option<Subscription>,
    activities: ActivityReader,
    decoder: ActivityDecoder,
    clock: Clock,
    /// Whether external correlation records are enabled. Such a record may arrive after the records
    /// that it applies to.
    expects_external_ids: bool,
}

/// Begins to read the records of a subscription.
pub(super) fn begin(subscription: Subscription, clock: Clock) {
    let mut reader = lock(&READER);
    let decoder = reader.take().map_or_else(ActivityDecoder::default, |previous| previous.decoder);
    let activities = ActivityReader::new(subscription.api_version());
    *reader = Some(Reader {
        subscription: Some(subscription),
        activities,
        decoder,
        clock,
        expects_external_ids: false,
    });
}

/// Expects external correlation records from now on.
pub(super) fn expect_external_ids() {
    if let Some(reader) = lock(&READER).as_mut() {
        reader.expects_external_ids = true;
    }
}

/// Reads the remaining buffers, and ends reading for this subscription.
pub(super) fn end() {
    read_all();
    if let Some(reader) = lock(&READER).as_mut() {
        reader.subscription = None;
    }
}

fn run_decoder() {
    while WORKER.wait(Some(READ_PERIOD)) & STOP == 0 {
        read_all();
    }
}

/// Reads all completed buffers and logged launches.
pub(super) fn read_all() {
    let mut reader = lock(&READER);
    let Some(reader) = reader.as_mut() else { return };
    let Some(subscription) = reader.subscription else { return };
    reader.clock.update(|| subscription.timestamp());
    loop {
        let full_buffers = buffers::take_full();
        if full_buffers.is_empty() {
            break;
        }
        if reader.expects_external_ids {
            // External correlation records may be in a later buffer than the activities, because
            // buffers of threads and of devices are separate.
            for buffer in &full_buffers {
                reader.activities.read_external_ids(buffer);
            }
        }
        for buffer in full_buffers {
            // Use one batch per buffer, so that other threads can read the sums in between. The
            // batch finds the launches of all activities, because a launch is logged before its
            // records arrive.
            let mut batch = reader.decoder.batch();
            reader.activities.read_buffer(&buffer, &reader.clock, &mut batch);
            drop(batch);
            buffers::recycle(buffer.words);
        }
    }
    // Also start a batch if there was no buffer, because threads may have logged launches.
    drop(reader.decoder.batch());
    let dropped = subscription.take_dropped_count();
    if dropped > 0 {
        api::count_losses(LossCause::DeviceRecord, dropped);
    }
}

impl ActivityReader {
    /// Reads only the external correlation records. CUPTI writes the record of a call after the
    /// call has returned, possibly after the records of its activities.
    fn read_external_ids(&mut self, buffer: &FullBuffer) {
        for (record, _) in records(buffer) {
            let record = self.record(record);
            if record.kind() == Some(kind::EXTERNAL_CORRELATION) {
                self.read_external_id(record);
            }
        }
    }

    fn read_buffer(&mut self, buffer: &FullBuffer, clock: &Clock, batch: &mut ActivityBatch) {
        for (record, kernel_name_id) in records(buffer) {
            self.read(self.record(record), kernel_name_id, clock, batch);
        }
    }
}

/// Iterates over the records of a buffer: the slice from the start of each to the end of the
/// buffer, and the name id of a kernel.
fn records(buffer: &FullBuffer) -> impl Iterator<Item = (&[u8], Option<u32>)> {
    let bytes = buffer.bytes();
    buffer.records.iter().filter_map(move |record| {
        Some((bytes.get(record.offset_bytes as usize..)?, record.kernel_name_id))
    })
}

/// Locks the decoder for a fork.
pub(super) fn lock_for_fork() -> impl Sized + use<> {
    lock(&READER)
}

/// Resets the decoder in the child of a fork, where CUPTI does not work.
pub(super) fn begin_child() {
    *lock(&READER) = None;
}
