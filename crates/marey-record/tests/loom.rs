//! Model checking of the lock-free code over all interleavings and all reorderings that C11 allows:
//! `RUSTFLAGS="--cfg loom" cargo test -p marey-record --release --test loom`.
//!
//! The owner of the words runs on the model's first thread and the reader on the second. The owner
//! reads its own words before it writes them, and loom would not detect that an earlier read on
//! another thread races with that write.

#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;
use marey_record::arena::Arena;
use marey_record::ring::{Pushed, Record, RingBuffer};
use marey_record::seq::Seq;
use marey_record::sync::heavy_fence;

/// Two words that change together, inside an event.
#[derive(Default)]
struct WordPair {
    seq: Seq,
    first: AtomicU64,
    second: AtomicU64,
}

impl WordPair {
    fn set(&self, value: u64) {
        assert!(self.seq.begin());
        self.first.store(value, Ordering::Relaxed);
        self.second.store(value, Ordering::Relaxed);
        self.seq.end();
    }

    fn load(&self) -> (u64, u64) {
        (self.first.load(Ordering::Relaxed), self.second.load(Ordering::Relaxed))
    }
}

#[test]
fn a_reader_never_sees_a_part_of_an_event() {
    loom::model(|| {
        let pair = Arc::new(WordPair::default());
        let reader = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                if let Some((first, second)) = pair.seq.read(2, || pair.load()) {
                    assert_eq!(first, second);
                }
            })
        };
        pair.set(1);
        pair.set(2);
        reader.join().unwrap();
        assert_eq!(pair.seq.read(1, || pair.load()), Some((2, 2)));
        assert_eq!(pair.seq.completed_events(), 2);
    });
}

#[test]
fn an_event_inside_an_event_is_refused() {
    loom::model(|| {
        let seq = Seq::default();
        assert!(seq.begin());
        assert!(!seq.begin());
        seq.end();
        assert!(seq.begin());
    });
}

/// Lets the owner continue its event.
fn pause() -> bool {
    thread::yield_now();
    true
}

/// A mask that events read, and the word that they write if the mask is set.
struct MaskedWord {
    seq: Seq,
    mask: AtomicU64,
    written: AtomicU64,
}

impl MaskedWord {
    fn new() -> Arc<Self> {
        Arc::new(Self { seq: Seq::default(), mask: AtomicU64::new(1), written: AtomicU64::new(0) })
    }

    /// One event of the owner.
    fn run_event(&self) {
        assert!(self.seq.begin());
        if self.mask.load(Ordering::Relaxed) != 0 {
            self.written.store(self.written.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        self.seq.end();
    }
}

#[test]
fn no_event_writes_to_a_session_after_it_was_stopped() {
    loom::model(|| {
        let shared = MaskedWord::new();
        let ender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.mask.store(0, Ordering::SeqCst);
                heavy_fence();
                assert!(shared.seq.wait_outside_event(pause).is_ok());
                shared.written.load(Ordering::Relaxed)
            })
        };
        shared.run_event();
        shared.run_event();
        let written = ender.join().unwrap();
        assert_eq!(shared.written.load(Ordering::Relaxed), written);
    });
}

