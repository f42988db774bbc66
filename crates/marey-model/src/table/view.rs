//! The views over the stored tables: what people query, without a join.

use super::ColumnKind::{Bits, Flag, Id, Int, Nanos, Real, Reals, Text};
use super::{Table, column, maybe};

/// Every view.
pub const ALL: &[&Table] = &[&SPANS, &FLAME, &TOP, &STEPS, &COUNTERS, &KERNELS];

/// Spans with their names.
pub const SPANS: Table = Table {
    name: "spans",
    doc: "Everything that was entered and left: scopes, states, modules, operators, steps.",
    columns: &[
        column("name", Text, "Its name."),
        column("kind", Text, "What it is: scope, state, module, operator, frame or step."),
        column("start_nanos", Nanos, "When it was entered."),
        column("end_nanos", Nanos, "When it was left."),
        column("duration_nanos", Nanos, "How long it was open."),
        column("self_nanos", Nanos, "How long, without spans directly inside it on its thread."),
        column("path", Text, "The names around it and its own, separated by `/`."),
        column("depth", Id, "Spans around it, itself included."),
        column("thread", Text, "Name of its thread; may be empty."),
        column("pid", Int, "Id of its process in the system."),
        maybe("rank", Int, "Rank of its process in a distributed job."),
        column("phase", Id, "The phase in which it was left."),
        column("is_open", Flag, "Whether it was still open at the end of the recording."),
        column("process_id", Id, "Its process, in processes."),
        column("thread_id", Id, "Its thread, in threads."),
        column("context_id", Id, "Its place in the calling-context tree, in contexts."),
        column("name_id", Id, "Its name, in strings."),
    ],
    sorted_by: None,
};

/// Sums by context.
pub const FLAME: Table = Table {
    name: "flame",
    doc: "The calling-context tree with sums over the whole run, from rollups: a flame graph.",
    columns: &[
        column("name", Text, "Name of the context."),
        column("kind", Text, "What it is: scope, state, module, operator, frame or step."),
        column("path", Text, "The names around it and its own, separated by `/`."),
        column("depth", Id, "Contexts around it, itself included."),
        column("count", Int, "How often it was entered."),
        column("total_nanos", Nanos, "Time in it."),
        column("self_nanos", Nanos, "Time in it, without contexts directly inside it."),
        maybe("min_nanos", Nanos, "The shortest."),
        maybe("max_nanos", Nanos, "The longest."),
        maybe("p50_nanos", Nanos, "The median, to 1 part in 64."),
        maybe("p99_nanos", Nanos, "The 99th percentile, to 1 part in 64."),
        column("context_id", Id, "Its number, in contexts."),
        maybe("parent_id", Id, "Number of the context around it."),
    ],
    sorted_by: None,
};

/// Sums by name.
pub const TOP: Table = Table {
    name: "top",
    doc: "Sums by name over the whole run, from rollups: where the time went.",
    columns: &[
        column("name", Text, "The name."),
        column("kind", Text, "What it is: scope, state, module, operator, frame or step."),
        column("count", Int, "How often it was entered."),
        column(
            "total_nanos",
            Nanos,
            "Time in it; where it is entered inside itself, counted each time.",
        ),
        column("self_nanos", Nanos, "Time in it, without what is directly inside it."),
        maybe("mean_nanos", Real, "`total_nanos` divided by `count`."),
        maybe("min_nanos", Nanos, "The shortest."),
        maybe("max_nanos", Nanos, "The longest."),
        maybe("p50_nanos", Nanos, "The median, to 1 part in 64."),
        maybe("p99_nanos", Nanos, "The 99th percentile, to 1 part in 64."),
    ],
    sorted_by: None,
};

/// Training steps.
pub const STEPS: Table = Table {
    name: "steps",
    doc: "The training steps.",
    columns: &[
        column("number", Id, "Number of the step in its process; the first is 0."),
        column("start_nanos", Nanos, "When it began."),
        column("end_nanos", Nanos, "When it ended."),
        column("duration_nanos", Nanos, "How long it took."),
        column("path", Text, "The names around it and its own, separated by `/`."),
        column("thread", Text, "Name of its thread; may be empty."),
        column("pid", Int, "Id of its process in the system."),
        maybe("rank", Int, "Rank of its process in a distributed job."),
        column("process_id", Id, "Its process, in processes."),
        column("thread_id", Id, "Its thread, in threads."),
        column("context_id", Id, "Its place in the calling-context tree, in contexts."),
    ],
    sorted_by: None,
};

/// Values of metrics.
pub const COUNTERS: Table = Table {
    name: "counters",
    doc: "Every value that was added to a metric, over time.",
    columns: &[
        column("time_nanos", Nanos, "When it was added."),
        column("name", Text, "The metric's name, with its unit if it has one."),
        maybe("value", Real, "The value, if it is one number."),
        maybe("integer", Int, "The value, if it is a whole number."),
        maybe("text", Text, "The value, if it is a text."),
        maybe("vector", Reals, "The values, if it is a list of numbers."),
        column("path", Text, "The names around it, separated by `/`; empty outside of all scopes."),
        column("thread", Text, "Name of the thread; may be empty."),
        column("pid", Int, "Id of the process in the system."),
        maybe("rank", Int, "Rank of the process in a distributed job."),
        column("phase", Id, "The phase in which it was added."),
        column("process_id", Id, "The process, in processes."),
        column("thread_id", Id, "The thread, in threads."),
        column("context_id", Id, "The place in the calling-context tree, in contexts."),
    ],
    sorted_by: None,
};

/// Kernels.
pub const KERNELS: Table = Table {
    name: "kernels",
    doc: "The kernels that ran on devices, under the line that launched them.",
    columns: &[
        column("name", Text, "Name of the kernel."),
        column("start_nanos", Nanos, "When the device began."),
        column("end_nanos", Nanos, "When the device was done."),
        column("duration_nanos", Nanos, "How long it took."),
        column("device", Id, "Number of the device in its process."),
        column("stream", Id, "The stream that it ran on."),
        maybe("path", Text, "The names around its launch, separated by `/`."),
        maybe("grid", Text, "Blocks of the grid, as `x,y,z`."),
        maybe("block", Text, "Threads of a block, as `x,y,z`."),
        maybe("registers", Id, "Registers of a thread."),
        maybe("shared_bytes", Int, "Shared memory of a block in bytes, static and dynamic."),
        maybe("correlation_id", Bits, "The number that it shares with its launch."),
        maybe("graph_node_id", Bits, "The node of the device graph that it was launched by."),
        column("pid", Int, "Id of the process in the system."),
        maybe("rank", Int, "Rank of the process in a distributed job."),
        column("process_id", Id, "The process, in processes."),
        maybe("context_id", Id, "Where it was launched, in contexts."),
    ],
    sorted_by: None,
};
