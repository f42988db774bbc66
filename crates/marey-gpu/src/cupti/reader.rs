//! The decoder: from the library's buffers to the recorder, on a thread of its own or of whoever flushes.

use super::abi::constants::kind;
use super::activity::ActivityReader;
use super::buffers::{self, Full};
use super::clock::Clock;
use super::subscription::Subscription;
use marey_model::loss::LossCause;
use marey_record::device::{Batch, Decoder};
use marey_record::{STOP, Worker, api};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The thread. Nothing of the program waits for it.
pub(super) static WORKER: Worker = Worker::new("marey-gpu", run);

/// The call to look for buffers and launches.
pub(super) const DRAIN: u32 = 2;

/// It looks at least this often, so that no thread's log of launches fills up.
const PERIOD: Duration = Duration::from_millis(100);

static READER: Mutex<Option<Reader>> = Mutex::new(None);

/// What reading needs.
#[derive(Debug)]
struct Reader {
    /// Whose records are read; `None` between two sessions.
    subscription: Option<Subscription>,
    records: ActivityReader,
    decoder: Decoder,
    clock: Clock,
    /// Whether the program's own numbers come too, maybe after what they are of.
    expects_external: bool,
}

fn reader() -> MutexGuard<'static, Option<Reader>> {
    READER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads what is written for this subscription, from now on.
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

/// From now on the program's own numbers come too.
pub(super) fn expect_external() {
    if let Some(reader) = reader().as_mut() {
        reader.expects_external = true;
    }
}

/// Reads what there is, and no more: the subscription ends.
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

/// Reads all buffers that the library has filled, and takes over what was launched.
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
            // A number may be in a later buffer than what it is of: those of threads and devices differ.
            for buffer in &full {
                reader.records.read_external(&subscription, bytes_of(buffer));
            }
        }
        for buffer in full {
            // Others may look at the sums between two buffers, and what they hold was launched before.
            let mut batch = reader.decoder.batch();
            let (records, bytes) = (&mut reader.records, bytes_of(&buffer));
            records.read_buffer(&subscription, bytes, &reader.clock, &mut batch);
            drop(batch);
            buffers::give_back(buffer.words);
        }
    }
    // Also without a buffer: threads may have logged launches.
    drop(reader.decoder.batch());
    let dropped = subscription.take_dropped();
    if dropped > 0 {
        api::count_losses(LossCause::DeviceRecord, dropped);
    }
}

impl ActivityReader {
    /// Reads the program's own numbers alone: the library writes that of a call when the call has
    /// returned, and what the call launched may be written before.
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

/// The records in a buffer, each with what comes after it.
#[expect(unsafe_code, reason = "the library walks its own records")]
fn records<'a>(
    subscription: &'a Subscription,
    bytes: &'a [u8],
) -> impl Iterator<Item = &'a [u8]> + 'a {
    let start = bytes.as_ptr();
    let mut last = std::ptr::null_mut();
    std::iter::from_fn(move || {
        // SAFETY: the buffer is one that the library has filled to this length, and nobody writes it any
        // more; `last` is null or what the call before gave.
        last = unsafe { subscription.next_record(start.cast_mut(), bytes.len(), last) }?;
        bytes.get(last.addr().wrapping_sub(start.addr())..)
    })
}

/// The bytes of a buffer that hold records.
#[expect(unsafe_code, reason = "words as bytes")]
fn bytes_of(full: &Full) -> &[u8] {
    let bytes = size_of_val(&*full.words).min(full.valid_bytes);
    // SAFETY: the words are that many bytes long, which are initialised: zeros, or what the library
    // wrote.
    unsafe { std::slice::from_raw_parts(full.words.as_ptr().cast(), bytes) }
}

/// Holds the lock over a fork.
pub(super) fn hold() -> impl Sized + use<> {
    reader()
}

/// In the child of a fork, where the library is of no use.
pub(super) fn begin_child() {
    *reader() = None;
}