#[test]
fn a_taken_column_is_not_written() {
    loom::model(|| {
        // 0: no column; else the number of one of the two below.
        let column = Arc::new(AtomicU32::new(1));
        let seq = Arc::new(Seq::default());
        let columns = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let taker = {
            let (column, seq, columns) =
                (Arc::clone(&column), Arc::clone(&seq), Arc::clone(&columns));
            thread::spawn(move || {
                assert_eq!(column.swap(0, Ordering::AcqRel), 1);
                heavy_fence();
                assert!(seq.wait_outside_event(pause).is_ok());
                columns[0].load(Ordering::Relaxed)
            })
        };
        for _ in 0..2 {
            assert!(seq.begin());
            let mut number = column.load(Ordering::Relaxed);
            if number == 0 {
                number = 2;
                column.store(number, Ordering::Release);
            }
            let entries = &columns[number as usize - 1];
            entries.store(entries.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            seq.end();
        }
        let taken = taker.join().unwrap();
        assert_eq!(columns[0].load(Ordering::Relaxed), taken, "the freed column was written");
        assert_eq!(taken + columns[1].load(Ordering::Relaxed), 2, "an entry was lost");
    });
}

#[test]
fn a_column_that_replaces_another_is_seen_as_it_was_made() {
    /// The value of a column's word before its first entry.
    const EMPTY: u64 = 100;
    loom::model(|| {
        let column = Arc::new(AtomicU32::new(1));
        let seq = Arc::new(Seq::default());
        let columns = Arc::new([AtomicU64::new(EMPTY), AtomicU64::new(0)]);
        let taker = {
            let (column, seq, columns) =
                (Arc::clone(&column), Arc::clone(&seq), Arc::clone(&columns));
            thread::spawn(move || {
                columns[1].store(EMPTY, Ordering::Relaxed);
                assert_eq!(column.swap(2, Ordering::AcqRel), 1);
                heavy_fence();
                assert!(seq.wait_outside_event(pause).is_ok());
                columns[0].load(Ordering::Relaxed)
            })
        };
        for _ in 0..2 {
            assert!(seq.begin());
            let entries = &columns[column.load(Ordering::Acquire) as usize - 1];
            entries.store(entries.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            seq.end();
        }
        let taken = taker.join().unwrap();
        assert_eq!(columns[0].load(Ordering::Relaxed), taken, "the freed column was written");
        let kept = columns[1].load(Ordering::Relaxed);
        assert_eq!(taken + kept, 2 * EMPTY + 2, "an entry was lost");
    });
}

#[test]
fn a_cached_column_is_not_written_after_it_was_taken() {
    loom::model(|| {
        // As above, with the version of the owner's cache.
        let column = Arc::new(AtomicU32::new(1));
        let version = Arc::new(AtomicU64::new(1));
        let seq = Arc::new(Seq::default());
        let columns = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let taker = {
            let (column, version) = (Arc::clone(&column), Arc::clone(&version));
            let (seq, columns) = (Arc::clone(&seq), Arc::clone(&columns));
            thread::spawn(move || {
                assert_eq!(column.swap(0, Ordering::AcqRel), 1);
                version.fetch_add(1, Ordering::SeqCst);
                heavy_fence();
                assert!(seq.wait_outside_event(pause).is_ok());
                columns[0].load(Ordering::Relaxed)
            })
        };
        let (mut cached_version, mut cached_number) = (1, 1);
        for _ in 0..2 {
            assert!(seq.begin());
            let now = version.load(Ordering::Acquire);
            if cached_version != now {
                // The event needs the slow path, and begins again.
                seq.cancel();
                assert!(seq.begin());
                let now = version.load(Ordering::Acquire);
                let mut number = column.load(Ordering::Relaxed);
                if number == 0 {
                    number = 2;
                    column.store(number, Ordering::Release);
                }
                (cached_version, cached_number) = (now, number);
            }
            let entries = &columns[cached_number as usize - 1];
            entries.store(entries.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            seq.end();
        }
        let taken = taker.join().unwrap();
        assert_eq!(columns[0].load(Ordering::Relaxed), taken, "the freed column was written");
        assert_eq!(taken + columns[1].load(Ordering::Relaxed), 2, "an entry was lost");
    });
}

#[test]
fn a_cancelled_event_does_not_hide_a_part_of_the_next() {
    loom::model(|| {
        let pair = Arc::new(WordPair::default());
        let reader = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                if let Some((first, second)) = pair.seq.read(2, || pair.load()) {
                    assert_eq!(first, second);
                }
            })
        };
        assert!(pair.seq.begin());
        pair.seq.cancel();
        pair.set(1);
        reader.join().unwrap();
        assert_eq!(pair.seq.read(1, || pair.load()), Some((1, 1)));
        assert_eq!(pair.seq.completed_events(), 1);
    });
}

#[test]
fn a_counted_element_is_allocated_and_complete() {
    /// In the second chunk, so that a chunk is allocated while the other thread reads.
    const INDEX: u32 = 2;
    loom::model(|| {
        let arena = Arc::new(Arena::<AtomicU64, 1>::default());
        let len = Arc::new(AtomicU32::new(0));
        let owner = {
            let (arena, len) = (Arc::clone(&arena), Arc::clone(&len));
            thread::spawn(move || {
                arena.ensure(INDEX).unwrap().store(7, Ordering::Relaxed);
                len.store(INDEX + 1, Ordering::Release);
            })
        };
        if len.load(Ordering::Acquire) > INDEX {
            assert_eq!(arena.get(INDEX).unwrap().load(Ordering::Relaxed), 7);
        } else if let Some(element) = arena.get(INDEX) {
            // Allocated but not counted yet: it may be read, and contains zero or the value.
            assert!(matches!(element.load(Ordering::Relaxed), 0 | 7));
        }
        owner.join().unwrap();
    });
}

#[test]
fn accepted_records_are_drained_complete_and_in_order() {
    const RECORDS: u64 = 3;
    loom::model(|| {
        // The capacity is two: the owner meets a full ring, and space that is freed in between.
        let ring = Arc::new(RingBuffer::new(2));
        let drain = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || drained_records(&ring))
        };
        let accepted =
            (1..=RECORDS).filter(|&position| ring.push([position; 4]) != Pushed::Refused).count();
        let mut taken = drain.join().unwrap();
        taken.extend(drained_records(&ring));
        assert_eq!(taken.len(), accepted);
        // The ring is initially zero, so a record of zeros was never written.
        assert!(taken.iter().all(|record| record[0] > 0 && *record == [record[0]; 4]));
        assert!(taken.is_sorted_by(|a, b| a[0] < b[0]));
        assert!(ring.is_empty());
    });
}

fn drained_records(ring: &RingBuffer) -> Vec<Record> {
    let mut taken = Vec::new();
    ring.drain(|record| taken.push(record));
    taken
}

#[test]
fn records_pushed_together_are_drained_together() {
    loom::model(|| {
        let ring = Arc::new(RingBuffer::new(4));
        let drain = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || drained_records(&ring))
        };
        assert_eq!(ring.push([9; 4]), Pushed::WithRoom);
        assert_eq!(ring.push_many(3, |position| [position + 1; 4]), Pushed::BeyondHalf);
        let taken = drain.join().unwrap();
        assert!([&[][..], &[9], &[9, 1, 2, 3]].contains(&&*first_words(&taken)), "{taken:?}");
    });
}

fn first_words(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record[0]).collect()
}
