//! The memory that records are written to, and how it goes round: from the pool to the library, full to
//! the decoder, and back.

use marey_model::env;
use marey_record::environment;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Bytes of a buffer: some 20,000 kernels.
pub(super) const BUFFER_BYTES: usize = 4 << 20;

/// Most bytes of all buffers together, unless the environment says otherwise.
const DEFAULT_POOL_BYTES: usize = 128 << 20;

/// A buffer: eight-byte words, as the library asks for that alignment.
pub(super) type Buffer = Box<[u64]>;

/// A buffer with records.
#[derive(Debug)]
pub(super) struct Full {
    pub(super) words: Buffer,
    /// Bytes that hold records.
    pub(super) valid_bytes: usize,
}

/// The buffers.
#[derive(Debug, Default)]
struct Buffers {
    free: Vec<Buffer>,
    full: VecDeque<Full>,
    /// Buffers in existence, wherever they are.
    count: usize,
    /// How many were filled so far.
    filled: u64,
}

static BUFFERS: Mutex<Buffers> =
    Mutex::new(Buffers { free: Vec::new(), full: VecDeque::new(), count: 0, filled: 0 });

/// Rung when a buffer comes with records.
static FILLED: Condvar = Condvar::new();

fn buffers() -> MutexGuard<'static, Buffers> {
    BUFFERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Most buffers.
fn most() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let bytes = environment::number(env::GPU_BUFFER_BYTES).unwrap_or(DEFAULT_POOL_BYTES);
        (bytes / BUFFER_BYTES).max(2)
    })
}

/// A buffer for the library; `None` if all that there may be are in use.
pub(super) fn take() -> Option<Buffer> {
    let mut buffers = buffers();
    if let Some(buffer) = buffers.free.pop() {
        return Some(buffer);
    }
    if buffers.count >= most() {
        return None;
    }
    buffers.count += 1;
    drop(buffers);
    Some(vec![0; BUFFER_BYTES / size_of::<u64>()].into_boxed_slice())
}

/// The library has written to a buffer.
pub(super) fn fill(words: Buffer, valid_bytes: usize) {
    if valid_bytes == 0 {
        give_back(words);
    } else {
        let mut buffers = buffers();
        buffers.full.push_back(Full { words, valid_bytes });
        buffers.filled += 1;
        drop(buffers);
        FILLED.notify_all();
    }
}

/// The buffers with records, the oldest first.
pub(super) fn take_full() -> VecDeque<Full> {
    std::mem::take(&mut buffers().full)
}

/// How many buffers were filled so far.
pub(super) fn filled() -> u64 {
    buffers().filled
}

/// Waits until more buffers were filled than so many, up to a moment. How many there were then.
pub(super) fn wait_for_more(filled: u64, end: Instant) -> Option<u64> {
    let mut buffers = buffers();
    while buffers.filled == filled {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        let waited = FILLED.wait_timeout(buffers, left);
        (buffers, _) = waited.unwrap_or_else(PoisonError::into_inner);
    }
    Some(buffers.filled)
}

/// The decoder has read a buffer. A small one was made because the pool was empty, and is no part of it.
pub(super) fn give_back(words: Buffer) {
    buffers().put(words);
}

impl Buffers {
    fn put(&mut self, words: Buffer) {
        if size_of_val(&*words) == BUFFER_BYTES {
            self.free.push(words);
        }
    }
}

/// Frees what nobody uses. What the library handed over when its subscriber was gone cannot be read.
pub(super) fn free() {
    let mut buffers = buffers();
    while let Some(full) = buffers.full.pop_front() {
        buffers.put(full.words);
    }
    buffers.count -= buffers.free.len();
    buffers.free = Vec::new();
}

/// Holds the lock over a fork.
pub(super) fn hold() -> impl Sized + use<> {
    buffers()
}

/// In the child of a fork.
pub(super) fn begin_child() {
    // The library's buffers are the parent's, and it writes to none here.
    *buffers() = Buffers::default();
}
