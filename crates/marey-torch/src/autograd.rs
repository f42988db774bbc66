//! Links from the calls of autograd nodes to the forward operators that made the nodes.
//!
//! PyTorch gives each node a sequence number on the thread that runs the forward operator, and
//! stores number and thread in private fields of `at::RecordFunction`. The positions of these
//! fields are known for some versions only ([`AutogradFields`]); without them there are no links.

use crate::library::{Library, RecordFunction};
use marey_record::api::{self, AutogradCall};
use std::sync::atomic::{AtomicU64, Ordering};

/// The positions, in words of 8 bytes, of the private fields; 0 if they are unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AutogradFields {
    /// `sequence_nr_`: -1, or the number of the next node on this thread.
    pub sequence: u8,
    /// `fwd_thread_id_`: PyTorch's number of the forward operator's thread for the call of a node,
    /// else 0.
    pub forward_thread: u8,
}

/// The positions in use: `sequence | forward_thread << 8`.
static FIELDS: AtomicU64 = AtomicU64::new(0);

/// The operating system's ids of threads that ran forward operators, by PyTorch's number, which is
/// never reused: `number << 32 | id`. A thread replaces another one in the same slot.
static FORWARD_THREADS: [AtomicU64; THREAD_SLOTS] = [const { AtomicU64::new(0) }; THREAD_SLOTS];

const THREAD_SLOTS: usize = 1024;

/// Sets the positions for the loaded version.
pub(crate) fn set_fields(fields: AutogradFields) {
    let packed_fields = u64::from(fields.sequence) | u64::from(fields.forward_thread) << 8;
    FIELDS.store(packed_fields, Ordering::Relaxed);
}

/// Returns the part of an operator in a backward pass, if a trace session records it.
///
/// # Safety
/// PyTorch is calling a callback with this function, and the positions are those of its version.
#[inline(always)]
pub(crate) unsafe fn forward_call(
    library: &Library,
    function: *const RecordFunction,
) -> Option<AutogradCall> {
    let packed_fields = FIELDS.load(Ordering::Relaxed);
    if packed_fields == 0 || !api::is_tracing() {
        return None;
    }
    // SAFETY: the caller's promise.
    let (sequence_number, forward_thread) = unsafe { read_fields(function, packed_fields) };
    // The engine's own function around a node's call has the number of that node too.
    if sequence_number < 0 || forward_thread != 0 {
        return None;
    }
    // SAFETY: the function takes no arguments.
    let thread_number = unsafe { (library.current_thread)() };
    let os_id = api::thread_os_id();
    let entry = thread_number << 32 | os_id & u64::from(u32::MAX);
    let slot = &FORWARD_THREADS[thread_number as usize % THREAD_SLOTS];
    if slot.load(Ordering::Relaxed) != entry {
        slot.store(entry, Ordering::Relaxed);
    }
    Some(AutogradCall { sequence: sequence_number.cast_unsigned(), forward_os_id: 0 })
}

/// Returns the link of a node's call to the forward operator, if a trace session records it and the
/// forward operator was seen.
///
/// # Safety
/// As for [`forward_call`].
#[inline(always)]
pub(crate) unsafe fn backward_call(function: *const RecordFunction) -> Option<AutogradCall> {
    let packed_fields = FIELDS.load(Ordering::Relaxed);
    if packed_fields == 0 || !api::is_tracing() {
        return None;
    }
    // SAFETY: the caller's promise.
    let (sequence, thread_number) = unsafe { read_fields(function, packed_fields) };
    let entry = FORWARD_THREADS[thread_number as usize % THREAD_SLOTS].load(Ordering::Relaxed);
    let is_thread_known = sequence >= 0 && thread_number != 0 && entry >> 32 == thread_number;
    is_thread_known.then(|| AutogradCall {
        sequence: sequence.cast_unsigned(),
        forward_os_id: entry & u64::from(u32::MAX),
    })
}

/// Returns the sequence number and PyTorch's number of the forward thread.
///
/// # Safety
/// As for [`forward_call`].
#[inline(always)]
unsafe fn read_fields(function: *const RecordFunction, packed_fields: u64) -> (i64, u64) {
    let words = function.cast::<u64>();
    // SAFETY: both fields are inside the object, which PyTorch keeps during the callback.
    unsafe {
        let sequence = words.add((packed_fields & 0xff) as usize).read();
        let forward_thread = words.add((packed_fields >> 8 & 0xff) as usize).read();
        (sequence.cast_signed(), forward_thread)
    }
}
