//! The page that the kernel shares for a performance event. Through it a thread reads the counter
//! without a system call.
//!
//! It has the layout of `struct perf_event_mmap_page` in `linux/perf_event.h`.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// The beginning of the page. The kernel writes it, with `sequence` as a sequence number.
#[repr(C)]
pub(super) struct CounterPage {
    _version: u32,
    _compat_version: u32,
    sequence: AtomicU32,
    /// Number of the processor's counter, plus one; 0 while the event is not on the processor.
    counter_number: AtomicU32,
    /// A signed number to add to the counter.
    offset: AtomicU64,
    _time_enabled: u64,
    _time_running: u64,
    capabilities: AtomicU64,
    /// Width of the counter in bits.
    width_bits: AtomicU16,
}

/// Bit of `capabilities`: user code may execute `rdpmc`.
const CAN_READ_COUNTER: u64 = 1 << 2;

impl CounterPage {
    /// Returns the count of the event, `None` if it can only be read by a system call now.
    /// `read_counter` returns the processor's counter with a number; it is called only if the
    /// kernel allows it.
    pub(super) fn count(&self, read_counter: impl Fn(u32) -> u64) -> Option<u64> {
        loop {
            let sequence = self.sequence.load(Ordering::Acquire);
            let counter_number = self.counter_number.load(Ordering::Relaxed);
            let width_bits = self.width_bits.load(Ordering::Relaxed);
            let capabilities = self.capabilities.load(Ordering::Relaxed);
            if capabilities & CAN_READ_COUNTER == 0
                || counter_number == 0
                || !(1..=64).contains(&width_bits)
            {
                return None;
            }
            let counter = read_counter(counter_number - 1);
            let offset = self.offset.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if self.sequence.load(Ordering::Relaxed) == sequence {
                return Some(offset.wrapping_add(sign_extend(counter, width_bits)));
            }
        }
    }
}

/// Returns the lowest `width_bits` bits (1 to 64) sign-extended.
fn sign_extend(counter: u64, width_bits: u16) -> u64 {
    let unused_bits = 64 - u32::from(width_bits);
    ((counter << unused_bits).cast_signed() >> unused_bits).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn page(index: u32, offset: u64, capabilities: u64, width: u16) -> CounterPage {
        CounterPage {
            _version: 0,
            _compat_version: 0,
            sequence: AtomicU32::new(0),
            counter_number: AtomicU32::new(index),
            offset: AtomicU64::new(offset),
            _time_enabled: 0,
            _time_running: 0,
            capabilities: AtomicU64::new(capabilities),
            width_bits: AtomicU16::new(width),
        }
    }

    #[test]
    fn fields_are_where_the_kernel_has_them() {
        assert_eq!(std::mem::offset_of!(CounterPage, sequence), 8);
        assert_eq!(std::mem::offset_of!(CounterPage, counter_number), 12);
        assert_eq!(std::mem::offset_of!(CounterPage, offset), 16);
        assert_eq!(std::mem::offset_of!(CounterPage, capabilities), 40);
        assert_eq!(std::mem::offset_of!(CounterPage, width_bits), 48);
    }

    #[test]
    fn the_counter_is_sign_extended_and_added_to_the_offset() {
        let page = page(3, 1 << 47, CAN_READ_COUNTER, 48);
        let counter = |number| {
            assert_eq!(number, 2);
            (1 << 47) + 5 // negative in 48 bits
        };
        assert_eq!(page.count(counter), Some(5));
        assert_eq!(page.count(|_| 7), Some((1 << 47) + 7));
    }

    #[test]
    fn the_counter_is_not_read_unless_the_kernel_allows_it() {
        let never = |_| panic!("would kill the program");
        assert_eq!(page(3, 0, 0, 48).count(never), None);
        assert_eq!(page(0, 0, CAN_READ_COUNTER, 48).count(never), None);
        assert_eq!(page(3, 0, CAN_READ_COUNTER, 0).count(never), None);
    }

    #[test]
    fn a_count_that_the_kernel_changes_meanwhile_is_read_again() {
        let page = page(1, 10, CAN_READ_COUNTER, 48);
        let reads = Cell::new(0);
        let counter = |_| {
            reads.set(reads.get() + 1);
            if reads.get() == 1 {
                page.offset.store(100, Ordering::Relaxed);
                page.sequence.store(1, Ordering::Relaxed);
            }
            reads.get()
        };
        assert_eq!(page.count(counter), Some(102));
    }
}
