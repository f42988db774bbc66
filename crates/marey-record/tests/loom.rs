//! Every interleaving, and every reordering that C11 allows, of what threads do to each other's
//! trees without a lock: `RUSTFLAGS="--cfg loom" cargo test -p marey-record --release --test loom`.
//!
//! The owner of the words runs on the model's first thread. It reads its own words before it writes them,
//! and loom would not see that another thread's earlier read races with that write: what starts second
//! must be the reader.

#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;
use marey_record::arena::Arena;
use marey_record::ring::{Pushed, Record, Ring};
use marey_record::seq::Seq;
use marey_record::sync::heavy_fence;

/// Two words that change together, inside an event.
#[derive(Default)]
struct Pair {
    seq: Seq,
    first: AtomicU64,
    second: AtomicU64,
}

impl Pair {
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
fn a_reader_never_sees_half_an_event() {
    loom::model(|| {
        let pair = Arc::new(Pair::default());
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
        assert_eq!(pair.seq.events(), 2);
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

/// Lets the owner go on with its event.
fn rest() -> bool {
    thread::yield_now();
    true
}

/// A mask that events obey, and what they write.
struct Masked {
    seq: Seq,
    mask: AtomicU64,
    written: AtomicU64,
}

impl Masked {
    fn new() -> Arc<Self> {
        Arc::new(Self { seq: Seq::default(), mask: AtomicU64::new(1), written: AtomicU64::new(0) })
    }

    /// As the owner of a thread does.
    fn event(&self) {
        assert!(self.seq.begin());
        if self.mask.load(Ordering::Relaxed) != 0 {
            self.written.store(self.written.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        self.seq.end();
    }
}

#[test]
fn after_a_session_was_stopped_no_event_writes_to_it() {
    loom::model(|| {
        let shared = Masked::new();
        let ender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.mask.store(0, Ordering::SeqCst);
                heavy_fence();
                assert!(shared.seq.wait_outside_event(rest).is_ok());
                shared.written.load(Ordering::Relaxed)
            })
        };
        shared.event();
        shared.event();
        let written = ender.join().unwrap();
        assert_eq!(shared.written.load(Ordering::Relaxed), written);
    });
}

#[test]
fn a_column_that_was_taken_away_is_written_to_no_more() {
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
                assert!(seq.wait_outside_event(rest).is_ok());
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
        assert_eq!(columns[0].load(Ordering::Relaxed), taken, "it could have been freed");
        assert_eq!(taken + columns[1].load(Ordering::Relaxed), 2, "no entry is lost");
    });
}

#[test]
fn a_column_that_was_noted_is_written_to_no_more_once_it_was_taken_away() {
    loom::model(|| {
        // As above; and the version of what the owner has noted.
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
                assert!(seq.wait_outside_event(rest).is_ok());
                columns[0].load(Ordering::Relaxed)
            })
        };
        let mut noted = (1, 1);
        for _ in 0..2 {
            assert!(seq.begin());
            let now = version.load(Ordering::Acquire);
            if noted.0 != now {
                // The event was not usual after all, and begins again.
                seq.cancel();
                assert!(seq.begin());
                let now = version.load(Ordering::Acquire);
                let mut number = column.load(Ordering::Relaxed);
                if number == 0 {
                    number = 2;
                    column.store(number, Ordering::Release);
                }
                noted = (now, number);
            }
            let entries = &columns[noted.1 as usize - 1];
            entries.store(entries.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            seq.end();
        }
        let taken = taker.join().unwrap();
        assert_eq!(columns[0].load(Ordering::Relaxed), taken, "it could have been freed");
        assert_eq!(taken + columns[1].load(Ordering::Relaxed), 2, "no entry is lost");
    });
}

#[test]
fn an_event_that_was_called_off_hides_no_half_of_the_next() {
    loom::model(|| {
        let pair = Arc::new(Pair::default());
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
        assert_eq!(pair.seq.events(), 1);
    });
}

#[test]
fn an_element_that_is_counted_is_there_and_whole() {
    /// Of the second chunk, so that a chunk is made while the other thread looks.
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
            // Made, not counted yet: it may be read, and holds nothing or the value.
            assert!(matches!(element.load(Ordering::Relaxed), 0 | 7));
        }
        owner.join().unwrap();
    });
}

#[test]
fn a_ring_hands_over_every_record_that_it_took_whole_and_in_order() {
    const RECORDS: u64 = 3;
    loom::model(|| {
        // Two records fit: the owner meets a full ring, and room that is made meanwhile.
        let ring = Arc::new(Ring::new(2));
        let drain = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || take(&ring))
        };
        let accepted = (1..=RECORDS).filter(|&at| ring.push([at; 4]) != Pushed::Refused).count();
        let mut taken = drain.join().unwrap();
        taken.extend(take(&ring));
        assert_eq!(taken.len(), accepted);
        // Nothing was written to the ring before: a record of zeros is none.
        assert!(taken.iter().all(|record| record[0] > 0 && *record == [record[0]; 4]));
        assert!(taken.is_sorted_by(|a, b| a[0] < b[0]));
        assert!(ring.is_empty());
    });
}

fn take(ring: &Ring) -> Vec<Record> {
    let mut taken = Vec::new();
    ring.drain(|record| taken.push(record));
    taken
}

#[test]
fn records_that_go_in_together_come_out_together() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(4));
        let drain = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || take(&ring))
        };
        assert_eq!(ring.push([9; 4]), Pushed::WithRoom);
        assert_eq!(ring.push_many(3, |at| [at + 1; 4]), Pushed::BeyondHalf);
        let taken = drain.join().unwrap();
        assert!([&[][..], &[9], &[9, 1, 2, 3]].contains(&&*firsts(&taken)), "{taken:?}");
    });
}

fn firsts(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record[0]).collect()
}
