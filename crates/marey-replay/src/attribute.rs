//! Attributes that profilers set: `CUpti_ActivityAttribute`.

use crate::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Values by attribute number.
static ATTRIBUTES: Mutex<[u64; 32]> = Mutex::new([0; 32]);

/// `CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER`: the profiler zeroes its buffers.
const ZEROED_OUT: u32 = 5;
static PROMISES_ZEROED: AtomicBool = AtomicBool::new(false);

/// Sets an attribute. Returns false for an unknown number.
pub(crate) fn set(attribute: u32, value: u64) -> bool {
    if attribute == ZEROED_OUT {
        PROMISES_ZEROED.store(value != 0, Relaxed);
    }
    lock(&ATTRIBUTES).get_mut(attribute as usize).map(|stored| *stored = value).is_some()
}

/// Returns the value of an attribute.
pub(crate) fn get(attribute: u32) -> Option<u64> {
    lock(&ATTRIBUTES).get(attribute as usize).copied()
}

/// Whether the profiler promises zeroed buffers.
pub(crate) fn promises_zeroed() -> bool {
    PROMISES_ZEROED.load(Relaxed)
}
