//! The interface between the recorder and the source of activities.

use crate::lock::lock;
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

/// A source of activities, such as a device's library. Its methods may be called from any thread
/// that is not in an event.
pub trait Source: Sync {
    /// Delivers the activities of all earlier launches to the decoder, and returns when they were
    /// added.
    fn flush(&self, mode: FlushMode);
    /// Requests that the logs of launches are drained: one is half full, or a thread with launches
    /// has ended. Called in the middle of events, so it may only wake a thread.
    fn request_drain(&self);
    /// Stops recording and all its overhead, after the last session has ended.
    fn stop(&self);
    /// Takes the locks that a child must not find locked, from before a fork until after it. The
    /// source's threads are stopped by then.
    fn lock_for_fork(&self) -> Box<dyn Any>;
    /// Resets the source in the child of a fork, where the device's library is unusable.
    fn begin_child(&self);
}

/// Extent of a flush: the activities that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// The devices, until they have finished all launched work.
    WaitForDevices,
    /// As `WaitForDevices`, and nothing is recorded afterwards: work in progress on other threads
    /// need not be spared.
    Final,
    /// Nothing: only activities that are complete already are delivered.
    CompletedOnly,
}

/// The source, set once and read in the middle of events.
static SOURCE: OnceLock<&'static dyn Source> = OnceLock::new();

/// Locked while the source is set and during a fork, so that no source appears during a fork.
static SET_LOCK: Mutex<()> = Mutex::new(());

/// Sets the process's source of activities, once. Call it before the source's locks are first
/// taken: from then on a fork takes them.
pub fn set_source(source: &'static dyn Source) {
    if self::source().is_none() {
        let _no_fork = lock(&SET_LOCK);
        SOURCE.get_or_init(|| source);
    }
}

/// Whether the process is exiting.
static IS_EXITING: AtomicBool = AtomicBool::new(false);

/// Notes that the process is exiting: from now on no wait for devices may be unbounded.
pub(crate) fn begin_process_exit() {
    IS_EXITING.store(true, Ordering::SeqCst);
}

/// Whether the process is exiting. A device may never finish its work, and the process must exit
/// nevertheless.
pub fn is_process_exiting() -> bool {
    IS_EXITING.load(Ordering::SeqCst)
}

fn source() -> Option<&'static dyn Source> {
    SOURCE.get().copied()
}

/// Flushes the source. The caller must not hold a lock that the decoder takes.
pub(crate) fn flush(mode: FlushMode) {
    if let Some(source) = source() {
        source.flush(mode);
    }
}

/// Stops the source after the last session.
pub(crate) fn stop() {
    if let Some(source) = source() {
        source.stop();
    }
}

/// Requests that the logs of launches are drained. Called in the middle of events.
#[cold]
pub(crate) fn request_drain() {
    if let Some(source) = source() {
        source.request_drain();
    }
}

/// Takes the source's locks for the duration of a fork. Without a source, prevents one from being
/// set.
pub(crate) fn lock_for_fork() -> impl Sized + use<> {
    let set_lock = lock(&SET_LOCK);
    (source().map(Source::lock_for_fork), set_lock)
}

pub(crate) fn begin_child() {
    IS_EXITING.store(false, Ordering::SeqCst);
    if let Some(source) = source() {
        source.begin_child();
    }
}
