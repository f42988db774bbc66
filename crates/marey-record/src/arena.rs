//! Append-only arenas: the owner thread grows them, all threads read them, elements never move.
//!
//! Chunk `k` contains `2^(LOG2 + k)` elements, so one count of leading zeros finds the chunk of an
//! index. For the first chunk, which most threads never leave, one comparison is enough.

use crate::sync::{AtomicPtr, Ordering};

/// The maximum number of chunks. Together they have room for every `u32` index that a
/// thread may make.
const CHUNKS: usize = 28;

/// An append-only arena of `T`, where `T` consists of atomics. The first chunk has `2^LOG2`
/// elements.
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
    /// Returns the element at `index`, if its chunk exists.
    #[inline(always)]
    #[expect(unsafe_code, reason = "elements are reached through published chunk pointers")]
    pub fn get(&self, index: u32) -> Option<&T> {
        let (chunk, offset) = locate::<LOG2>(index);
        let base = self.chunks.get(chunk)?.load(Ordering::Acquire);
        if base.is_null() {
            return None;
        }
        // SAFETY: a non-null chunk pointer was published by `grow` after all elements of the chunk
        // were initialised. `locate` keeps `offset` below the length of the chunk. Chunks are freed
        // only by `drop`, which has exclusive access to the arena.
        Some(unsafe { &*base.add(offset) })
    }

    /// Returns the element at `index`, after allocating its chunk if needed. Only the owner may
    /// call this. `None` beyond the last chunk.
    #[inline(always)]
    pub fn ensure(&self, index: u32) -> Option<&T> {
        match self.get(index) {
            Some(element) => Some(element),
            None => self.grow(index),
        }
    }

    /// Allocates the chunks of the first `len` elements. Only the owner may call this.
    pub fn reserve(&self, len: u32) {
        let mut first = 0;
        while first < len && self.ensure(first).is_some() {
            first = Self::after_chunk(first);
        }
    }

    /// Allocates the chunks in which `other` has an element that is used. Only the owner may call
    /// this.
    pub fn reserve_as(&self, other: &Self, is_used: impl Fn(&T) -> bool) {
        let mut first = 0;
        while (first as usize) < other.capacity() {
            let next = Self::after_chunk(first);
            if (first..next).filter_map(|index| other.get(index)).any(&is_used) {
                self.ensure(first);
            }
            first = next;
        }
    }

    /// Returns the index after the chunk whose first element has the index `first`.
    const fn after_chunk(first: u32) -> u32 {
        2 * first + (1 << LOG2)
    }

    /// Whether any chunk exists.
    pub fn has_chunks(&self) -> bool {
        self.capacity() > 0
    }

    /// Returns the index after the last element whose chunk exists.
    fn capacity(&self) -> usize {
        let last = self.chunks.iter().rposition(|chunk| !chunk.load(Ordering::Acquire).is_null());
        last.map_or(0, |chunk| chunk_len::<LOG2>(chunk + 1) - (1 << LOG2))
    }

    #[cold]
    #[inline(never)]
    fn grow(&self, index: u32) -> Option<&T> {
        let (chunk, _) = locate::<LOG2>(index);
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
                // `&mut self` guarantees that no reference into it exists.
                drop(unsafe { Box::from_raw(elements) });
            }
        }
    }
}

const fn chunk_len<const LOG2: u32>(chunk: usize) -> usize {
    1 << (LOG2 as usize + chunk)
}

/// Returns the chunk of an index and the offset in the chunk.
#[inline(always)]
fn locate<const LOG2: u32>(index: u32) -> (usize, usize) {
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
    fn indices_fill_the_chunks_without_gaps() {
        let mut expected = (0, 0);
        for index in 0..10_000 {
            assert_eq!(locate::<4>(index), expected);
            expected.1 += 1;
            if expected.1 == chunk_len::<4>(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn a_reserved_arena_has_the_chunks_of_the_elements_that_are_used() {
        let arena = Arena::<AtomicU32, 3>::default();
        arena.reserve(0);
        assert_eq!(arena.capacity(), 0);
        arena.reserve(9);
        assert_eq!(arena.capacity(), 8 + 16);
        arena.ensure(100).unwrap().store(7, Ordering::Relaxed);
        let other = Arena::<AtomicU32, 3>::default();
        other.reserve_as(&arena, |element| element.load(Ordering::Relaxed) == 7);
        assert!(other.get(100).is_some_and(|element| element.load(Ordering::Relaxed) == 0));
        assert!(other.get(0).is_none() && other.get(9).is_none());
    }

    #[test]
    fn an_ensured_element_exists_and_never_moves() {
        let arena = Arena::<AtomicU32, 3>::default();
        assert!(arena.get(100).is_none());
        arena.ensure(100).unwrap().store(7, Ordering::Relaxed);
        let first: *const _ = arena.get(100).unwrap();
        arena.ensure(100_000).unwrap();
        assert_eq!(first, std::ptr::from_ref(arena.get(100).unwrap()));
        assert_eq!(arena.get(100).unwrap().load(Ordering::Relaxed), 7);
    }
}
