//! Inputs of operators: the arguments of their spans, and what their calls cost.
//!
//! A call's text and cost follow from its inputs and are computed once for each combination
//! ([`known_inputs`]). Operators call other operators, and each has a cost. If the operators inside
//! an operator compute at least half as much as it does, the work is theirs: the outer one has no
//! cost.

mod key;
mod known_inputs;
mod read;

pub use self::read::InputFields;
pub(crate) use self::read::set_fields;

use self::known_inputs::KnownInputs;
use crate::library::RecordFunction;
use crate::names::IGNORED;
use marey_record::api::{self, OperatorCall};
use std::cell::Cell;
use std::ptr::null;

/// A call in progress whose inputs were read.
#[derive(Clone, Copy)]
struct OpenCall {
    function: *const RecordFunction,
    recorded: Option<(OperatorCall, &'static KnownInputs)>,
    /// The floating-point operations of the operators inside it.
    inner_flops: f64,
}

/// The maximum number of calls in progress on a thread whose inputs are recorded.
const MAX_DEPTH: usize = 64;

/// The calls in progress on a thread, innermost last.
struct OpenCalls {
    depth: Cell<usize>,
    calls: [Cell<OpenCall>; MAX_DEPTH],
}

thread_local! {
    // In a box: if the library has more than some hundred bytes of thread-local variables, every
    // access to one of them takes the slow path of the loader, also that of a scope.
    static OPEN_CALLS: Box<OpenCalls> = {
        const NONE: OpenCall = OpenCall { function: null(), recorded: None, inner_flops: 0.0 };
        Box::new(OpenCalls { depth: Cell::new(0), calls: [const { Cell::new(NONE) }; MAX_DEPTH] })
    };
}

/// Records the inputs of an operator, whose scope is open.
///
/// # Safety
/// PyTorch is calling a callback that needs inputs with this function.
pub(crate) unsafe fn begin(name_id: u32, function: *const RecordFunction) {
    if name_id == IGNORED {
        return;
    }
    // SAFETY: guaranteed by the caller.
    let inputs = unsafe { known_inputs::find(name_id, function) };
    let recorded =
        inputs.and_then(|inputs| Some((api::record_inputs(name_id, inputs.args_text_id)?, inputs)));
    let call = OpenCall { function, recorded, inner_flops: 0.0 };
    // Fails while the thread ends; then the call has no inputs.
    OPEN_CALLS.try_with(|open| open.push(call)).unwrap_or_default();
}

/// Adds the cost of an operator whose inputs were recorded.
pub(crate) fn end(function: *const RecordFunction) {
    let Ok(Some(call)) = OPEN_CALLS.try_with(|open| open.pop(function)) else { return };
    let Some((operator, inputs)) = call.recorded else { return };
    // The first value counts the call, whether it has a cost itself or not.
    let num_values = if call.has_own_cost() { inputs.metric_values().len() } else { 1 };
    api::add_to_operator(operator, inputs.metric_values().get(..num_values).unwrap_or_default());
}

impl OpenCall {
    fn known_flops(&self) -> f64 {
        self.recorded.map_or(0.0, |(_, inputs)| inputs.flops)
    }

    /// Whether the operator itself does most of what it costs.
    fn has_own_cost(&self) -> bool {
        self.inner_flops == 0.0 || self.inner_flops < self.known_flops() / 2.0
    }
}

impl OpenCalls {
    fn push(&self, call: OpenCall) {
        let depth = self.depth.get();
        if let Some(slot) = self.calls.get(depth) {
            slot.set(call);
            self.depth.set(depth + 1);
        }
    }

    /// Removes a call, and the calls inside it that did not end on this thread.
    fn pop(&self, function: *const RecordFunction) -> Option<OpenCall> {
        let calls = self.calls.get(..self.depth.get())?;
        let position = calls.iter().rposition(|call| call.get().function == function)?;
        self.depth.set(position);
        let call = calls.get(position)?.get();
        if let Some(slot) = position.checked_sub(1).and_then(|outer| calls.get(outer)) {
            let own_flops = if call.has_own_cost() { call.known_flops() } else { 0.0 };
            let outer = slot.get();
            let inner_flops = outer.inner_flops + call.inner_flops + own_flops;
            slot.set(OpenCall { inner_flops, ..outer });
        }
        Some(call)
    }
}
