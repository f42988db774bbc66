//! Turns the recording of PyTorch's operators on and off, and records the collectives that the
//! Python package has read from PyTorch.
//!
//! Operators are recorded while the program wants them and a session records. The rest of the time
//! no callback is registered with PyTorch.

use crate::error::try_call;
use crate::library::{intern, is_active, table};
use marey_record::table::CollectiveArg;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Whether the program wants operators to be recorded. Written with the GIL held.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// The positions, in words, of two private fields of `at::RecordFunction` in the loaded PyTorch:
/// the sequence number and the forward thread. Written with the GIL held.
static FIELD_POSITIONS: [AtomicU8; 2] = [AtomicU8::new(0), AtomicU8::new(0)];

/// Sets whether PyTorch's operators are recorded while a session records. Raises `RuntimeError` if
/// the loaded PyTorch cannot be observed. `fields` are the positions for [`FIELD_POSITIONS`], if
/// they are known. `shapes` selects the operators whose inputs are read: 0 none, 1 those of one
/// step in a hundred, 2 all. `inputs` are the bytes of `marey_torch::inputs::InputFields`, without
/// which no inputs are read.
#[pyfunction]
#[pyo3(signature = (is_wanted, fields = None, shapes = 0, inputs = None))]
pub(crate) fn record_operators(
    is_wanted: bool,
    fields: Option<(u8, u8)>,
    shapes: u32,
    inputs: Option<[u8; 5]>,
) -> PyResult<()> {
    // A registered callback keeps the settings of its registration, so it is removed first.
    set_recording(false)?;
    let (sequence, forward_thread) = fields.unwrap_or_default();
    // The first byte is the lowest of the word.
    let packed = inputs.iter().flatten().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    (table().torch_shapes)(if inputs.is_some() { shapes } else { 0 }, packed);
    FIELD_POSITIONS[0].store(sequence, Ordering::Relaxed);
    FIELD_POSITIONS[1].store(forward_thread, Ordering::Relaxed);
    // Registers even if no session records, so that this call raises an error of PyTorch.
    set_recording(is_wanted)?;
    IS_WANTED.store(is_wanted, Ordering::Relaxed);
    follow_sessions();
    Ok(())
}

/// Starts or stops the recording of operators after a session has begun or ceased to record.
pub(crate) fn follow_sessions() {
    if IS_WANTED.load(Ordering::Relaxed) && set_recording(is_active()).is_err() {
        // Registration has succeeded before, so this does not happen. No caller could handle an
        // error.
        IS_WANTED.store(false, Ordering::Relaxed);
    }
}

/// Starts or stops the recording of operators. The caller holds the GIL, so that no fork happens
/// meanwhile.
fn set_recording(is_on: bool) -> PyResult<()> {
    let [sequence, forward_thread] =
        FIELD_POSITIONS.each_ref().map(|field| field.load(Ordering::Relaxed));
    let set = table().torch_operators;
    try_call(|error| set(is_on, sequence, forward_thread, Some(error))).map(drop)
}

/// Sets whether PyTorch numbers the functions that its profilers observe. Raises
/// `RuntimeError` if the loaded PyTorch cannot be observed.
#[pyfunction]
pub(crate) fn number_operators(is_wanted: bool) -> PyResult<()> {
    try_call(|error| (table().torch_ids)(is_wanted, Some(error))).map(drop)
}

/// A collective as Python passes it. A negative number or an empty text means unknown.
#[derive(FromPyObject)]
pub(crate) struct Collective {
    name: String,
    group: String,
    group_ranks: String,
    group_size: i64,
    sequence: i64,
    dtype: String,
    in_elements: i64,
    out_elements: i64,
    created_nanos: i64,
    started_nanos: i64,
    duration_nanos: i64,
    state: u32,
    is_p2p: bool,
}

/// Records collectives for trace sessions, in the order of their calls.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what PyO3 extracts from an argument is owned")]
pub(crate) fn record_collectives(py: Python<'_>, collectives: Vec<Collective>) {
    let optional = |text: &str| if text.is_empty() { 0 } else { intern(text) };
    let args: Vec<CollectiveArg> = collectives
        .iter()
        .map(|collective| CollectiveArg {
            name: intern(&collective.name),
            group: intern(&collective.group),
            group_ranks: optional(&collective.group_ranks),
            dtype: optional(&collective.dtype),
            group_size: collective.group_size,
            sequence: collective.sequence,
            in_elements: collective.in_elements,
            out_elements: collective.out_elements,
            created_unix_nanos: collective.created_nanos,
            started_unix_nanos: collective.started_nanos,
            duration_nanos: collective.duration_nanos,
            state: collective.state,
            is_p2p: collective.is_p2p.into(),
        })
        .collect();
    // SAFETY: the list lives until the call returns.
    py.detach(|| unsafe { (table().record_collectives)(args.as_ptr(), args.len()) });
}
