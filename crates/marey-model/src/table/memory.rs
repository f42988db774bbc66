//! Views of memory by module, and of the memory and time of each call of a module.
//!
//! `docs/analysis.md` defines each number.

use super::ColumnKind::{Id, Int, Real, Text};
use super::view::{CONTEXT_ID, MAYBE_DEVICE, PATH, PID, PROCESS_ID, RANK};
use super::{Table, column, nullable};

tables! {
    /// Memory that each module has allocated and kept in its forward calls, from readings of the
    /// totals. One row per process, module and memory (a device or the host); a module includes the
    /// modules inside it.
    MODULE_MEMORY = "module_memory" [
        column("name", Text, "Dotted name of the module."),
        PATH,
        column("depth", Id, "Depth in the context tree."),
        column("device_type", Text, "Kind of device that owns the memory, such as cuda, or host."),
        MAYBE_DEVICE,
        column("calls", Int, "Number of forward calls."),
        column(
            "growth_bytes",
            Int,
            "Change of the allocated size during the calls, summed; negative if more was freed.",
        ),
        column(
            "self_growth_bytes",
            Int,
            "The part of `growth_bytes` outside the modules inside this one.",
        ),
        column("peak_bytes", Int, "Maximum size allocated in any call."),
        nullable(
            "peak_change_bytes",
            Int,
            "Largest rise in a call: its maximum minus the size allocated at its entry; null if unknown.",
        ),
        nullable(
            "reserved_growth_bytes",
            Int,
            "Change of the size that the allocator has reserved during the calls, summed; null if unknown.",
        ),
        nullable(
            "max_reserved_bytes",
            Int,
            "Maximum size that the allocator had reserved in any call; null if unknown.",
        ),
        PID,
        RANK,
        PROCESS_ID,
        CONTEXT_ID,
        nullable("parent_id", Id, "Parent context node (`contexts.id`); null for the root."),
    ]

    /// Calls of modules, backward passes and optimizer steps with Probing's columns and units. MB
    /// are 1,048,576 bytes, as in Probing.
    TORCH_TRACE = "torch_trace" [
        nullable("step", Id, "Number of the training step, from 0; null outside of steps."),
        column("seq", Int, "Position among the rows of the step by their start, from 0."),
        nullable(
            "module",
            Text,
            "Dotted name of the module, or class of the optimizer; null for the backward pass of the whole model.",
        ),
        column(
            "stage",
            Text,
            "Stage: forward (a call of a module), backward (a pass, and with operators the part of each module in the step) or step (an optimizer step).",
        ),
        nullable(
            "allocated",
            Real,
            "Memory allocated on all accelerators of the process at the end, in MB; null if it was not read, and for the backward part of a module.",
        ),
        nullable(
            "max_allocated",
            Real,
            "Maximum of `allocated` that the allocators had counted by the end, in MB.",
        ),
        nullable("cached", Real, "Memory that the allocators had reserved at the end, in MB."),
        nullable("time_offset", Real, "Time from the start of the step to the start, in seconds."),
        column("duration", Real, "Duration on the host in seconds."),
        PID,
        RANK,
        PROCESS_ID,
    ]
}
