//! The sessions at a fork: locked for its duration, and begun again in the child.

use super::SESSIONS;
use crate::clock::ClockReading;
use crate::lock::lock;
use crate::merged::MergedTree;
use crate::{device, local, metadata, progress, registry, trace, writing};
use std::sync::{Arc, LazyLock};

/// Locks the sessions for the duration of a fork. This is the first lock in the order.
pub(crate) fn lock_sessions_for_fork() -> impl Sized + use<> {
    lock(&SESSIONS)
}

/// Takes the other locks of the recorder for the duration of a fork.
pub(crate) fn lock_for_fork() -> impl Sized + use<> {
    (
        device::lock_for_fork(),
        trace::lock_for_fork(),
        writing::lock_for_fork(),
        registry::lock_for_fork(),
        // The spool reads devices and notes with the tracer locked.
        device::lock_info_for_fork(),
    )
}

/// Restarts the sessions in the child of a fork, without data and under names of their own.
pub(crate) fn begin_child() {
    let mut sessions = lock(&SESSIONS);
    sessions.end_lock = LazyLock::new(Arc::default);
    for session in sessions.live.values_mut() {
        if !session.is_for_stdout() {
            session.base = format!("{}.{}", session.base, std::process::id());
        }
        session.options.quiet_if_empty = true;
        session.phase = 0;
        session.closed_phases.clear();
        session.ended_threads = MergedTree::default();
        session.start = ClockReading::now();
        // The parent may have locked the old outputs, and its files are the parent's.
        session.outputs = Arc::default();
        session.playback = None;
    }
    writing::begin_child();
    progress::begin_child();
    registry::begin_child();
    device::begin_child(sessions.live.values());
    trace::begin_child(sessions.live.values());

    metadata::reset();
    local::restart_after_fork();
}
