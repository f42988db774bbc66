//! Samples a process on a thread for `marey top`, into a shared [`SampledProfile`].

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use marey_attach::Schedule;

use super::profile::SampledProfile;

/// Samples a process on a thread until it is dropped.
pub(super) struct BackgroundSampler {
    shared: Arc<SharedState>,
    /// Ends the thread when it is dropped.
    stop_sender: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct SharedState {
    profile: Mutex<SampledProfile>,
    is_paused: AtomicBool,
}

impl BackgroundSampler {
    /// Starts the thread, which samples `rate_hz` times a second, for `duration` if any.
    pub(super) fn begin(
        mut sampler: marey_attach::Sampler,
        rate_hz: u32,
        duration: Option<Duration>,
    ) -> io::Result<Self> {
        let shared =
            Arc::new(SharedState { profile: Mutex::default(), is_paused: AtomicBool::new(false) });
        let (stop_sender, stop_receiver) = mpsc::sync_channel(1);
        let thread_shared = Arc::clone(&shared);
        let sample = move || {
            let mut schedule = Schedule::begin(rate_hz, duration);
            loop {
                let tick = schedule.next(Instant::now());
                let is_stopped =
                    stop_receiver.recv_timeout(tick.wait) != Err(RecvTimeoutError::Timeout);
                if is_stopped || tick.is_end {
                    return;
                }
                if thread_shared.is_paused.load(Ordering::Relaxed) {
                    continue;
                }
                let reading = sampler.sample();
                let mut profile = thread_shared.profile();
                profile.skipped += tick.skipped;
                match reading {
                    Ok(threads) => profile.add(threads),
                    Err(_) => profile.failed += 1,
                }
            }
        };
        let thread = thread::Builder::new().name("marey-top".into()).spawn(sample)?;
        Ok(Self { shared, stop_sender: Some(stop_sender), thread: Some(thread) })
    }

    /// Returns the samples so far. Sampling waits while the caller holds them.
    pub(super) fn profile(&self) -> MutexGuard<'_, SampledProfile> {
        self.shared.profile()
    }

    /// Pauses or resumes sampling.
    pub(super) fn toggle_pause(&self) {
        self.shared.is_paused.fetch_xor(true, Ordering::Relaxed);
    }

    pub(super) fn is_paused(&self) -> bool {
        self.shared.is_paused.load(Ordering::Relaxed)
    }
}

impl SharedState {
    fn profile(&self) -> MutexGuard<'_, SampledProfile> {
        self.profile.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BackgroundSampler {
    fn drop(&mut self) {
        drop(self.stop_sender.take());
        if let Some(thread) = self.thread.take() {
            // The thread ends at its next sample. It cannot panic, so the result is ignored.
            drop(thread.join());
        }
    }
}
