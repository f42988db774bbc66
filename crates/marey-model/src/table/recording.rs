//! Declares the views about the recording itself: its overhead, the last sampled stacks, and
//! watched variables.

use super::ColumnKind::{Id, Int, Nanos, Real, Text};
use super::view::{PID, PROCESS_ID, RANK};
use super::{Table, column, nullable};

tables! {
    /// The time that recording adds to training steps, against steps without any hook. One row per
    /// process of a recording that has imported PyTorch.
    RECORDING_OVERHEAD = "recording_overhead" [
        column("statement", Text, "The result as a sentence; `unknown` with the reason."),
        nullable(
            "percent",
            Real,
            "Time that recording adds to a step, in percent of a step without it; null if unknown.",
        ),
        nullable("low_percent", Real, "Lower end of the 95 % confidence interval of `percent`."),
        nullable("high_percent", Real, "Upper end of this interval."),
        nullable("block_count", Int, "Number of blocks of steps without recording."),
        nullable("block_steps", Int, "Number of steps in each of these blocks."),
        nullable("step_count", Int, "Number of steps, recorded or not."),
        column("unrecorded_steps", Int, "Number of steps without recording."),
        nullable("detail", Text, "Details recorded at the end: operators, modules, steps."),
        nullable("target_percent", Real, "The highest accepted `percent`; null without a target."),
        nullable(
            "backoff",
            Text,
            "The details that were dropped to reach the target, each with its reason; null if none was.",
        ),
        PID,
        RANK,
        PROCESS_ID,
    ]

    /// The last sampled stack of each thread, one row per frame, with Probing's columns. A running
    /// process that samples its stacks (`marey config PID sample.interval=0.1`) is queried by its
    /// id.
    BACKTRACE = "backtrace" [
        nullable("ip", Text, "Instruction pointer; null, because the frames are Python's."),
        column("file", Text, "File of the function."),
        column("func", Text, "Name of the function."),
        nullable("lineno", Int, "Line that was executing."),
        column("depth", Int, "Position in the stack; the innermost frame is 0."),
        column("frame_type", Text, "`Python`."),
        nullable("thread", Text, "Name of the thread."),
        column("time_nanos", Nanos, "Time of the sample."),
        PID,
        RANK,
        PROCESS_ID,
        column("thread_id", Id, "Thread (`threads.id`)."),
    ]

    /// The values of watched variables (`marey watch PID 'train.py:120:loss'`), one row per
    /// variable and recorded line, with Probing's columns `func`, `name` and `value`.
    VARIABLES = "variables" [
        column("time_nanos", Nanos, "Time at which the line began."),
        column("func", Text, "Name of the function."),
        column("file", Text, "File of the line."),
        column("lineno", Id, "Number of the line, from 1."),
        column("name", Text, "Variable, attribute or item, as it was watched."),
        column(
            "value",
            Text,
            "Value as a text; of tensors and arrays, element type, shape and device.",
        ),
        nullable("number", Real, "Value as a number; null for texts."),
        column("value_type", Text, "Name of the value's type."),
        nullable("thread", Text, "Name of the thread."),
        PID,
        RANK,
        PROCESS_ID,
        nullable("thread_id", Id, "Thread (`threads.id`)."),
    ]
}
