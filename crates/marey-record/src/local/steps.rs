//! Training steps: scopes that marey opens by itself, and that an optimizer closes.
//!
//! A step is on the stack like any scope, but no code of the program exits it. If a scope around it
//! ends first, the step is dropped. If the optimizer steps while scopes inside the step are open,
//! the step closes when they do.

use super::{CLOSING, Local, STEP};
use crate::clock;
use crate::names;
use crate::tree::PYTHON_ROOT;
use marey_model::context::{NodeKind, STEP_NAME};
use std::sync::atomic::{AtomicU64, Ordering};

/// Steps that were closed since the process started or was forked.
static COMPLETED_STEPS: AtomicU64 = AtomicU64::new(0);

/// Number of the last steps whose durations are kept.
const KEPT_STEPS: usize = 16;
/// Number of steps before which none is slow.
const MIN_STEPS: usize = 5;
/// Durations of the last steps in ticks, each at its number modulo [`KEPT_STEPS`].
static DURATIONS_TICKS: [AtomicU64; KEPT_STEPS] = [const { AtomicU64::new(0) }; KEPT_STEPS];
/// Start of the step that was opened last, 0 if it was dropped.
static STEP_START_TICKS: AtomicU64 = AtomicU64::new(0);

/// Resets the count of steps in the child of a fork.
pub(super) fn begin_child() {
    COMPLETED_STEPS.store(0, Ordering::Relaxed);
}

/// Whether the open step has lasted longer than a multiple of the median of the last steps.
pub(crate) fn is_slow(factor: f64) -> bool {
    let start_ticks = STEP_START_TICKS.load(Ordering::Relaxed);
    let kept_count =
        usize::try_from(completed()).map_or(KEPT_STEPS, |completed| completed.min(KEPT_STEPS));
    if start_ticks == 0 || kept_count < MIN_STEPS {
        return false;
    }
    let mut durations = [0; KEPT_STEPS];
    for (copy, duration) in durations.iter_mut().zip(&DURATIONS_TICKS) {
        *copy = duration.load(Ordering::Relaxed);
    }
    let durations = &mut durations[..kept_count];
    durations.sort_unstable();
    let median_ticks = durations[kept_count / 2];
    clock::ticks().saturating_sub(start_ticks) as f64 > factor * median_ticks as f64
}

/// Returns the number of steps that were closed since the process started or was forked.
pub(crate) fn completed() -> u64 {
    COMPLETED_STEPS.load(Ordering::Relaxed)
}

impl Local {
    pub(super) fn is_step(&self, index: u32) -> bool {
        self.has_flag(index, STEP)
    }

    /// Drops a step that no optimizer closed. The scopes that ran inside it keep their times.
    pub(super) fn drop_step(&mut self) {
        let child_nanos = self.entered_top().map_or(0, |scope| scope.child_nanos);
        self.change_flags(self.depth() - 1, 0, CLOSING);
        self.drop_top(child_nanos);
        STEP_START_TICKS.store(0, Ordering::Relaxed);
    }

    /// Opens a training step, unless one is open.
    pub(crate) fn step_begin(&mut self) {
        if !(self.inherited_frames..self.depth()).any(|index| self.is_step(index)) {
            self.open_step();
        }
    }

    /// Closes the open step after the optimizer has stepped, and opens the next one in its place.
    pub(crate) fn step_end(&mut self) {
        let step_index =
            (self.inherited_frames..self.depth()).rev().find(|&index| self.is_step(index));
        match step_index {
            Some(index) if index + 1 == self.depth() => self.close_step(),
            Some(index) => {
                self.change_flags(index, CLOSING, 0);
            }
            None => self.open_step(),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn close_step(&mut self) {
        self.change_flags(self.depth() - 1, 0, CLOSING);
        let now_ticks = clock::ticks();
        let start_ticks = self.entered_top().map_or(now_ticks, |step| step.start_ticks);
        self.pop(now_ticks);
        let step_number = COMPLETED_STEPS.fetch_add(1, Ordering::Relaxed) as usize;
        let duration_ticks = now_ticks.saturating_sub(start_ticks);
        DURATIONS_TICKS[step_number % KEPT_STEPS].store(duration_ticks, Ordering::Relaxed);
        self.open_step();
    }

    fn open_step(&mut self) {
        self.enter(names::intern(STEP_NAME), NodeKind::Step, PYTHON_ROOT);
        self.change_flags(self.depth() - 1, STEP, 0);
        STEP_START_TICKS.store(clock::ticks(), Ordering::Relaxed);
    }
}
