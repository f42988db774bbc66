//! The memory of a process that is read again and again in nearly the same places.
//!
//! Each pass begins with one system call that reads what the pass before has read. A reading of other
//! memory costs a system call of its own. Nothing is kept from one pass to the next but addresses, so
//! a pass sees the process as it is.

use std::cell::RefCell;
use std::io::IoSliceMut;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::memory::Memory;
use crate::object::ReadMemory;

/// Bytes between two readings that are read too, so that both are one range. Less than a page, so
/// that they can be read if the readings can.
const MAX_GAP_BYTES: u64 = 192;
/// Longest reading that is made again.
const MAX_READING_BYTES: usize = 1 << 16;
/// Bytes that are read at the beginning of a pass.
const MAX_PASS_BYTES: usize = 1 << 22;
/// Ranges of one system call (`IOV_MAX`).
const MAX_RANGES_PER_CALL: usize = 1024;

/// Memory whose readings are made again at the beginning of the next pass.
pub(crate) struct RereadMemory {
    pid: Pid,
    memory: Memory,
    /// The ranges that this pass has begun with, ascending and apart from each other.
    ranges: Vec<Range>,
    /// Their contents, one behind the other.
    bytes: Vec<u8>,
    /// First address and the one behind the last of each reading of this pass.
    readings: RefCell<Vec<(u64, u64)>>,
}

/// A range of addresses, and where its contents are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
    position: usize,
}

impl Range {
    const fn length(&self) -> usize {
        (self.end - self.start) as usize
    }
}

impl RereadMemory {
    pub(crate) fn new(pid: u32, memory: Memory) -> Self {
        Self {
            pid: Pid::from_raw(pid.cast_signed()),
            memory,
            ranges: Vec::new(),
            bytes: Vec::new(),
            readings: RefCell::default(),
        }
    }

    /// Begins a pass.
    pub(crate) fn begin(&mut self) {
        let readings = self.readings.get_mut();
        readings.sort_unstable();
        merge(readings, &mut self.ranges);
        readings.clear();
        let length = self.ranges.last().map_or(0, |last| last.position + last.length());
        self.bytes.resize(length, 0);
        let mut position = 0;
        for ranges in self.ranges.chunks(MAX_RANGES_PER_CALL) {
            let length: usize = ranges.iter().map(Range::length).sum();
            let read = read(self.pid, ranges, &mut self.bytes[position..position + length]);
            position += read;
            if read < length {
                break;
            }
        }
        // Behind a range that cannot be read any more, nothing was.
        self.ranges.retain(|range| range.position + range.length() <= position);
    }

    fn find(&self, address: u64, length: usize) -> Option<&[u8]> {
        let next = self.ranges.partition_point(|range| range.start <= address);
        let range = self.ranges.get(next.checked_sub(1)?)?;
        let offset = usize::try_from(address - range.start).ok()?;
        self.bytes[range.position..][..range.length()].get(offset..offset.checked_add(length)?)
    }
}

impl ReadMemory for RereadMemory {
    fn read_into(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        match self.find(address, buffer.len()) {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None => self.memory.read_into(address, buffer)?,
        }
        if buffer.len() <= MAX_READING_BYTES {
            self.readings.borrow_mut().push((address, address.checked_add(buffer.len() as u64)?));
        }
        Some(())
    }
}

/// Merges ascending readings that are near to each other.
fn merge(readings: &[(u64, u64)], ranges: &mut Vec<Range>) {
    ranges.clear();
    let mut position = 0;
    for &(start, end) in readings {
        match ranges.last_mut() {
            Some(last) if start <= last.end.saturating_add(MAX_GAP_BYTES) => {
                let end = end.max(last.end);
                position += (end - last.end) as usize;
                last.end = end;
            }
            _ => {
                ranges.push(Range { start, end, position });
                position += (end - start) as usize;
            }
        }
        if position > MAX_PASS_BYTES {
            return;
        }
    }
}

/// Reads ranges of a process one behind the other; returns the number of bytes that could be read.
fn read(pid: Pid, ranges: &[Range], bytes: &mut [u8]) -> usize {
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
        RereadMemory::new(pid, Memory::open(pid).unwrap())
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
        memory.begin();
        assert_eq!(memory.find(address, 8), None);
        assert_eq!(word(&memory, address), 1);
        value.store(2, Ordering::SeqCst);
        memory.begin();
        value.store(3, Ordering::SeqCst);
        assert_eq!(word(&memory, address), 2);
        // What a pass has not read again is forgotten.
        memory.begin();
        memory.begin();
        assert_eq!(memory.find(address, 8), None);
        assert_eq!(word(&memory, address), 3);
    }

    #[test]
    fn memory_that_is_gone_leaves_the_other_readable() {
        let value = AtomicU64::new(7);
        let address = value.as_ptr() as u64;
        let mut memory = own_memory();
        memory.readings.get_mut().extend([(8, 16), (address, address + 8)]);
        memory.begin();
        assert_eq!(memory.ranges, []);
        assert_eq!(word(&memory, address), 7);
    }

    #[test]
    fn near_readings_are_one_range_and_a_pass_is_bounded() {
        let mut ranges = Vec::new();
        merge(&[(0, 8), (4, 6), (100, 108), (1_000, 1_008)], &mut ranges);
        let expected = [(0, 108, 0), (1_000, 1_008, 108)].map(|(start, end, position)| Range {
            start,
            end,
            position,
        });
        assert_eq!(ranges, expected);
        let pages: Vec<_> =
            (0..1 << 10).map(|page| (page << 20, (page << 20) + (1 << 16))).collect();
        merge(&pages, &mut ranges);
        assert!(ranges.len() < 100, "{}", ranges.len());
    }
}
