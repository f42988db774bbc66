//! A lock-free bounded queue of fixed-size records from one thread to another.
//!
//! The owner thread pushes, and one other thread at a time drains. A record that does not fit is
//! refused, so the owner never waits. On the common path a push reads nothing that the consumer
//! writes: the owner reads the consumer's position again only once the queue seems half full.

use crate::sync::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::ptr::NonNull;

/// One record.
pub type Record = [u64; 4];

/// Bytes of a record.
pub const RECORD_BYTES: u64 = size_of::<Record>() as u64;

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// The record was stored, and the queue is less than half full.
    WithRoom,
    /// The record was stored, and the queue is at least half full: it is time to drain.
    BeyondHalf,
    /// The queue is full, and the record was not stored.
    Refused,
}

/// The queue.
#[derive(Debug)]
pub struct RingBuffer {
    words: Words,
    /// The capacity minus one. The capacity is a power of two.
    mask: u64,
    owner: Owner,
    consumer: Consumer,
}

/// The words that the owner writes, on a cache line of their own.
#[repr(C, align(64))]
#[derive(Debug)]
struct Owner {
    /// The number of records pushed so far.
    pushed: AtomicU64,
    /// `Consumer::taken` as the owner last read it.
    seen_taken: AtomicU64,
}

/// The word that the consumer writes.
#[repr(C, align(64))]
#[derive(Debug)]
struct Consumer {
    /// The number of records taken so far.
    taken: AtomicU64,
}

impl RingBuffer {
    /// Creates a queue for at least this many records, between two and 2^24.
    pub fn new(records: u64) -> Self {
        let records = records.clamp(2, 1 << 24).next_power_of_two();
        Self {
            words: Words::zeroed(records as usize * WORDS_PER_RECORD),
            mask: records - 1,
            owner: Owner { pushed: AtomicU64::new(0), seen_taken: AtomicU64::new(0) },
            consumer: Consumer { taken: AtomicU64::new(0) },
        }
    }

    /// Returns the capacity in records.
    pub fn capacity(&self) -> u64 {
        self.mask + 1
    }

    /// Appends a record. Only the owner may call this.
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

    /// Appends `len` records, or none of them. Only the owner may call this.
    #[inline(never)]
    pub fn push_many(&self, len: u64, record: impl Fn(u64) -> Record) -> Pushed {
        let pushed = self.owner.pushed.load(Ordering::Relaxed);
        // Pairs with the release store in `drain`: the records before `taken` have been read.
        let taken = self.consumer.taken.load(Ordering::Acquire);
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

    /// Takes the records that are in the queue now, oldest first, and returns their number. Records
    /// pushed during the call wait for the next one. Only one thread at a time may call this.
    pub fn drain(&self, mut take: impl FnMut(Record)) -> u64 {
        /// The owner gets space back after each batch.
        const BATCH: u64 = 1024;
        let pushed = self.owner.pushed.load(Ordering::Acquire);
        let first = self.consumer.taken.load(Ordering::Relaxed);
        let mut taken = first;
        while taken != pushed {
            let end = pushed.min(taken + BATCH);
            (taken..end).for_each(|position| take(self.read(position)));
            self.consumer.taken.store(end, Ordering::Release);
            taken = end;
        }
        pushed - first
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        let taken = self.consumer.taken.load(Ordering::Relaxed);
        self.owner.pushed.load(Ordering::Acquire) == taken
    }

    #[inline(always)]
    fn write(&self, position: u64, record: Record) {
        let first = (position & self.mask) as usize * WORDS_PER_RECORD;
        if let Some(words) = self.words.get(first..first + WORDS_PER_RECORD) {
            for (word, value) in words.iter().zip(record) {
                word.store(value, Ordering::Relaxed);
            }
        }
    }

    fn read(&self, position: u64) -> Record {
        let first = (position & self.mask) as usize * WORDS_PER_RECORD;
        let words = self.words.get(first..first + WORDS_PER_RECORD).unwrap_or_default();
        let mut record = [0; WORDS_PER_RECORD];
        for (value, word) in record.iter_mut().zip(words) {
            *value = word.load(Ordering::Relaxed);
        }
        record
    }
}

/// Words of a record.
pub const WORDS_PER_RECORD: usize = size_of::<Record>() / size_of::<u64>();

/// Words in memory pages of their own. The pages take no memory until they are written, and give it
/// back when dropped.
///
/// An allocator would keep the memory of a freed large block, and would write zeros to a recycled
/// one.
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

