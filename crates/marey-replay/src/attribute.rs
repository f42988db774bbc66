//! What profilers set of libcupti: `CUpti_ActivityAttribute`.

use crate::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A word each; their numbers are below this.
static ATTRIBUTES: Mutex<[u64; 32]> = Mutex::new([0; 32]);

/// `CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER`: the profiler's buffers come zeroed.
const ZEROED_OUT: u32 = 5;
static SAYS_ZEROED: AtomicBool = AtomicBool::new(false);

/// Sets an attribute; false if there is none of this number.
pub(crate) fn set(attribute: u32, value: u64) -> bool {
    if attribute == ZEROED_OUT {
        SAYS_ZEROED.store(value != 0, Relaxed);
    }
    lock(&ATTRIBUTES).get_mut(attribute as usize).map(|held| *held = value).is_some()
}

/// The value of an attribute.
pub(crate) fn get(attribute: u32) -> Option<u64> {
    lock(&ATTRIBUTES).get(attribute as usize).copied()
}

/// Whether buffers come zeroed, as the profiler says.
pub(crate) fn says_zeroed() -> bool {
    SAYS_ZEROED.load(Relaxed)
}
