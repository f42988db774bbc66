//! Views of forward and backward passes.
//!
//! `docs/analysis.md` defines each number.

use super::ColumnKind::{Flag, Id, Int, Nanos, Real, Text};
use super::view::{CONTEXT_ID, PATH, PID, PROCESS_ID, RANK, THREAD, THREAD_ID};
use super::{Table, column, nullable};

tables! {
    /// Calls of autograd nodes with the forward operators that made the nodes. Recordings with
    /// operators have them, and traces of `torch.profiler`.
    AUTOGRAD_CALLS = "autograd_calls" [
        column("name", Text, "Name of the autograd node, such as `AddmmBackward0`."),
        column("start_nanos", Nanos, "Start of the call."),
        column("duration_nanos", Nanos, "Duration of the call."),
        column("forward_name", Text, "Name of the forward operator."),
        column("forward_path", Text, "Path of the forward operator, through its modules."),
        column("forward_start_nanos", Nanos, "Start of the forward operator."),
        column("forward_duration_nanos", Nanos, "Duration of the forward operator."),
        THREAD,
        PID,
        RANK,
        PROCESS_ID,
        THREAD_ID,
        CONTEXT_ID,
        column("forward_thread_id", Id, "Thread that ran the forward operator (`threads.id`)."),
        column("forward_context", Id, "Context node of the forward operator (`contexts.id`)."),
    ]

    /// Time of each module in forward and backward. One row per process and module; a module
    /// includes the modules inside it.
    MODULE_TIMES = "module_times" [
        column("name", Text, "Dotted name of the module."),
        PATH,
        column("depth", Id, "Depth in the context tree."),
        column("calls", Int, "Number of forward calls."),
        column("forward_nanos", Nanos, "Inclusive duration of the forward calls."),
        column(
            "backward_calls",
            Int,
            "Number of calls of autograd nodes that operators of the module made.",
        ),
        column("backward_nanos", Nanos, "Duration of these calls."),
        column("total_nanos", Nanos, "`forward_nanos` + `backward_nanos`."),
        PID,
        RANK,
        PROCESS_ID,
        CONTEXT_ID,
        nullable("parent_id", Id, "Parent context node (`contexts.id`); null for the root."),
    ]

    /// The module that each context belongs to: the innermost module around it; below an autograd
    /// node, that of the forward operator that made the node, of several that with most of the
    /// node's time. One row per context with a module.
    CONTEXT_MODULES = "context_modules" [
        CONTEXT_ID,
        column("module", Text, "Dotted name of the module."),
        nullable(
            "call_site",
            Text,
            "File and line of the module's first call, as `train.py:12`; null if `marey.torch` has not recorded it.",
        ),
        column("is_backward", Flag, "Whether the context is below an autograd node."),
        column("path", Text, "Path of the module, from the root."),
        column("module_context", Id, "Context node of the module (`contexts.id`)."),
    ]

    /// Operators with what `torch.profiler` knows about each call. One row per call in a window, or
    /// in an imported trace of `torch.profiler`.
    TRACED_OPERATORS = "traced_operators" [
        column("name", Text, "Name of the operator or autograd node."),
        column("start_nanos", Nanos, "Start of the call."),
        column("duration_nanos", Nanos, "Duration of the call."),
        column("self_nanos", Nanos, "Exclusive duration of the call."),
        nullable("module", Text, "Dotted name of the innermost module around the call."),
        nullable(
            "call_stack",
            Text,
            "Python calls around the operator, innermost first, separated by `;`.",
        ),
        nullable("input_dims", Text, "Dimensions of the inputs, as JSON."),
        nullable("input_types", Text, "Types of the inputs, as JSON."),
        nullable("input_strides", Text, "Strides of the inputs, as JSON."),
        nullable("concrete_inputs", Text, "Values of scalar inputs, as JSON."),
        nullable(
            "flops",
            Real,
            "Floating-point operations: PyTorch's figure if there is one, else by `op_flops`.",
        ),
        nullable("record_function_id", Int, "Number of the call; 0 if PyTorch gave none."),
        nullable(
            "sequence",
            Int,
            "Sequence number, which a forward operator shares with its autograd node.",
        ),
        nullable(
            "forward_thread",
            Int,
            "PyTorch's number of the thread that ran the forward operator; 0 for forward operators.",
        ),
        PATH,
        THREAD,
        PID,
        RANK,
        PROCESS_ID,
        THREAD_ID,
        CONTEXT_ID,
        column("args", Text, "All arguments as a JSON object, keyword arguments too."),
    ]
}
