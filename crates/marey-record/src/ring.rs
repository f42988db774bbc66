//! A bounded queue of fixed-size records from one thread to another, without a lock.
//!
//! The thread that owns it pushes, and whoever drains takes; only one thread drains at a time. What
//! finds no room is refused, so the owner never waits. On the common path a push reads nothing that
//! the other side writes: it looks again at where that is only once the queue seems half full.

use crate::sync::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::ptr::NonNull;

/// One record.
pub type Record = [u64; 4];

/// Bytes of a record.
pub const RECORD_BYTES: u64 = size_of::<Record>() as u64;

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// It is in, and there is plenty of room.
    WithRoom,
    /// It is in, and the queue is half full at least: it is time to drain.
    BeyondHalf,
    /// It is not in.
    Refused,
}

/// The queue.
#[derive(Debug)]
pub struct Ring {
    words: Words,
    /// Records minus one; their number is a power of two.
    mask: u64,
    owner: Owner,
    drained: Drained,
}

/// What the owner writes, on a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug)]
struct Owner {
    /// Records that were ever pushed.
    pushed: AtomicU64,
    /// `Drained::taken` as the owner saw it last.
    seen_taken: AtomicU64,
}

/// What the draining side writes.
#[repr(C, align(64))]
#[derive(Debug)]
struct Drained {
    /// Records that were ever taken.
    taken: AtomicU64,
}

impl Ring {
    /// A queue for at least this many records, within two and 2^24.
    pub fn new(records: u64) -> Self {
        let records = records.clamp(2, 1 << 24).next_power_of_two();
        Self {
            words: Words::zeroed(records as usize * WORDS),
            mask: records - 1,
            owner: Owner { pushed: AtomicU64::new(0), seen_taken: AtomicU64::new(0) },
            drained: Drained { taken: AtomicU64::new(0) },
        }
    }

    /// Records that fit.
    pub fn capacity(&self) -> u64 {
        self.mask + 1
    }

    /// Appends a record. The owner's call.
    #[inline(always)]
    pub fn push(&self, record: Record) -> Pushed {
        let pushed = self.owner.pushed.load(Ordering::Relaxed);
        let used = pushed.wrapping_sub(self.owner.seen_taken.load(Ordering::Relaxed));
        if used > self.mask >> 1 {
            return self.push_many(1, |_| record);
        }
        self.write(pushed, record);
        self.owner.pushed.store(pushed + 1, Ordering::Release);
        Pushed::WithRoom
    }

    /// Appends `len` records, or none of them. The owner's call.
    #[inline(never)]
    pub fn push_many(&self, len: u64, record: impl Fn(u64) -> Record) -> Pushed {
        let pushed = self.owner.pushed.load(Ordering::Relaxed);
        // Whoever took a record has read it before saying so.
        let taken = self.drained.taken.load(Ordering::Acquire);
        self.owner.seen_taken.store(taken, Ordering::Relaxed);
        let used = pushed.wrapping_sub(taken).saturating_add(len);
        if used > self.capacity() {
            return Pushed::Refused;
        }
        for offset in 0..len {
            self.write(pushed + offset, record(offset));
        }
        self.owner.pushed.store(pushed + len, Ordering::Release);
        if used > self.mask >> 1 { Pushed::BeyondHalf } else { Pushed::WithRoom }
    }

    /// Takes the records that are there now, oldest first; returns how many there were. What is
    /// pushed meanwhile waits for the next call. Only one thread at a time may be in here.
    pub fn drain(&self, mut take: impl FnMut(Record)) -> u64 {
        /// The owner gets room again before everything is taken.
        const BATCH: u64 = 1024;
        let pushed = self.owner.pushed.load(Ordering::Acquire);
        let first = self.drained.taken.load(Ordering::Relaxed);
        let mut taken = first;
        while taken != pushed {
            let end = pushed.min(taken + BATCH);
            (taken..end).for_each(|at| take(self.read(at)));
            self.drained.taken.store(end, Ordering::Release);
            taken = end;
        }
        pushed - first
    }

    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        let taken = self.drained.taken.load(Ordering::Relaxed);
        self.owner.pushed.load(Ordering::Acquire) == taken
    }

    #[inline(always)]
    fn write(&self, at: u64, record: Record) {
        let first = (at & self.mask) as usize * WORDS;
        if let Some(words) = self.words.get(first..first + WORDS) {
            for (word, value) in words.iter().zip(record) {
                word.store(value, Ordering::Relaxed);
            }
        }
    }

    fn read(&self, at: u64) -> Record {
        let first = (at & self.mask) as usize * WORDS;
        let words = self.words.get(first..first + WORDS).unwrap_or_default();
        let mut record = [0; WORDS];
        for (value, word) in record.iter_mut().zip(words) {
            *value = word.load(Ordering::Relaxed);
        }
        record
    }
}

