//! The schedule of Python stack samples: decides when the sampling thread takes one. A sample is
//! due at an interval, while a scope is open, in a slow step, at a signal, or on a request.
//!
//! The thread that samples is one of Python's. It waits here without the GIL and receives the cause
//! of each sample. It checks the scopes and steps itself, so that the program's threads do no work
//! for sampling.

use crate::checkpoint;
use crate::local;
use crate::lock::lock;
use crate::python_requests::{self, RequestKind};
use crate::registry;
use crate::scope_frame::OpenScope;
use crate::settings;
use crate::trace;
use marey_model::setting::{InvalidValue, Setting};
use marey_model::spool::SampleCause;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The minimum time between two checks.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// The time between two checks for a scope or a slow step, if no interval is set.
const EVENT_INTERVAL: Duration = Duration::from_millis(10);

/// Whether the thread also waits for requests for the last collective.
static FINDS_COLLECTIVES: AtomicBool = AtomicBool::new(false);

static SAMPLING: Mutex<SamplingState> = Mutex::new(SamplingState::new());
/// Notified after each change of the state, of a setting or of the sessions.
static CHANGED: Condvar = Condvar::new();

struct SamplingState {
    /// The number of the thread that samples, 0 for none.
    thread_number: u32,
    started_threads: u32,
    /// Whether the signal has arrived.
    is_signalled: bool,
    /// The times of the last and of the next check.
    last_check: Option<Instant>,
    next_check: Option<Instant>,
    random_state: u64,
}

impl SamplingState {
    const fn new() -> Self {
        Self {
            thread_number: 0,
            started_threads: 0,
            is_signalled: false,
            last_check: None,
            next_check: None,
            random_state: 0x9E37_79B9_7F4A_7C15,
        }
    }