    // SAFETY: the words are atomics, and the pages belong to `self`.
    unsafe impl Send for Words {}
    // SAFETY: the words are atomics, and the pages belong to `self`.
    unsafe impl Sync for Words {}

    impl Words {
        /// Maps `len` zero words.
        pub(super) fn zeroed(len: usize) -> Self {
            let bytes = len * size_of::<AtomicU64>();
            let (protection, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no
            // existing memory.
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
            // SAFETY: `zeroed` mapped `len` words, whose zeros are valid atomics; they are unmapped
            // with `self`.
            unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
        }
    }

    impl Drop for Words {
        fn drop(&mut self) {
            // SAFETY: the mapping made by `zeroed`, which only `self` owns.
            unsafe { libc::munmap(self.first.as_ptr().cast(), self.len * size_of::<AtomicU64>()) };
        }
    }
}

/// Boxed words for loom, whose atomics cannot be made by mapping zero pages.
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

    fn drained_words(ring: &RingBuffer) -> Vec<u64> {
        let mut taken = Vec::new();
        ring.drain(|[first, ..]| taken.push(first));
        taken
    }

    #[test]
    fn records_are_taken_in_order_and_a_full_queue_refuses() {
        let ring = RingBuffer::new(3);
        assert_eq!(ring.capacity(), 4);
        for round in 0..10 {
            let pushes: Vec<_> =
                (0..6).map(|position| ring.push([round * 6 + position; 4])).collect();
            let expected =
                [Pushed::WithRoom, Pushed::WithRoom, Pushed::BeyondHalf, Pushed::BeyondHalf];
            assert_eq!(pushes[..4], expected);
            assert_eq!(pushes[4..], [Pushed::Refused; 2]);
            assert_eq!(drained_words(&ring), [0, 1, 2, 3].map(|position| round * 6 + position));
            assert!(ring.is_empty());
        }
    }

    #[test]
    fn push_many_stores_all_records_or_none() {
        let ring = RingBuffer::new(4);
        assert_eq!(ring.push([9; 4]), Pushed::WithRoom);
        assert_eq!(ring.push_many(4, |position| [position; 4]), Pushed::Refused);
        assert_eq!(ring.push_many(3, |position| [position; 4]), Pushed::BeyondHalf);
        assert_eq!(drained_words(&ring), [9, 0, 1, 2]);
        assert_eq!(ring.push_many(u64::MAX, |position| [position; 4]), Pushed::Refused);
    }

    #[test]
    fn no_record_is_lost_or_torn_between_threads() {
        const RECORDS: u64 = 300_000;
        let ring = RingBuffer::new(64);
        let refused = std::thread::scope(|threads| {
            let owner = threads.spawn(|| {
                (0..RECORDS).filter(|&position| ring.push([position; 4]) == Pushed::Refused).count()
                    as u64
            });
            let (mut taken, mut last) = (0, None);
            let mut drain = || {
                taken += ring.drain(|record| {
                    assert_eq!(record, [record[0]; 4]);
                    assert!(last < Some(record[0]));
                    last = Some(record[0]);
                });
            };
            while !owner.is_finished() {
                drain();
            }
            drain();
            let refused = owner.join().unwrap();
            assert_eq!(taken + refused, RECORDS);
            refused
        });
        assert!(refused < RECORDS);
    }
}
