//! Texts and costs of inputs, found without a lock for inputs that were seen before.

use super::key::Key;
use super::read::read_inputs;
use crate::library::RecordFunction;
use marey_model::loss::LossCause;
use marey_model::op_cost;
use marey_record::api;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// The inputs of an operator. They live as long as the process, because any thread may be reading
/// them.
#[derive(Debug)]
pub(super) struct Known {
    key: Box<[u64]>,
    /// The number of the interned JSON object.
    pub(super) args: u32,
    /// Floating-point operations, 0 if they are unknown.
    pub(super) flops: f64,
    /// One call, then its FLOP and bytes if they are known, by the numbers of the metrics.
    values: [(u32, f64); 3],
    num_values: usize,
}

/// The number of slots in the table, a power of two. A step has a few hundred different inputs.
const SLOTS: usize = 32_768;

/// The number of slots, from the one of its hash on, that an entry may be in.
const PROBES: usize = 16;

/// An open-addressing table of inputs. An entry stays where it is.
static TABLE: [AtomicPtr<Known>; SLOTS] = [const { AtomicPtr::new(null_mut()) }; SLOTS];

impl Known {
    /// Returns the values that a call adds to metrics: the first one counts the call.
    pub(super) fn values(&self) -> &[(u32, f64)] {
        self.values.get(..self.num_values).unwrap_or_default()
    }
}

/// Returns the inputs of an operator. `None` if it has none, or if they are lost, which is counted.
///
/// # Safety
/// PyTorch is calling a callback that needs inputs with this function.
pub(super) unsafe fn find(name: u32, function: *const RecordFunction) -> Option<&'static Known> {
    let mut key = Key::new(name);
    // SAFETY: guaranteed by the caller.
    let is_read = unsafe { read_inputs(function, needs_values(name), &mut key) };
    if !is_read {
        if key.words().len() > 1 {
            api::count_losses(LossCause::OperatorInputs, 1);
        }
        return None;
    }
    let first = slot_of(key.words());
    for probe in 0..PROBES {
        let slot = &TABLE[(first + probe) % SLOTS];
        // SAFETY: null, or inputs that are never freed.
        match unsafe { slot.load(Ordering::Acquire).as_ref() } {
            Some(known) if *known.key == *key.words() => return Some(known),
            Some(_) => {}
            None => return Some(add(slot, name, &key)),
        }
    }
    api::count_losses(LossCause::OperatorInputs, 1);
    None
}

#[cold]
#[inline(never)]
fn add(slot: &AtomicPtr<Known>, name: u32, key: &Key) -> &'static Known {
    let (operator, json) = (api::name(name), key.to_json());
    let flops = op_cost::flops(&operator, &json);
    let mut known = Known {
        flops: flops.unwrap_or_default(),
        key: key.words().into(),
        args: api::intern_text(&json),
        values: [(0, 0.0); 3],
        num_values: 0,
    };
    let flops_metric = op_cost::flops_metric(op_cost::operand_bits(&json));
    // Exclusive: the calls of one operator say nothing about those around it.
    let sampled_calls = format!("{} (exc)", op_cost::SAMPLED_CALLS);
    for (metric, value) in [
        (&*sampled_calls, Some(1.0)),
        (flops_metric, flops),
        (op_cost::BYTES, op_cost::bytes(&operator, &json)),
    ] {
        if let (Some(value), Some(number)) = (value, api::intern_metric(metric)) {
            known.values[known.num_values] = (number, value);
            known.num_values += 1;
        }
    }
    let known: &'static Known = Box::leak(Box::new(known));
    // Another thread may have filled the slot. Then this entry is used once.
    let pointer = std::ptr::from_ref(known).cast_mut();
    slot.compare_exchange(null_mut(), pointer, Ordering::Release, Ordering::Relaxed).ok();
    known
}

/// Whether the cost of an operator depends on the values of numbers. The result is kept for names
/// with small numbers, which an operator's name has.
fn needs_values(name: u32) -> bool {
    const NUM_NAMES: usize = 8192;
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static ANSWERS: OnceLock<Box<[AtomicU8]>> = OnceLock::new();
    let answers = ANSWERS.get_or_init(|| (0..NUM_NAMES).map(|_| AtomicU8::new(UNKNOWN)).collect());
    let find = || op_cost::needs_values(&api::name(name));
    let Some(answer) = answers.get(name as usize) else { return find() };
    match answer.load(Ordering::Relaxed) {
        UNKNOWN => {
            let needs = find();
            answer.store(if needs { YES } else { NO }, Ordering::Relaxed);
            needs
        }
        known => known == YES,
    }
}

fn slot_of(words: &[u64]) -> usize {
    // Fibonacci hashing, word by word.
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    let hash = words
        .iter()
        .fold(0_u64, |hash, word| (hash.rotate_left(29) ^ word).wrapping_mul(GOLDEN_RATIO));
    (hash >> (64 - SLOTS.trailing_zeros())) as usize
}
