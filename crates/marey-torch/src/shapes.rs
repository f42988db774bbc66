//! The operators whose inputs are read: all, or the operators of one step in a hundred.
//!
//! PyTorch collects the inputs of every operator for which a callback asks for them, so the
//! callback is registered for the sampled step alone.

use crate::callbacks::{self, LIBRARY};
use crate::inputs::{self, InputFields};
use marey_record::{api, device};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The operators whose inputs are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shapes {
    /// None.
    #[default]
    Off,
    /// The operators of one step in [`STEPS_PER_SAMPLE`]; before the first step has ended, each operator
    /// with the same probability.
    Sampled,
    /// All.
    All,
}

/// The number of steps of which one is sampled.
const STEPS_PER_SAMPLE: u64 = 100;

/// The number of steps among which the first sample is drawn, so that short programs have one.
const STEPS_BEFORE_FIRST_SAMPLE: u64 = 10;

/// Whether steps are sampled now.
static IS_SAMPLING: AtomicBool = AtomicBool::new(false);

static SAMPLER: Mutex<Sampler> = Mutex::new(Sampler {
    shapes: Shapes::Off,
    handle: None,
    epoch: None,
    ended_steps: 0,
    is_step_sampled: false,
    next_sampled_step: 0,
});

/// Whether an operator's inputs were read since the callback was registered.
static HAS_READ_INPUTS: AtomicBool = AtomicBool::new(false);

struct Sampler {
    shapes: Shapes,
    /// The handle of the registered callback.
    handle: Option<u64>,
    /// The epoch of sessions whose steps are counted. A pause does not change it, so that pauses
    /// do not begin the sampling anew. `None` after the choice of shapes has changed.
    epoch: Option<u64>,
    /// The number of steps that have ended.
    ended_steps: u64,
    /// Whether the step that runs now is sampled.
    is_step_sampled: bool,
    /// The number of the step that is sampled next.
    next_sampled_step: u64,
}

/// Sets the operators whose inputs are read from the next start on, and the layout of inputs.
pub fn set(shapes: Shapes, fields: InputFields) {
    inputs::set_fields(fields);
    let mut sampler = lock();
    if sampler.shapes != shapes {
        sampler.shapes = shapes;
        sampler.epoch = None;
    }
}

/// Starts to read inputs. The callbacks that open scopes are registered.
pub(crate) fn start() {
    let mut sampler = lock();
    if sampler.shapes == Shapes::Off {
        return;
    }
    sampler.follow_epoch(api::epoch());
    if let Some(probability) = sampler.probability() {
        sampler.register(probability);
    }
    let is_sampled = sampler.shapes == Shapes::Sampled;
    device::note(NOTE_KEY, if is_sampled { NOTE_SAMPLED } else { NOTE_ALL });
    IS_SAMPLING.store(is_sampled, Ordering::Relaxed);
}

/// Stops to read inputs. A sampled step that has no operator yet is sampled after the next start.
pub(crate) fn stop() {
    IS_SAMPLING.store(false, Ordering::Relaxed);
    let mut sampler = lock();
    sampler.unregister();
    if sampler.is_step_sampled && !HAS_READ_INPUTS.load(Ordering::Relaxed) {
        sampler.is_step_sampled = false;
        sampler.next_sampled_step = sampler.ended_steps + 1;
    }
}

/// Notes that an operator's inputs are read.
pub(crate) fn note_reading() {
    HAS_READ_INPUTS.store(true, Ordering::Relaxed);
}

/// Notes the end of a step on any thread, after which the next one begins.
pub fn step_end() {
    if IS_SAMPLING.load(Ordering::Relaxed) {
        lock().step_end();
    }
}

/// The key and the values of the note in profiles and runs. The views that extrapolate read it.
const NOTE_KEY: &str = marey_model::op_cost::SHAPES_NOTE;
const NOTE_SAMPLED: &str = marey_model::op_cost::SHAPES_SAMPLED;
const NOTE_ALL: &str = "all";

impl Sampler {
    /// Begins the sampling anew if the counted steps are of another epoch.
    fn follow_epoch(&mut self, epoch: u64) {
        if self.epoch != Some(epoch) {
            self.epoch = Some(epoch);
            self.ended_steps = 0;
            self.is_step_sampled = false;
            self.next_sampled_step = random_below(STEPS_BEFORE_FIRST_SAMPLE) + 1;
        }
    }

    /// Returns the share of operators that is read now, `None` for none.
    fn probability(&self) -> Option<f64> {
        match self.shapes {
            Shapes::Off => None,
            Shapes::Sampled if self.is_step_sampled => Some(1.0),
            Shapes::Sampled => (self.ended_steps == 0).then_some(1.0 / STEPS_PER_SAMPLE as f64),
            Shapes::All => Some(1.0),
        }
    }

    fn step_end(&mut self) {
        // The registered callback is for the step that has ended, or for the time before it.
        self.unregister();
        self.ended_steps += 1;
        self.is_step_sampled = self.ended_steps == self.next_sampled_step;
        if self.is_step_sampled {
            self.register(1.0);
            let block = self.ended_steps / STEPS_PER_SAMPLE + 1;
            self.next_sampled_step = block * STEPS_PER_SAMPLE + random_below(STEPS_PER_SAMPLE);
        }
    }

    fn register(&mut self, probability: f64) {
        let Some(library) = LIBRARY.get() else { return };
        self.unregister();
        HAS_READ_INPUTS.store(false, Ordering::Relaxed);
        let registration = callbacks::inputs_registration(probability);
        // SAFETY: the registration has the layout of this version of PyTorch, as the caller of
        // this crate has made sure.
        self.handle = Some(unsafe { library.add(registration) });
    }

    fn unregister(&mut self) {
        if let (Some(handle), Some(library)) = (self.handle.take(), LIBRARY.get()) {
            library.remove(handle);
        }
    }
}

fn lock() -> impl std::ops::DerefMut<Target = Sampler> {
    SAMPLER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn random_below(limit: u64) -> u64 {
    // Each `RandomState` has other keys.
    RandomState::new().build_hasher().finish() % limit
}
