//! Append-only arenas: the owner grows them, anybody reads them, nothing ever moves.
//!
//! Chunk `k` holds `2^(LOG2 + k)` elements, so an index finds its chunk with one count of leading
//! zeros, and the first elements, which most threads never leave, with one comparison.

use crate::sync::{AtomicPtr, Ordering};

/// Most chunks of an arena; together they hold more than any `u32` index a thread may make.
const CHUNKS: usize = 28;

/// An append-only arena of `T`, where `T` is made of atomics. The first chunk has `2^LOG2` elements.
pub struct Arena<T, const LOG2: u32> {
    chunks: [AtomicPtr<T>; CHUNKS],
}

impl<T, const LOG2: u32> Default for Arena<T, LOG2> {
    fn default() -> Self {
        Self { chunks: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())) }
    }
}

impl<T, const LOG2: u32> std::fmt::Debug for Arena<T, LOG2> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena").finish_non_exhaustive()
    }
}

impl<T: Default, const LOG2: u32> Arena<T, LOG2> {
    /// The element at `index`, if its chunk exists.
    #[inline(always)]
    #[expect(unsafe_code, reason = "elements are reached through published chunk pointers")]
    pub fn get(&self, index: u32) -> Option<&T> {
        let (chunk, offset) = place::<LOG2>(index);
        let base = self.chunks.get(chunk)?.load(Ordering::Acquire);
        if base.is_null() {
            return None;
        }
        // SAFETY: a non-null chunk pointer was published by `grow` after all of the chunk's elements
        // were initialised; `place` keeps `offset` below their number; chunks are freed only by
        // `drop`, which needs the arena by value.
        Some(unsafe { &*base.add(offset) })
    }

    /// The element at `index`, with its chunk made first if it has none. Only the owner may call
    /// this. `None` beyond the last chunk.
    #[inline(always)]
    pub fn ensure(&self, index: u32) -> Option<&T> {
        match self.get(index) {
            Some(element) => Some(element),
            None => self.grow(index),
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&self, index: u32) -> Option<&T> {
        let (chunk, _) = place::<LOG2>(index);
        let slot = self.chunks.get(chunk)?;
        let elements: Box<[T]> = (0..chunk_len::<LOG2>(chunk)).map(|_| T::default()).collect();
        slot.store(Box::into_raw(elements).cast(), Ordering::Release);
        self.get(index)
    }
}

impl<T, const LOG2: u32> Drop for Arena<T, LOG2> {
    #[expect(unsafe_code, reason = "takes back the chunks that `grow` gave away")]
    fn drop(&mut self) {
        for (chunk, slot) in self.chunks.iter().enumerate() {
            let base = slot.load(Ordering::Acquire);
            if !base.is_null() {
                let elements = std::ptr::slice_from_raw_parts_mut(base, chunk_len::<LOG2>(chunk));
                // SAFETY: `grow` made this pointer from a boxed slice of exactly this length, and
                // `&mut self` says that nobody holds a reference into it.
                drop(unsafe { Box::from_raw(elements) });
            }
        }
    }
}

const fn chunk_len<const LOG2: u32>(chunk: usize) -> usize {
    1 << (LOG2 as usize + chunk)
}

/// The chunk of an index, and the offset in it.
#[inline(always)]
fn place<const LOG2: u32>(index: u32) -> (usize, usize) {
    if index >> LOG2 == 0 {
        return (0, index as usize);
    }
    let shifted = u64::from(index) + (1 << LOG2);
    let chunk = shifted.ilog2() - LOG2;
    (chunk as usize, (shifted - (1 << (LOG2 + chunk))) as usize)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn indices_fill_the_chunks_without_gap() {
        let mut expected = (0, 0);
        for index in 0..10_000 {
            assert_eq!(place::<4>(index), expected);
            expected.1 += 1;
            if expected.1 == chunk_len::<4>(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn an_element_is_there_once_ensured_and_keeps_its_place() {
        let arena = Arena::<AtomicU32, 3>::default();
        assert!(arena.get(100).is_none());
        arena.ensure(100).unwrap().store(7, Ordering::Relaxed);
        let first: *const _ = arena.get(100).unwrap();
        arena.ensure(100_000).unwrap();
        assert_eq!(first, std::ptr::from_ref(arena.get(100).unwrap()));
        assert_eq!(arena.get(100).unwrap().load(Ordering::Relaxed), 7);
    }
}
