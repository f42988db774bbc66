//! Device activities: launches logged by threads, and the activities that follow from them.
//!
//! A thread logs the correlation id of each launch beside its context node ([`launches`]). Later a
//! device's library reports the activities with the same ids on another thread. The [`ActivityDecoder`]
//! joins the two ([`join`]), adds durations to the nodes of the sessions that saw the launch
//! ([`sums`]), and passes single activities to the spool of trace sessions. So a launch costs its
//! thread one record and no lock.
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

pub use self::capture::{
    forget_destroyed_before, record_captured_node, record_cloned_node, record_destroyed_node,
};
pub use self::decoder::{Activity, ActivityBatch, ActivityDecoder};
pub use self::info::{DeviceInfo, announce, note};
pub use self::launches::LaunchKind;
pub use self::sessions::{begin_flush, is_waiting_before, stop_waiting_before};
pub use self::source::{ActivitySource, FlushMode, is_process_exiting, set_source};
pub use marey_model::spool::{ActivityKind, Detail};

pub(crate) use self::capture::{CaptureSite, capture_site};
pub(crate) use self::decoder::JoinedActivity;
pub(crate) use self::info::{
    Note, device, device_json, devices, lock_for_fork as lock_info_for_fork, notes,
};
pub(crate) use self::launches::{Launch, Launches};
pub(crate) use self::sessions::{
    add_final_to_tree, add_to_tree, begin_child, begin_epoch, begin_phase, begin_session,
    clear_phases, drop_phase, end_session, end_thread, is_phase_waiting, lock_for_fork,
};
pub(crate) use self::source::{
    begin_child as begin_child_source, begin_process_exit, flush,
    lock_for_fork as lock_source_for_fork, stop,
};
pub(crate) use self::threads::LaunchingThreads;

use crate::clock;

/// Returns the current time of the recorder's clock in ticks, and the nanoseconds per tick, for
/// sources that have clocks of their own. Calibrates the clock first if needed.
pub fn now() -> (u64, f64) {
    const SAMPLE_TICKS: u64 = 1 << 40;
    clock::calibrate();
    (clock::ticks(), clock::nanos(SAMPLE_TICKS) as f64 / SAMPLE_TICKS as f64)
}
