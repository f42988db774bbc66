//! The pool of activity buffers. A buffer goes from the pool to CUPTI, then full to the decoder,
//! then back to the pool.
//!
//! CUPTI may keep one buffer per launching thread, and withholds a buffer while an activity in it
//! is in progress. Therefore buffers are large while half of the pool is free. After that they are
//! small, so that they suffice for as many threads as possible.

use crate::lock;
use marey_model::env;
use marey_record::environment;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// The size of a large buffer, which holds about 5,000 kernels.
const LARGE_BUFFER_BYTES: usize = 1 << 20;

/// The size of a small buffer, which holds about 300 kernels.
const SMALL_BUFFER_BYTES: usize = 64 << 10;

/// Maximum total size of all buffers, unless set in the environment.
const DEFAULT_POOL_BYTES: usize = 128 << 20;

/// A buffer of eight-byte words, the alignment that CUPTI requires.
pub(super) type Buffer = Box<[u64]>;

/// A buffer with records.
#[derive(Debug)]
pub(super) struct FullBuffer {
    pub(super) words: Buffer,
    /// Bytes that hold records.
    pub(super) valid_bytes: usize,
    pub(super) records: Vec<RecordPosition>,
}

impl FullBuffer {
    /// Returns the part of the buffer that contains records.
    #[expect(unsafe_code, reason = "words as bytes")]
    pub(super) fn bytes(&self) -> &[u8] {
        let bytes = size_of_val(&*self.words).min(self.valid_bytes);
        // SAFETY: the words have at least this size, and are initialised, with zeros or by CUPTI.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), bytes) }
    }
}

/// A record in a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordPosition {
    pub(super) offset_bytes: u32,
    /// Name id of a kernel; `None` for other records and unnamed kernels.
    pub(super) kernel_name_id: Option<u32>,
}

/// The state of the pool.
#[derive(Debug)]
struct BufferPool {
    /// The free, zeroed buffers: first the large ones, then the small ones.
    free: [Vec<Buffer>; 2],
    full: VecDeque<FullBuffer>,
    /// Total size of all buffers, free or in use.
    total_bytes: usize,
    /// Total size of the buffers in use.
    used_bytes: usize,
    /// Number of buffers lent to CUPTI.
    lent_count: usize,
    /// Number of buffers with records so far.
    filled_count: u64,
}

static POOL: Mutex<BufferPool> = Mutex::new(BufferPool::EMPTY);

/// Notified when a buffer with records arrives.
static FILLED: Condvar = Condvar::new();

/// Returns the maximum total size of all buffers.
fn pool_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let bytes = environment::number(env::GPU_BUFFER_BYTES).unwrap_or(DEFAULT_POOL_BYTES);
        bytes.max(2 * LARGE_BUFFER_BYTES)
    })
}

/// Returns a zeroed buffer for CUPTI, or `None` if the pool is exhausted.
pub(super) fn acquire() -> Option<Buffer> {
    let mut pool = lock(&POOL);
    let is_large = pool.used_bytes + LARGE_BUFFER_BYTES <= pool_bytes() / 2;
    let bytes = if is_large { LARGE_BUFFER_BYTES } else { SMALL_BUFFER_BYTES };
    let free = pool.free_list(bytes).pop();
    if free.is_none() && !pool.make_room(bytes) {
        return None;
    }
    pool.used_bytes += bytes;
    drop(pool);
    Some(free.unwrap_or_else(|| allocate(bytes)))
}

/// Allocates a buffer outside the pool.
pub(super) fn allocate(bytes: usize) -> Buffer {
    vec![0; bytes / size_of::<u64>()].into_boxed_slice()
}

/// Counts a buffer lent to CUPTI, whether or not it belongs to the pool.
pub(super) fn count_lent() {
    lock(&POOL).lent_count += 1;
}

/// Counts a buffer returned by CUPTI.
pub(super) fn count_returned() {
    let mut pool = lock(&POOL);
    pool.lent_count = pool.lent_count.saturating_sub(1);
}

/// Whether buffers are lent to CUPTI, in which activities may be in progress.
pub(super) fn any_lent() -> bool {
    lock(&POOL).lent_count > 0
}