    /// Returns the interval with some jitter. Without it, a loop of the program with the same period
    /// would be sampled at the same place each time.
    fn with_jitter(&mut self, interval: Duration) -> Duration {
        // The xorshift64 generator.
        self.random_state ^= self.random_state << 13;
        self.random_state ^= self.random_state >> 7;
        self.random_state ^= self.random_state << 17;
        interval.mul_f64(0.5 + (self.random_state >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// The settings of sampling.
struct SamplingPlan {
    interval: Duration,
    /// The interned id of a scope's name, 0 for none.
    scope_name_id: u32,
    /// The multiple of a step's median duration beyond which a step is slow, 0 for none.
    slow_step_factor: f64,
    has_signal: bool,
}

impl SamplingPlan {
    fn read() -> Self {
        let interval = Duration::try_from_secs_f64(settings::value(Setting::SampleInterval));
        Self {
            interval: interval.unwrap_or_default(),
            scope_name_id: settings::whole(Setting::SampleScope) as u32,
            slow_step_factor: settings::value(Setting::SampleSlowStep),
            has_signal: settings::value(Setting::SampleSignal) != 0.0,
        }
    }

    fn has_condition(&self) -> bool {
        self.scope_name_id != 0 || self.slow_step_factor > 0.0
    }

    /// Returns the time between two checks, `None` if there is nothing to check.
    fn period(&self) -> Option<Duration> {
        match (self.interval.is_zero(), self.has_condition()) {
            (false, _) => Some(self.interval.max(MIN_INTERVAL)),
            (true, true) => Some(EVENT_INTERVAL),
            (true, false) => None,
        }
    }

    /// Returns the cause for which a sample is due at a check, `None` if there is none.
    fn cause(&self) -> Option<SampleCause> {
        if !self.has_condition() {
            return Some(SampleCause::Interval);
        }
        [SampleCause::Scope, SampleCause::SlowStep].into_iter().find(|&cause| self.is_met(cause))
    }

    /// Whether a sample with this cause is due now.
    fn is_met(&self, cause: SampleCause) -> bool {
        match cause {
            SampleCause::Scope => self.scope_name_id != 0 && is_open(self.scope_name_id),
            SampleCause::SlowStep => {
                self.slow_step_factor > 0.0 && local::is_step_slow(self.slow_step_factor)
            }
            SampleCause::Interval | SampleCause::Signal | SampleCause::Request => true,
        }
    }
}

/// Whether a thread has a scope with this name open that it has entered itself.
fn is_open(name_id: u32) -> bool {
    let is_entered =
        |scope: &OpenScope| scope.name_id == name_id && local::is_entered_by_program(scope);
    registry::running_threads().iter().any(|thread| thread.open_scopes().iter().any(is_entered))
}

/// A task for the sampling thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueTask {
    /// Sample the stacks. The duration is the time for which the sample stands.
    Sample(SampleCause, Duration),
    /// Answer a request for the last collective.
    Collective,
}

/// With `is_on`, keeps a sampling thread in traces that answers requests for the last collective. In a job
/// that hangs the main thread could not start one.
pub fn find_collectives(is_on: bool) {
    FINDS_COLLECTIVES.store(is_on, Ordering::Relaxed);
    wake();
}

/// Whether requests for the last collective are answered.
pub(crate) fn finds_collectives() -> bool {
    FINDS_COLLECTIVES.load(Ordering::Relaxed)
}

/// Whether a sampling thread is needed.
pub fn is_needed() -> bool {
    let plan = SamplingPlan::read();
    let is_set = plan.has_signal || plan.period().is_some() || finds_collectives();
    trace::has_sessions() && (is_set || python_requests::is_sample_pending())
}

/// Whether a sampling thread is needed and none has been started.
pub(crate) fn lacks_thread() -> bool {
    lock(&SAMPLING).thread_number == 0 && is_needed()
}

/// Returns the number of a new sampling thread. Returns 0 if none is needed or if one is running,
/// which then reads the settings again.
pub fn begin() -> u32 {
    let mut state = lock(&SAMPLING);
    state.next_check = None;
    CHANGED.notify_all();
    if state.thread_number != 0 || !is_needed() {
        return 0;
    }
    state.started_threads = state.started_threads.wrapping_add(1).max(1);
    state.thread_number = state.started_threads;
    state.last_check = Some(Instant::now());
    state.thread_number
}

/// Ends the sampling thread, which returns from [`next`].
pub fn end() {
    lock(&SAMPLING).thread_number = 0;
    CHANGED.notify_all();
}

/// Makes the sampling thread check whether a trace session is alive, and whether there is a
/// request.
pub(crate) fn wake() {
    // The sampling thread checks its conditions under the lock. Once the lock was free, it either
    // waits for this notification or has yet to check.
    drop(lock(&SAMPLING));
    CHANGED.notify_all();
}

/// Waits until there is something to do. Returns `None` if the thread with this number is to end.
pub fn next(thread_number: u32) -> Option<DueTask> {
    let mut state = lock(&SAMPLING);
    loop {
        if state.thread_number != thread_number {
            return None;
        }
        if python_requests::read(RequestKind::Sample).is_some() {
            return Some(DueTask::Sample(SampleCause::Request, Duration::ZERO));
        }
        if python_requests::read(RequestKind::Collective).is_some() {
            return Some(DueTask::Collective);
        }
        if std::mem::take(&mut state.is_signalled) {
            return Some(DueTask::Sample(SampleCause::Signal, Duration::ZERO));
        }
        if !is_needed() {
            state.thread_number = 0;
            return None;
        }
        let plan = SamplingPlan::read();
        let Some(period) = plan.period() else {
            (state.last_check, state.next_check) = (None, None);
            state = state.wait(&CHANGED, None);
            continue;
        };
        let now = Instant::now();
        let last_check = *state.last_check.get_or_insert(now);
        let next_check = state.next_check.unwrap_or_else(|| now + state.with_jitter(period));
        if next_check > now {
            state.next_check = Some(next_check);
            state = state.wait(&CHANGED, Some(next_check - now));
            continue;
        }
        (state.last_check, state.next_check) = (Some(now), None);
        if let Some(cause) = plan.cause() {
            return Some(DueTask::Sample(cause, now - last_check));
        }
    }
}

/// Whether a sample is still due. The scope or step may have ended while the thread waited for the
/// GIL.
pub fn is_due(cause: SampleCause) -> bool {
    SamplingPlan::read().is_met(cause)
}

/// Requests a sample because the signal has arrived. Does nothing if no thread samples.
pub(crate) fn signal() {
    let mut state = lock(&SAMPLING);
    state.is_signalled = state.thread_number != 0;
    drop(state);
    CHANGED.notify_all();
}

/// Makes this signal request samples from now on, 0 for none. Fails if the process already handles
/// it.
pub(crate) fn handle_signal(signal: i32) -> Result<(), InvalidValue> {
    let former = settings::value(Setting::SampleSignal) as i32;
    if checkpoint::move_sample_handler(former, signal) {
        return Ok(());
    }
    let name = Setting::SampleSignal.declaration().format(f64::from(signal));
    Err(InvalidValue(format!("the process handles {name} already")))
}

/// Takes the lock for the duration of a fork.
pub(crate) fn lock_for_fork() -> impl Sized {
    lock(&SAMPLING)
}

/// Forgets the thread of the parent, in the child of a fork.
pub(crate) fn begin_child() {
    let mut state = lock(&SAMPLING);
    (state.thread_number, state.is_signalled) = (0, false);
    FINDS_COLLECTIVES.store(false, Ordering::Relaxed);
}
