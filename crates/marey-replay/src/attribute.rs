//! Attributes that profilers set: `CUpti_ActivityAttribute`.

use crate::lock;
use std::sync::Mutex;

/// Values by attribute number.
static ATTRIBUTES: Mutex<[u64; 32]> = Mutex::new([0; 32]);

/// `CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER`: the profiler zeroes its buffers.
const ZEROED_OUT: u32 = 5;

/// Sets an attribute. Returns false for an unknown number.
pub(crate) fn set(attribute: u32, value: u64) -> bool {
    lock(&ATTRIBUTES).get_mut(attribute as usize).map(|stored| *stored = value).is_some()
}

pub(crate) fn get(attribute: u32) -> Option<u64> {
    lock(&ATTRIBUTES).get(attribute as usize).copied()
}

/// Whether the profiler promises zeroed buffers.
pub(crate) fn promises_zeroed() -> bool {
    get(ZEROED_OUT) != Some(0)
}
