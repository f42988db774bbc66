//! The decoder: from the library's buffers to the recorder, on a thread of its own or of whoever flushes.

use super::activity::{ActivityReader, Read};
use super::buffers::{self, Full};
use super::clock::Clock;
use super::library::Library;
use super::{abi::result, functions::Functions};
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
    functions: Functions,
    records: ActivityReader,
    decoder: Decoder,
    clock: Clock,
}

fn reader() -> MutexGuard<'static, Option<Reader>> {
    READER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gets ready to read what this library writes. The error is the code with which its clock cannot be read.
pub(super) fn prepare(library: &Library) -> Result<(), u32> {
    let functions = library.functions;
    let clock = Clock::new(|| timestamp(&functions))?;
    let records = ActivityReader::new(library.api_version);
    reader().get_or_insert_with(|| Reader {
        functions,
        records,
        decoder: Decoder::default(),
        clock,
    });
    Ok(())
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
    let functions = reader.functions;
    reader.clock.update(|| timestamp(&functions));
    // Also without a buffer: threads may have logged launches.
    let mut full = buffers::next_full();
    let mut batch = reader.decoder.batch();
    while let Some(buffer) = full {
        reader.records.read_buffer(&functions, &buffer, &reader.clock, &mut batch);
        buffers::give_back(buffer.words);
        full = buffers::next_full();
        // Others may look at the sums between two buffers, and what they hold was launched before.
        drop(batch);
        batch = reader.decoder.batch();
    }
    drop(batch);
    count_dropped(&functions);
}

impl ActivityReader {
    #[expect(unsafe_code, reason = "the library walks its own records")]
    fn read_buffer(
        &mut self,
        functions: &Functions,
        full: &Full,
        clock: &Clock,
        batch: &mut Batch,
    ) {
        let bytes = bytes_of(full);
        let start = bytes.as_ptr();
        let mut next = std::ptr::null_mut::<u8>();
        loop {
            // SAFETY: the buffer is one that the library has filled to this length, and nobody
            // writes it any more; `next` is null or what the call before gave.
            let code = unsafe {
                (functions.activity_get_next_record)(start.cast_mut(), bytes.len(), &raw mut next)
            };
            if code != result::SUCCESS || next.is_null() {
                return;
            }
            let offset = next.addr().wrapping_sub(start.addr());
            let Some(record) = bytes.get(offset..) else { return };
            if self.read(self.record(record), clock, batch) == Read::Incomplete {
                api::count_losses(LossCause::DeviceRecord, 1);
            }
        }
    }
}

/// The bytes of a buffer that hold records.
#[expect(unsafe_code, reason = "words as bytes")]
fn bytes_of(full: &Full) -> &[u8] {
    let bytes = size_of_val(&*full.words).min(full.valid_bytes);
    // SAFETY: the words are that many bytes long, which are initialised: zeros, or what the library
    // wrote.
    unsafe { std::slice::from_raw_parts(full.words.as_ptr().cast(), bytes) }
}

#[expect(unsafe_code, reason = "a call of the library")]
fn timestamp(functions: &Functions) -> Result<u64, u32> {
    let mut nanos = 0;
    // SAFETY: the number can be written.
    let code = unsafe { (functions.get_timestamp)(&raw mut nanos) };
    if code == result::SUCCESS { Ok(nanos) } else { Err(code) }
}

/// Counts what the library had no room for, since it was asked last.
#[expect(unsafe_code, reason = "a call of the library")]
fn count_dropped(functions: &Functions) {
    let mut dropped = 0;
    // SAFETY: no context means the whole process, and the number can be written.
    let code = unsafe {
        (functions.activity_get_num_dropped_records)(std::ptr::null_mut(), 0, &raw mut dropped)
    };
    if code == result::SUCCESS && dropped > 0 {
        api::count_losses(LossCause::DeviceRecord, dropped as u64);
    }
}

/// In the child of a fork, where the library is of no use.
pub(super) fn begin_child() {
    *reader() = None;
}
