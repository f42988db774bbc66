//! What devices do: launches as threads log them, and what comes of them later.
//!
//! A thread that launches something logs the launch's correlation number beside the node that it is
//! at ([`launches`]). Long afterwards a device's library tells what the device did, by the same
//! numbers, on another thread: the [`Decoder`] joins the two ([`join`]), adds times up on the nodes
//! of the sessions that saw the launch ([`sums`]), and hands single activities to the spool of those
//! that keep them. So a launch costs its thread one record, and no lock.
//!
//! **Lock order**: the sessions' lock, this module's, the tracer's.

mod capture;
mod decoder;
mod info;
mod join;
mod launches;
mod sessions;
mod source;
mod sums;
mod threads;

pub use self::capture::{captured, cloned, destroyed, forget_destroyed_before};
pub use self::decoder::{Activity, Batch, Decoder};
pub use self::info::{DeviceInfo, announce, note};
pub use self::launches::LaunchKind;
pub use self::sessions::{begin_flush, is_waiting_before, nothing_waits_before};
pub use self::source::{Flush, Source, is_process_ending, set_source};
pub use marey_model::spool::{ActivityKind, Detail};

pub(crate) use self::capture::Site;
pub(crate) use self::decoder::Joined;
pub(crate) use self::info::{device, device_json, devices, notes};
pub(crate) use self::launches::{Launch, Launches};
pub(crate) use self::sessions::{
    begin_child, begin_epoch, begin_phase, begin_session, clear_phases, end_session, fold_for_good,
    fold_into, forget_phase, hold, is_waiting, thread_ended,
};
pub(crate) use self::source::{
    begin_child as begin_child_source, flush, hold as hold_source, process_ends, stop,
};
pub(crate) use self::threads::Threads;

use crate::clock;

/// A moment of the recorder's clock, for sources that have clocks of their own: the counter, and the
/// nanoseconds that one tick of it takes, which is measured first where it is not known yet.
pub fn now() -> (u64, f64) {
    const MANY: u64 = 1 << 40;
    clock::calibrate();
    (clock::ticks(), clock::nanos(MANY) as f64 / MANY as f64)
}
