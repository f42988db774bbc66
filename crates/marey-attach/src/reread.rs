//! Reads the memory of a process again and again in nearly the same places, with few system calls.
//! The sampler uses it.
//!
//! Each pass begins with a bulk read of the ranges that the previous pass read. A read of other
//! memory costs a system call of its own. Only addresses are kept from one pass to the next, so a
//! pass sees the process as it is.

use std::cell::RefCell;
use std::io::IoSliceMut;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::memory::ProcessMemory;
use crate::object::ReadMemory;

/// The longest gap between two reads that is read too, so that both are one range. It is shorter
/// than a page, so the gap is readable if both reads are.
const MAX_GAP_BYTES: u64 = 192;
/// The longest read that is repeated in the next pass.
const MAX_REPEATED_BYTES: usize = 1 << 16;
/// The number of bytes at the beginning of a pass after which no further range is read.
const MAX_PASS_BYTES: usize = 1 << 22;
/// The maximum number of ranges of one system call (`IOV_MAX`).
const MAX_RANGES_PER_CALL: usize = 1024;

/// The memory of a process, whose reads of one pass are repeated at the beginning of the next.
pub(crate) struct RereadMemory {
    pid: Pid,
    memory: ProcessMemory,
    /// The ranges that were read at the beginning of this pass, ascending and disjoint.
    ranges: Vec<ReadRange>,
    /// The contents of the ranges, one after another.
    bytes: Vec<u8>,
    /// The first address of each read of this pass, and the one after the last.
    reads: RefCell<Vec<(u64, u64)>>,
}

/// A range of addresses whose contents were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReadRange {
    start: u64,
    end: u64,
    /// The position of the contents in [`RereadMemory::bytes`].
    buffer_offset: usize,
}

impl ReadRange {
    const fn length(&self) -> usize {
        (self.end - self.start) as usize
    }
}

impl RereadMemory {
    pub(crate) fn new(pid: u32, memory: ProcessMemory) -> Self {
        Self {
            pid: Pid::from_raw(pid.cast_signed()),
            memory,
            ranges: Vec::new(),
            bytes: Vec::new(),
            reads: RefCell::default(),
        }
    }

    /// Begins a pass: repeats the reads of the previous one.
    pub(crate) fn begin_pass(&mut self) {
        let reads = self.reads.get_mut();
        reads.sort_unstable();
        merge_reads(reads, &mut self.ranges);
        reads.clear();
        let length = self.ranges.last().map_or(0, |last| last.buffer_offset + last.length());
        self.bytes.resize(length, 0);
        let mut buffer_offset = 0;
        for ranges in self.ranges.chunks(MAX_RANGES_PER_CALL) {
            let length: usize = ranges.iter().map(ReadRange::length).sum();
            let read = read_ranges(
                self.pid,
                ranges,
                &mut self.bytes[buffer_offset..buffer_offset + length],
            );
            buffer_offset += read;
            if read < length {
                break;
            }
        }
        // The system call stops at a range that cannot be read any more, so the later ones are
        // dropped too.
        self.ranges.retain(|range| range.buffer_offset + range.length() <= buffer_offset);
    }

    /// Returns bytes that were read at the beginning of this pass, if one range contains them all.
    fn read_in_pass(&self, address: u64, length: usize) -> Option<&[u8]> {
        let next = self.ranges.partition_point(|range| range.start <= address);
        let range = self.ranges.get(next.checked_sub(1)?)?;
        let offset = usize::try_from(address - range.start).ok()?;
        self.bytes[range.buffer_offset..][..range.length()].get(offset..offset.checked_add(length)?)
    }
}

impl ReadMemory for RereadMemory {
    fn read_into(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        match self.read_in_pass(address, buffer.len()) {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None => self.memory.read_into(address, buffer)?,
        }
        if buffer.len() <= MAX_REPEATED_BYTES {
            self.reads.borrow_mut().push((address, address.checked_add(buffer.len() as u64)?));
        }
        Some(())
    }
}

/// Merges ascending reads that are near to each other into ranges, up to the limit of a pass.
fn merge_reads(reads: &[(u64, u64)], ranges: &mut Vec<ReadRange>) {
    ranges.clear();
    let mut buffer_offset = 0;
    for &(start, end) in reads {
        match ranges.last_mut() {
            Some(last) if start <= last.end.saturating_add(MAX_GAP_BYTES) => {
                let end = end.max(last.end);
                buffer_offset += (end - last.end) as usize;
                last.end = end;
            }
            _ => {
                ranges.push(ReadRange { start, end, buffer_offset });
                buffer_offset += (end - start) as usize;
            }
        }
        if buffer_offset > MAX_PASS_BYTES {
            return;
        }
    }
}

/// Reads ranges of a process, one after another. Returns the number of bytes that were read.
fn read_ranges(pid: Pid, ranges: &[ReadRange], bytes: &mut [u8]) -> usize {
    let remote: Vec<RemoteIoVec> = ranges
        .iter()
        .map(|range| RemoteIoVec { base: range.start as usize, len: range.length() })
        .collect();
    process_vm_readv(pid, &mut [IoSliceMut::new(bytes)], &remote).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn own_memory() -> RereadMemory {
        let pid = std::process::id();
        RereadMemory::new(pid, ProcessMemory::open(pid).unwrap())
    }

    fn word(memory: &RereadMemory, address: u64) -> u64 {
        let mut bytes = [0; 8];
        memory.read_into(address, &mut bytes).unwrap();
        u64::from_ne_bytes(bytes)
    }

    #[test]
    fn a_pass_sees_the_memory_as_it_is_without_another_call() {
        let value = AtomicU64::new(1);
        let address = value.as_ptr() as u64;
        let mut memory = own_memory();
        memory.begin_pass();
        assert_eq!(memory.read_in_pass(address, 8), None);
        assert_eq!(word(&memory, address), 1);
        value.store(2, Ordering::SeqCst);
        memory.begin_pass();
        value.store(3, Ordering::SeqCst);
        assert_eq!(word(&memory, address), 2);
        // A pass that does not use a range drops it from the next pass.
        memory.begin_pass();
        memory.begin_pass();
        assert_eq!(memory.read_in_pass(address, 8), None);
        assert_eq!(word(&memory, address), 3);
    }

    #[test]
    fn memory_that_is_gone_leaves_the_other_readable() {
        let value = AtomicU64::new(7);
        let address = value.as_ptr() as u64;
        let mut memory = own_memory();
        memory.reads.get_mut().extend([(8, 16), (address, address + 8)]);
        memory.begin_pass();
        assert_eq!(memory.ranges, []);
        assert_eq!(word(&memory, address), 7);
    }

    #[test]
    fn near_readings_are_one_range_and_a_pass_is_bounded() {
        let mut ranges = Vec::new();
        merge_reads(&[(0, 8), (4, 6), (100, 108), (1_000, 1_008)], &mut ranges);
        let expected = [(0, 108, 0), (1_000, 1_008, 108)]
            .map(|(start, end, buffer_offset)| ReadRange { start, end, buffer_offset });
        assert_eq!(ranges, expected);
        let pages: Vec<_> =
            (0..1 << 10).map(|page| (page << 20, (page << 20) + (1 << 16))).collect();
        merge_reads(&pages, &mut ranges);
        assert!(ranges.len() < 100, "{}", ranges.len());
    }
}