const WORDS: usize = size_of::<Record>() / size_of::<u64>();

/// Words in pages of their own, which take no memory until they are written to, and give it back.
///
/// An allocator would keep what a large block leaves, and write zeros to what it hands out again.
#[cfg(not(loom))]
#[derive(Debug)]
struct Words {
    first: NonNull<AtomicU64>,
    len: usize,
}

#[cfg(not(loom))]
#[expect(unsafe_code, reason = "std has no pages")]
mod pages {
    use super::{AtomicU64, Words};
    use std::alloc::{Layout, handle_alloc_error};
    use std::ops::Deref;
    use std::ptr::{NonNull, null_mut};

    // SAFETY: the words are atomics, and the pages belong to whoever owns this.
    unsafe impl Send for Words {}
    // SAFETY: as above.
    unsafe impl Sync for Words {}

    impl Words {
        /// So many zeros.
        pub(super) fn zeroed(len: usize) -> Self {
            let bytes = len * size_of::<AtomicU64>();
            let (protection, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a mapping at no place of ours touches nothing that is there.
            let pages = unsafe { libc::mmap(null_mut(), bytes, protection, kind, -1, 0) };
            let first = NonNull::new(pages.cast()).filter(|_| pages != libc::MAP_FAILED);
            match (first, Layout::array::<AtomicU64>(len)) {
                (Some(first), _) => Self { first, len },
                (None, Ok(layout)) => handle_alloc_error(layout),
                (None, Err(_too_large)) => handle_alloc_error(Layout::new::<AtomicU64>()),
            }
        }
    }

    impl Deref for Words {
        type Target = [AtomicU64];

        #[inline(always)]
        fn deref(&self) -> &[AtomicU64] {
            // SAFETY: `zeroed` mapped so many words, whose zeros are valid atomics; they go with `self`.
            unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
        }
    }

    impl Drop for Words {
        fn drop(&mut self) {
            // SAFETY: the mapping of `zeroed`, which nobody else has.
            unsafe { libc::munmap(self.first.as_ptr().cast(), self.len * size_of::<AtomicU64>()) };
        }
    }
}

/// loom's words have no zeros of their own.
#[cfg(loom)]
#[derive(Debug)]
struct Words(Box<[AtomicU64]>);

#[cfg(loom)]
impl Words {
    fn zeroed(len: usize) -> Self {
        Self((0..len).map(|_| AtomicU64::new(0)).collect())
    }
}

#[cfg(loom)]
impl std::ops::Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        &self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn take(ring: &Ring) -> Vec<u64> {
        let mut taken = Vec::new();
        ring.drain(|[first, ..]| taken.push(first));
        taken
    }

    #[test]
    fn records_come_out_in_order_and_full_means_refused() {
        let ring = Ring::new(3);
        assert_eq!(ring.capacity(), 4);
        for round in 0..10 {
            let pushes: Vec<_> = (0..6).map(|at| ring.push([round * 6 + at; 4])).collect();
            let expected =
                [Pushed::WithRoom, Pushed::WithRoom, Pushed::BeyondHalf, Pushed::BeyondHalf];
            assert_eq!(pushes[..4], expected);
            assert_eq!(pushes[4..], [Pushed::Refused; 2]);
            assert_eq!(take(&ring), [0, 1, 2, 3].map(|at| round * 6 + at));
            assert!(ring.is_empty());
        }
    }

    #[test]
    fn several_records_go_in_together_or_not_at_all() {
        let ring = Ring::new(4);
        assert_eq!(ring.push([9; 4]), Pushed::WithRoom);
        assert_eq!(ring.push_many(4, |at| [at; 4]), Pushed::Refused);
        assert_eq!(ring.push_many(3, |at| [at; 4]), Pushed::BeyondHalf);
        assert_eq!(take(&ring), [9, 0, 1, 2]);
        assert_eq!(ring.push_many(u64::MAX, |at| [at; 4]), Pushed::Refused);
    }

    #[test]
    fn nothing_is_lost_or_torn_between_threads() {
        const RECORDS: u64 = 300_000;
        let ring = Ring::new(64);
        let refused = std::thread::scope(|threads| {
            let owner = threads.spawn(|| {
                (0..RECORDS).filter(|&at| ring.push([at; 4]) == Pushed::Refused).count() as u64
            });
            let (mut taken, mut last) = (0, None);
            let mut look = || {
                taken += ring.drain(|record| {
                    assert_eq!(record, [record[0]; 4]);
                    assert!(last < Some(record[0]));
                    last = Some(record[0]);
                });
            };
            while !owner.is_finished() {
                look();
            }
            look();
            let refused = owner.join().unwrap();
            assert_eq!(taken + refused, RECORDS);
            refused
        });
        assert!(refused < RECORDS);
    }
}
