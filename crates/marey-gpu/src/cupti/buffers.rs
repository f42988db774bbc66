//! The memory that records are written to, and how it goes round: from the pool to the library, full to
//! the decoder, and back.
//!
//! The library may keep a buffer for each thread that launches, and withholds it for as long as something
//! in it is in progress. So there are large buffers as long as half of the pool is left, and small ones
//! for as many threads as that can be then.

use marey_model::env;
use marey_record::environment;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Bytes of a large buffer: some 5,000 kernels.
const LARGE_BYTES: usize = 1 << 20;

/// Bytes of a small one: some 300.
const SMALL_BYTES: usize = 64 << 10;

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
#[derive(Debug)]
struct Buffers {
    /// Zeroed, and in nobody's use: large ones, and small ones.
    free: [Vec<Buffer>; 2],
    full: VecDeque<Full>,
    /// Bytes of all buffers, wherever they are.
    bytes: usize,
    /// Bytes of those that are not free.
    used_bytes: usize,
    /// Buffers that the library has.
    lent: usize,
    /// How many were filled so far.
    filled: u64,
}

static BUFFERS: Mutex<Buffers> = Mutex::new(Buffers::NONE);

/// Rung when a buffer comes with records.
static FILLED: Condvar = Condvar::new();

fn buffers() -> MutexGuard<'static, Buffers> {
    BUFFERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Most bytes of all buffers.
fn pool_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let bytes = environment::number(env::GPU_BUFFER_BYTES).unwrap_or(DEFAULT_POOL_BYTES);
        bytes.max(2 * LARGE_BYTES)
    })
}

/// A buffer for the library, full of zeros; `None` if there is no room for another one.
pub(super) fn take() -> Option<Buffer> {
    let mut buffers = buffers();
    let is_large = buffers.used_bytes + LARGE_BYTES <= pool_bytes() / 2;
    let bytes = if is_large { LARGE_BYTES } else { SMALL_BYTES };
    let free = buffers.free_of(bytes).pop();
    if free.is_none() && !buffers.make_room(bytes) {
        return None;
    }
    buffers.used_bytes += bytes;
    drop(buffers);
    Some(free.unwrap_or_else(|| new(bytes)))
}

/// A buffer that is not of the pool.
pub(super) fn new(bytes: usize) -> Buffer {
    vec![0; bytes / size_of::<u64>()].into_boxed_slice()
}

/// The library has got a buffer, of the pool or not.
pub(super) fn lent() {
    buffers().lent += 1;
}

/// The library has given a buffer back.
pub(super) fn returned() {
    let mut buffers = buffers();
    buffers.lent = buffers.lent.saturating_sub(1);
}

/// Whether the library has any, in which something may be in progress.
pub(super) fn are_lent() -> bool {
    buffers().lent > 0
}

/// The library has written to a buffer of the pool.
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

/// Waits until more buffers were filled than so many, up to a moment. Whether that was so.
pub(super) fn wait_for_more(filled: u64, end: Instant) -> bool {
    let mut buffers = buffers();
    while buffers.filled == filled {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let waited = FILLED.wait_timeout(buffers, left);
        (buffers, _) = waited.unwrap_or_else(PoisonError::into_inner);
    }
    true
}

/// The decoder has read a buffer. It is zeroed here, and not on a thread of the program when it needs one.
pub(super) fn give_back(mut words: Buffer) {
    words.fill(0);
    buffers().put(words);
}

impl Buffers {
    const NONE: Self = Self {
        free: [const { Vec::new() }; 2],
        full: VecDeque::new(),
        bytes: 0,
        used_bytes: 0,
        lent: 0,
        filled: 0,
    };

    fn free_of(&mut self, bytes: usize) -> &mut Vec<Buffer> {
        &mut self.free[usize::from(bytes != LARGE_BYTES)]
    }

    /// Makes room for a new buffer, at the cost of free ones; whether there is.
    fn make_room(&mut self, bytes: usize) -> bool {
        while self.bytes + bytes > pool_bytes() {
            let Some(free) = self.free.iter_mut().find_map(Vec::pop) else { return false };
            self.bytes -= size_of_val(&*free);
        }
        self.bytes += bytes;
        true
    }

    fn put(&mut self, words: Buffer) {
        let bytes = size_of_val(&*words);
        // One from before a fork is not counted.
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
        self.free_of(bytes).push(words);
    }
}

/// Frees what nobody uses. What the library handed over when its subscriber was gone cannot be read.
pub(super) fn free() {
    let mut buffers = buffers();
    while let Some(full) = buffers.full.pop_front() {
        buffers.put(full.words);
    }
    buffers.bytes = buffers.used_bytes;
    buffers.free = [const { Vec::new() }; 2];
}

/// Holds the lock over a fork.
pub(super) fn hold() -> impl Sized + use<> {
    buffers()
}

/// In the child of a fork.
pub(super) fn begin_child() {
    // The library's buffers are the parent's, and it writes to none here.
    *buffers() = Buffers::NONE;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_have_a_buffer_each_within_the_pool_and_all_of_it_comes_back() {
        let mut held: Vec<_> = std::iter::from_fn(take).collect();
        let bytes: usize = held.iter().map(|buffer| size_of_val(&**buffer)).sum();
        assert!(bytes <= pool_bytes() && pool_bytes() - bytes < SMALL_BYTES, "{bytes}");
        assert_eq!(held.len(), pool_bytes() / 2 / LARGE_BYTES + pool_bytes() / 2 / SMALL_BYTES);
        for buffer in &mut held {
            buffer.fill(7);
        }
        held.drain(..).for_each(give_back);
        assert_eq!(buffers().used_bytes, 0);
        // Large ones again, as long as there are few.
        let again = take().unwrap();
        assert_eq!(size_of_val(&*again), LARGE_BYTES);
        assert!(again.iter().all(|&word| word == 0), "it is zeroed before it is given");
        give_back(again);
        free();
        assert_eq!(buffers().bytes, 0);
    }
}
