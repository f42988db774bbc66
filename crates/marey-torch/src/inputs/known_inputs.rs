//! Texts and costs of inputs, found without a lock for inputs that were seen before.

use super::key::InputKey;
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
pub(super) struct KnownInputs {
    key: Box<[u64]>,
    /// The number of the interned JSON object.
    pub(super) args_text_id: u32,
    /// Floating-point operations, 0 if they are unknown.
    pub(super) flops: f64,
    /// Id and value of each metric: one call, then its FLOP and bytes if they are known.
    metric_values: [(u32, f64); 3],
    num_metric_values: usize,
}

/// The number of slots in the table, a power of two. A step has a few hundred different inputs.
const TABLE_SLOTS: usize = 32_768;

/// The number of slots, from the one of its hash on, that an entry may be in.
const MAX_PROBES: usize = 16;

/// An open-addressing table of inputs. An entry stays where it is.
static TABLE: [AtomicPtr<KnownInputs>; TABLE_SLOTS] =
    [const { AtomicPtr::new(null_mut()) }; TABLE_SLOTS];

impl KnownInputs {
    /// Returns the values that a call adds to metrics: the first one counts the call.
    pub(super) fn metric_values(&self) -> &[(u32, f64)] {
        self.metric_values.get(..self.num_metric_values).unwrap_or_default()
    }
}

/// Returns the inputs of an operator. `None` if it has none, or if they are lost, which is counted.
///
/// # Safety
/// PyTorch is calling a callback that needs inputs with this function.
pub(super) unsafe fn find(
    name_id: u32,
    function: *const RecordFunction,
) -> Option<&'static KnownInputs> {
    let mut key = InputKey::new(name_id);
    // SAFETY: guaranteed by the caller.
    let is_read = unsafe { read_inputs(function, needs_values(name_id), &mut key) };
    if !is_read {
        if key.words().len() > 1 {
            api::count_losses(LossCause::OperatorInputs, 1);
        }
        return None;
    }
    let first_slot = slot_of(key.words());
    for probe in 0..MAX_PROBES {
        let slot = &TABLE[(first_slot + probe) % TABLE_SLOTS];
        // SAFETY: null, or inputs that are never freed.
        match unsafe { slot.load(Ordering::Acquire).as_ref() } {
            Some(inputs) if *inputs.key == *key.words() => return Some(inputs),
            Some(_) => {}
            None => return Some(add(slot, name_id, &key)),
        }
    }
    api::count_losses(LossCause::OperatorInputs, 1);
    None
}

#[cold]
#[inline(never)]
fn add(slot: &AtomicPtr<KnownInputs>, name_id: u32, key: &InputKey) -> &'static KnownInputs {
    let (operator, json) = (api::name(name_id), key.to_json());
    let flops = op_cost::flops(&operator, &json);
    let mut inputs = KnownInputs {
        flops: flops.unwrap_or_default(),
        key: key.words().into(),
        args_text_id: api::intern_text(&json),
        metric_values: [(0, 0.0); 3],
        num_metric_values: 0,
    };
    let flops_metric = op_cost::flops_metric(op_cost::operand_bits(&json));
    // Exclusive: the calls of one operator say nothing about those around it.
    let sampled_calls = format!("{} (exc)", op_cost::SAMPLED_CALLS);
    for (metric_name, value) in [
        (&*sampled_calls, Some(1.0)),
        (flops_metric, flops),
        (op_cost::BYTES, op_cost::bytes(&operator, &json)),
    ] {
        if let (Some(value), Some(metric_id)) = (value, api::intern_metric(metric_name)) {
            inputs.metric_values[inputs.num_metric_values] = (metric_id, value);
            inputs.num_metric_values += 1;
        }
    }
    let inputs: &'static KnownInputs = Box::leak(Box::new(inputs));
    // Another thread may have filled the slot. Then this entry is used once.
    let pointer = std::ptr::from_ref(inputs).cast_mut();
    slot.compare_exchange(null_mut(), pointer, Ordering::Release, Ordering::Relaxed).ok();
    inputs
}

/// Whether the cost of an operator depends on the values of its arguments. The answer is kept for
/// the first ids: the names of operators are interned early.
fn needs_values(name_id: u32) -> bool {
    const NUM_NAMES: usize = 8192;
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static ANSWERS: OnceLock<Box<[AtomicU8]>> = OnceLock::new();
    let answers = ANSWERS.get_or_init(|| (0..NUM_NAMES).map(|_| AtomicU8::new(UNKNOWN)).collect());
    let compute = || op_cost::needs_values(&api::name(name_id));
    let Some(answer) = answers.get(name_id as usize) else { return compute() };
    match answer.load(Ordering::Relaxed) {
        UNKNOWN => {
            let is_needed = compute();
            answer.store(if is_needed { YES } else { NO }, Ordering::Relaxed);
            is_needed
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
    (hash >> (64 - TABLE_SLOTS.trailing_zeros())) as usize
}
