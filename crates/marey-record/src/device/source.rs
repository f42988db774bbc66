//! Where activities come from: what the recorder asks of it.

use crate::lock::lock;
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

/// A device's library, as the recorder sees it. All of these may be called from any thread that is
/// in no event.
pub trait Source: Sync {
    /// Has everything that was launched before this handed to the decoder, and returns when it was
    /// taken in.
    fn flush(&self, how: Flush);
    /// A thread's log of launches is half full, or a thread with launches has ended. Called in the
    /// middle of events: may only ring a bell.
    fn ask_for_drain(&self);
    /// The last session is over: nothing is to be recorded, and nothing to cost time.
    fn stop(&self);
    /// Holds whatever a child must not find locked, from before a fork until after it. Its threads are
    /// gone by then.
    fn hold(&self) -> Box<dyn Any>;
    /// In the child of a fork, where the device's library is of no use any more.
    fn begin_child(&self);
}

/// How much a flush may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// For the devices to work off what was launched.
    Finished,
    /// The same, and nothing is recorded afterwards: what other threads have in progress need not be spared.
    Last,
    /// For nothing: what the devices have done already is handed over.
    Done,
}

/// Set once, and looked at in the middle of events.
static SOURCE: OnceLock<&'static dyn Source> = OnceLock::new();

/// Held where the source is set, and over a fork: one that the fork has not seen begins after it.
static SETTING: Mutex<()> = Mutex::new(());

/// Tells the recorder where activities come from. There is one source in a process; it stays. To be
/// called before the source's locks are taken, which a fork waits for from then on.
pub fn set_source(source: &'static dyn Source) {
    if self::source().is_none() {
        let _no_fork = lock(&SETTING);
        SOURCE.get_or_init(|| source);
    }
}

/// Whether the process ends.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// From now on nobody may wait for devices without a bound: the process ends.
pub(crate) fn process_ends() {
    IS_ENDING.store(true, Ordering::SeqCst);
}

/// Whether the process ends: a device may never be done with what was launched, and the process is to end
/// all the same.
pub fn is_process_ending() -> bool {
    IS_ENDING.load(Ordering::SeqCst)
}

fn source() -> Option<&'static dyn Source> {
    SOURCE.get().copied()
}

/// Has the source hand over what was launched. Not to be called with a lock held that the decoder
/// takes.
pub(crate) fn flush(how: Flush) {
    if let Some(source) = source() {
        source.flush(how);
    }
}

/// Nothing records any more.
pub(crate) fn stop() {
    if let Some(source) = source() {
        source.stop();
    }
}

/// A log is half full. Called in the middle of events.
#[cold]
pub(crate) fn ask_for_drain() {
    if let Some(source) = source() {
        source.ask_for_drain();
    }
}

/// Holds the source's locks over a fork; where there is none, nobody brings one meanwhile.
pub(crate) fn hold() -> impl Sized + use<> {
    let setting = lock(&SETTING);
    (source().map(Source::hold), setting)
}

pub(crate) fn begin_child() {
    IS_ENDING.store(false, Ordering::SeqCst);
    if let Some(source) = source() {
        source.begin_child();
    }
}
