//! Another tool in the process: it subscribes to libcupti, and may stay for as long as the process does.

use crate::callback::{self, Subscriber};
use crate::ffi::Address;
use crate::lock;
use std::ffi::c_void;
use std::sync::Mutex;

static TOOL: Mutex<Option<&'static Subscriber>> = Mutex::new(None);

extern "C" fn ignore(_: Address, _: u32, _: u32, _: *const c_void) {}

/// Subscribes alone, if nobody else has.
pub(crate) fn subscribe() {
    let mut tool = lock(&TOOL);
    if tool.is_none() {
        *tool = callback::subscribe(ignore, std::ptr::null_mut(), "CUPTI", false).ok();
    }
}

/// Lets go of libcupti.
pub(crate) fn leave() {
    if let Some(subscriber) = lock(&TOOL).take() {
        subscriber.leave();
    }
}
