//! User scopes in progress, by their function.
//!
//! A user scope may be asynchronous: PyTorch then ends it on another thread, as when a future is
//! completed. The scope that it has opened is found by the address of the function, which is the
//! same at both ends.

use crate::library::RecordFunction;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The number of slots in the table, a power of two.
const TABLE_SLOTS: usize = 4096;

/// A function is in the slot of its hash or in one of the next slots, this many in all.
const MAX_PROBES: usize = 16;

struct Slot {
    /// Null if the slot is free.
    function: AtomicPtr<RecordFunction>,
    /// The id of the scope.
    scope_id: AtomicU64,
}

static TABLE: [Slot; TABLE_SLOTS] =
    [const { Slot { function: AtomicPtr::new(null_mut()), scope_id: AtomicU64::new(0) } };
        TABLE_SLOTS];

/// A slot that is reserved for a function in progress.
pub(crate) struct ReservedSlot(&'static Slot);

impl ReservedSlot {
    /// Stores the scope that the function has opened.
    pub(crate) fn set(self, scope_id: u64) {
        // The function ends later, by synchronisation of the program.
        self.0.scope_id.store(scope_id, Ordering::Relaxed);
    }
}

/// Reserves a slot for a function that starts. `None` if all its slots are taken.
pub(crate) fn begin(function: *const RecordFunction) -> Option<ReservedSlot> {
    let function = function.cast_mut();
    slots_of(function)
        .find(|slot| {
            let exchanged = slot.function.compare_exchange(
                null_mut(),
                function,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            // An entry of the same address is of a function that has ended without a session.
            exchanged.is_ok() || exchanged == Err(function)
        })
        .map(ReservedSlot)
}

/// Frees the slot of a function that ends. Returns the scope that it has opened, 0 for none.
pub(crate) fn end(function: *const RecordFunction) -> u64 {
    let holds_function =
        |slot: &&Slot| slot.function.load(Ordering::Relaxed) == function.cast_mut();
    let Some(slot) = slots_of(function).find(holds_function) else { return 0 };
    let scope_id = slot.scope_id.load(Ordering::Relaxed);
    slot.function.store(null_mut(), Ordering::Relaxed);
    scope_id
}

fn slots_of(function: *const RecordFunction) -> impl Iterator<Item = &'static Slot> {
    // The low bits of addresses of objects are equal.
    let first_slot = (function.addr() >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 12);
    (0..MAX_PROBES).map(move |probe| &TABLE[(first_slot + probe) % TABLE_SLOTS])
}

const _: () = assert!(TABLE_SLOTS == 1 << 12, "the hash has 12 bits");

#[cfg(test)]
mod tests {
    use super::*;

    fn function(address: usize) -> *const RecordFunction {
        std::ptr::without_provenance(address)
    }

    #[test]
    fn a_function_has_the_scope_that_it_began() {
        let (first, second) = (function(0x1000), function(0x2000));
        begin(first).unwrap().set(7);
        begin(second).unwrap().set(8);
        assert_eq!((end(first), end(second)), (7, 8));
        assert_eq!(end(first), 0, "the slot was not freed");
    }

    #[test]
    fn functions_in_excess_have_no_slot() {
        // Addresses with one hash.
        let hash = |address: usize| (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        let same = (1_usize..).map(|index| index << 4).filter(|&address| hash(address) == 5);
        let functions: Vec<_> = same.take(MAX_PROBES + 1).map(function).collect();
        let begun: Vec<_> = functions.iter().map(|&function| begin(function)).collect();
        assert!(begun[..MAX_PROBES].iter().all(Option::is_some));
        assert!(begun[MAX_PROBES].is_none());
        end(functions[3]);
        assert!(begin(functions[MAX_PROBES]).is_some());
        for &function in &functions {
            end(function);
        }
    }
}
