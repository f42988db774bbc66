//! The decoder: reads completed buffers on its own thread, or on the thread that flushes.

use super::abi::constants::kind;
use super::activity::ActivityReader;
use super::buffers::{self, FullBuffer};
use super::clock::Clock;
use super::subscription::Subscription;
use marey_model::loss::LossCause;
use marey_record::device::{Batch, Decoder};
use marey_record::{STOP, Worker, api};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The decoder's thread. No thread of the program waits for it.
pub(super) static WORKER: Worker = Worker::new("marey-gpu", run);

/// Signal to read buffers and launches.
pub(super) const DRAIN: u32 = 2;

/// Maximum time between two reads, so that no thread's launch ring fills up.
const PERIOD: Duration = Duration::from_millis(100);

static READER: Mutex<Option<Reader>> = Mutex::new(None);

/// State of the decoder.
#[derive(Debug)]
struct Reader {
    /// The subscription whose records are read; `None` between two sessions.
    subscription: Option<Subscription>,
    records: ActivityReader,
    decoder: Decoder,
    clock: Clock,
    /// Whether external correlation records are enabled. They may arrive after the records that
    /// they apply to.
    expects_external: bool,
}

fn reader() -> MutexGuard<'static, Option<Reader>> {
    READER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to read the records of a subscription.
pub(super) fn begin(subscription: Subscription, clock: Clock) {
    let mut reader = reader();
    let decoder = reader.take().map_or_else(Decoder::default, |before| before.decoder);
    let records = ActivityReader::new(subscription.api_version());
    *reader = Some(Reader {
        subscription: Some(subscription),
        records,
        decoder,
        clock,
        expects_external: false,
    });
}

/// Expects external correlation records from now on.
pub(super) fn expect_external() {
    if let Some(reader) = reader().as_mut() {
        reader.expects_external = true;
    }
}

/// Reads the remaining buffers, and ends reading for this subscription.
pub(super) fn end() {
    read_all();
    if let Some(reader) = reader().as_mut() {
        reader.subscription = None;
    }
}

fn run() {
    while WORKER.wait(Some(PERIOD)) & STOP == 0 {
        read_all();
    }
}

/// Reads all completed buffers and logged launches.
pub(super) fn read_all() {
    let mut reader = reader();
    let Some(reader) = reader.as_mut() else { return };
    let Some(subscription) = reader.subscription else { return };
    reader.clock.update(|| subscription.timestamp());
    loop {
        let full = buffers::take_full();
        if full.is_empty() {
            break;
        }
        if reader.expects_external {
            // External correlation records may be in a later buffer than the activities, because
            // buffers of threads and of devices are separate.
            for buffer in &full {
                reader.records.read_external(&subscription, bytes_of(buffer));
            }
        }
        for buffer in full {
            // One batch per buffer, so that other threads can access the sums in between. The batch
            // finds the launches of all activities, which precede their records.
            let mut batch = reader.decoder.batch();
            let (records, bytes) = (&mut reader.records, bytes_of(&buffer));
            records.read_buffer(&subscription, bytes, &reader.clock, &mut batch);
            drop(batch);
            buffers::recycle(buffer.words);
        }
    }
    // Without buffers too, because threads may have logged launches.
    drop(reader.decoder.batch());
    let dropped = subscription.take_dropped();
    if dropped > 0 {
        api::count_losses(LossCause::DeviceRecord, dropped);
    }
}

impl ActivityReader {
    /// Reads only external correlation records: CUPTI writes that of a call after its return,
    /// possibly after the records of its activities.
    fn read_external(&mut self, subscription: &Subscription, bytes: &[u8]) {
        for record in records(subscription, bytes) {
            let record = self.record(record);
            if record.kind() == Some(kind::EXTERNAL_CORRELATION) {
                self.external(record);
            }
        }
    }

    fn read_buffer(
        &mut self,
        subscription: &Subscription,
        bytes: &[u8],
        clock: &Clock,
        batch: &mut Batch,
    ) {
        for record in records(subscription, bytes) {
            self.read(self.record(record), clock, batch);
        }
    }
}

/// Iterates over the records of a buffer, each as the slice from its start to the end of the
/// buffer.
#[expect(unsafe_code, reason = "the library walks its own records")]
fn records<'a>(
    subscription: &'a Subscription,
    bytes: &'a [u8],
) -> impl Iterator<Item = &'a [u8]> + 'a {
    let start = bytes.as_ptr();
    let mut last = std::ptr::null_mut();
    std::iter::from_fn(move || {
        // SAFETY: CUPTI has completed the buffer with this length and no longer writes to it;
        // `last` is null or was returned by the previous call.
        last = unsafe { subscription.next_record(start.cast_mut(), bytes.len(), last) }?;
        bytes.get(last.addr().wrapping_sub(start.addr())..)
    })
}

/// Returns the part of a buffer that contains records.
#[expect(unsafe_code, reason = "words as bytes")]
fn bytes_of(full: &FullBuffer) -> &[u8] {
    let bytes = size_of_val(&*full.words).min(full.valid_bytes);
    // SAFETY: the words have at least this size, and are initialised, with zeros or by CUPTI.
    unsafe { std::slice::from_raw_parts(full.words.as_ptr().cast(), bytes) }
}

/// Locks the decoder for a fork.
pub(super) fn lock_for_fork() -> impl Sized + use<> {
    reader()
}

/// Resets the decoder in the child of a fork, where CUPTI does not work.
pub(super) fn begin_child() {
    *reader() = None;
}
