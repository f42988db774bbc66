//! Another tool in the process that subscribes to libcupti, until it leaves or the process exits.

use crate::callback::{self, Subscriber};
use crate::ffi::Address;
use crate::lock;
use std::ffi::c_void;
use std::sync::Mutex;

static TOOL: Mutex<Option<&'static Subscriber>> = Mutex::new(None);

extern "C" fn ignore_callback(_: Address, _: u32, _: u32, _: *const c_void) {}

/// Subscribes exclusively, if there is no subscriber.
pub(crate) fn subscribe() {
    let mut tool = lock(&TOOL);
    if tool.is_none() {
        *tool = callback::subscribe(ignore_callback, std::ptr::null_mut(), "CUPTI", false).ok();
    }
}

/// Unsubscribes.
pub(crate) fn leave() {
    if let Some(subscriber) = lock(&TOOL).take() {
        subscriber.leave();
    }
}