/// Queues a completed buffer for the decoder.
pub(super) fn push_full(full: FullBuffer) {
    if full.records.is_empty() {
        recycle(full.words);
    } else {
        let mut pool = lock(&POOL);
        pool.full.push_back(full);
        pool.filled_count += 1;
        drop(pool);
        FILLED.notify_all();
    }
}

/// Takes the buffers with records, the oldest first.
pub(super) fn take_full() -> VecDeque<FullBuffer> {
    std::mem::take(&mut lock(&POOL).full)
}

/// Returns the number of buffers with records so far.
pub(super) fn filled_count() -> u64 {
    lock(&POOL).filled_count
}

/// Waits until there were more than `filled_count` buffers with records, or until a deadline.
/// Returns whether there were.
pub(super) fn wait_for_more(filled_count: u64, deadline: Instant) -> bool {
    let timeout = deadline.saturating_duration_since(Instant::now());
    let is_unchanged = |pool: &mut BufferPool| pool.filled_count == filled_count;
    let waited = FILLED.wait_timeout_while(lock(&POOL), timeout, is_unchanged);
    waited.unwrap_or_else(PoisonError::into_inner).0.filled_count != filled_count
}

/// Returns a buffer to the pool. It is zeroed here, on the decoder's thread, rather than on a
/// thread of the program.
pub(super) fn recycle(mut words: Buffer) {
    words.fill(0);
    lock(&POOL).release(words);
}

impl BufferPool {
    const EMPTY: Self = Self {
        free: [const { Vec::new() }; 2],
        full: VecDeque::new(),
        total_bytes: 0,
        used_bytes: 0,
        lent_count: 0,
        filled_count: 0,
    };

    fn free_list(&mut self, bytes: usize) -> &mut Vec<Buffer> {
        &mut self.free[usize::from(bytes != LARGE_BUFFER_BYTES)]
    }

    /// Makes room for a new buffer, by freeing free ones if necessary. Returns whether there is
    /// room.
    fn make_room(&mut self, bytes: usize) -> bool {
        while self.total_bytes + bytes > pool_bytes() {
            let Some(free) = self.free.iter_mut().find_map(Vec::pop) else { return false };
            self.total_bytes -= size_of_val(&*free);
        }
        self.total_bytes += bytes;
        true
    }

    fn release(&mut self, words: Buffer) {
        let bytes = size_of_val(&*words);
        // A buffer from before a fork is not counted in the pool.
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
        self.free_list(bytes).push(words);
    }
}

/// Frees all unused buffers, and the full ones: their records cannot be read after the subscriber's
/// end.
pub(super) fn free_unused() {
    let mut pool = lock(&POOL);
    while let Some(full) = pool.full.pop_front() {
        pool.release(full.words);
    }
    pool.total_bytes = pool.used_bytes;
    pool.free = [const { Vec::new() }; 2];
}

/// Locks the pool for a fork.
pub(super) fn lock_for_fork() -> impl Sized + use<> {
    lock(&POOL)
}

/// Resets the pool in the child of a fork.
pub(super) fn begin_child() {
    // CUPTI's buffers belong to the parent; CUPTI does not write to any in the child.
    *lock(&POOL) = BufferPool::EMPTY;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_used_up_by_small_buffers_and_all_are_reusable() {
        let mut acquired: Vec<_> = std::iter::from_fn(acquire).collect();
        let bytes: usize = acquired.iter().map(|buffer| size_of_val(&**buffer)).sum();
        assert!(bytes <= pool_bytes() && pool_bytes() - bytes < SMALL_BUFFER_BYTES, "{bytes}");
        assert_eq!(
            acquired.len(),
            pool_bytes() / 2 / LARGE_BUFFER_BYTES + pool_bytes() / 2 / SMALL_BUFFER_BYTES
        );
        for buffer in &mut acquired {
            buffer.fill(7);
        }
        acquired.drain(..).for_each(recycle);
        assert_eq!(lock(&POOL).used_bytes, 0);
        // Buffers are large again while few are in use.
        let again = acquire().unwrap();
        assert_eq!(size_of_val(&*again), LARGE_BUFFER_BYTES);
        assert!(again.iter().all(|&word| word == 0), "buffers are zeroed before reuse");
        recycle(again);
        free_unused();
        assert_eq!(lock(&POOL).total_bytes, 0);
    }
}
