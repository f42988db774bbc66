//! The interface between the recorder and a source of device activities, such as the one for CUPTI
//! in `marey-gpu`.

use crate::lock::lock;
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

/// A source of activities, such as a device's library. Its methods may be called from any thread
/// that is not in an event.
pub trait ActivitySource: Sync {
    /// Delivers the activities of all earlier launches to the decoder. Returns when they were
    /// added.
    fn flush(&self, mode: FlushMode);
    /// Requests a drain of the logs of launches, because one is half full or a thread with launches
    /// has ended. Called in the middle of events, so it may only wake a thread.
    fn request_drain(&self);
    /// Stops recording and all its overhead, after the last session has ended.
    fn stop(&self);
    /// Takes the locks that a child must not inherit held. The caller keeps them from before a fork
    /// until after it. The source's threads are stopped by then.
    fn lock_for_fork(&self) -> Box<dyn Any>;
    /// Resets the source in the child of a fork, where the device's library is unusable.
    fn begin_child(&self);
}

/// The activities that a flush waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// All launched work: the flush waits until the devices have finished it.
    WaitForDevices,
    /// All launched work, like `WaitForDevices`. Nothing is recorded afterwards, so work in
    /// progress on other threads may be disturbed.
    Final,
    /// None: only activities that are complete already are delivered.
    CompletedOnly,
}

/// The source. It is set once and read in the middle of events.
static SOURCE: OnceLock<&'static dyn ActivitySource> = OnceLock::new();

/// Locked while the source is set and during a fork, so that no source appears during a fork.
static SET_LOCK: Mutex<()> = Mutex::new(());

/// Sets the process's source of activities, once. Call it before the source's locks are first
/// taken: from then on a fork takes them.
pub fn set_source(source: &'static dyn ActivitySource) {
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

/// Whether the process is exiting. It must exit even if a device never finishes its work.
pub fn is_process_exiting() -> bool {
    IS_EXITING.load(Ordering::SeqCst)
}

fn source() -> Option<&'static dyn ActivitySource> {
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
    (source().map(ActivitySource::lock_for_fork), set_lock)
}

pub(crate) fn begin_child() {
    IS_EXITING.store(false, Ordering::SeqCst);
    if let Some(source) = source() {
        source.begin_child();
    }
}
