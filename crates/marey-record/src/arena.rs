//! Append-only arenas: the owner grows them, anybody reads them, nothing ever moves.
//!
//! Chunk `k` holds `FIRST << k` elements, so an index finds its chunk with one count of leading
//! zeros and an arena of any size has at most [`CHUNKS`] allocations.

use crate::sync::{AtomicPtr, Ordering};

const FIRST_LOG2: u32 = 4;
const FIRST: usize = 1 << FIRST_LOG2;
/// Most chunks of an arena; together they hold more than any `u32` index a thread may make.
pub const CHUNKS: usize = 26;

/// An append-only arena of `T`, where `T` is made of atomics.
pub struct Arena<T> {
    chunks: [AtomicPtr<T>; CHUNKS],
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { chunks: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())) }
    }
}

impl<T> std::fmt::Debug for Arena<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena").finish_non_exhaustive()
    }
}

impl<T: Default> Arena<T> {
    /// The element at `index`, if its chunk exists.
    #[inline(always)]
    #[expect(unsafe_code, reason = "elements are reached through published chunk pointers")]
    pub fn get(&self, index: u32) -> Option<&T> {
        let (chunk, offset) = place(index);
        let base = self.chunks.get(chunk)?.load(Ordering::Acquire);
        if base.is_null() {
            return None;
        }
        // SAFETY: a non-null chunk pointer was published by `ensure` after all of the chunk's
        // `FIRST << chunk` elements were initialised; `place` keeps `offset` below that; chunks are
        // freed only by `drop`, which needs the arena by value.
        Some(unsafe { &*base.add(offset) })
    }

    /// The element at `index`, with its chunk made first if it has none. Only the owner may call
    /// this. `None` beyond the last chunk.
    #[inline]
    pub fn ensure(&self, index: u32) -> Option<&T> {
        match self.get(index) {
            Some(element) => Some(element),
            None => self.grow(index),
        }
    }

    #[cold]
    fn grow(&self, index: u32) -> Option<&T> {
        let (chunk, _) = place(index);
        let slot = self.chunks.get(chunk)?;
        let elements: Box<[T]> = (0..FIRST << chunk).map(|_| T::default()).collect();
        slot.store(Box::into_raw(elements).cast(), Ordering::Release);
        self.get(index)
    }
}

impl<T> Drop for Arena<T> {
    #[expect(unsafe_code, reason = "takes back the chunks that `grow` gave away")]
    fn drop(&mut self) {
        for (chunk, slot) in self.chunks.iter().enumerate() {
            let base = slot.load(Ordering::Acquire);
            if !base.is_null() {
                let elements = std::ptr::slice_from_raw_parts_mut(base, FIRST << chunk);
                // SAFETY: `grow` made this pointer from a boxed slice of exactly this length, and
                // `&mut self` says that nobody holds a reference into it.
                drop(unsafe { Box::from_raw(elements) });
            }
        }
    }
}

#[inline(always)]
fn place(index: u32) -> (usize, usize) {
    let shifted = u64::from(index) + FIRST as u64;
    let chunk = shifted.ilog2() - FIRST_LOG2;
    (chunk as usize, (shifted - ((FIRST as u64) << chunk)) as usize)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn indices_fill_the_chunks_without_gap() {
        let mut expected = (0, 0);
        for index in 0..10_000 {
            assert_eq!(place(index), expected);
            expected.1 += 1;
            if expected.1 == FIRST << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn an_element_is_there_once_ensured_and_keeps_its_place() {
        let arena = Arena::<AtomicU32>::default();
        assert!(arena.get(100).is_none());
        arena.ensure(100).unwrap().store(7, Ordering::Relaxed);
        let first: *const _ = arena.get(100).unwrap();
        arena.ensure(100_000).unwrap();
        assert_eq!(first, std::ptr::from_ref(arena.get(100).unwrap()));
        assert_eq!(arena.get(100).unwrap().load(Ordering::Relaxed), 7);
    }
}
