//! The views that say where the time of devices went.
//!
//! `docs/analysis.md` says how each number is made, and where it differs from HTA's.

use super::ColumnKind::{Id, Int, Nanos, Real, Text};
use super::view::{DEVICE, PID, PROCESS_ID, RANK, THREAD, THREAD_ID};
use super::{Table, column, maybe};

/// What each device did over the whole trace, as one process used it: idle, computing,
/// communicating, copying; one row for each process and device that has a kernel, a copy or a fill.
/// Waits, annotations and other activities do not count.
pub const GPU_TIME: Table = Table {
    name: "gpu_time",
    doc: "What each device did over the whole trace, as one process used it: idle, computing, communicating, copying; one row for each process and device that has a kernel, a copy or a fill. Waits, annotations and other activities do not count.",
    columns: &[
        DEVICE,
        column(
            "start_nanos",
            Nanos,
            "When the first counted activity began: the start of the window.",
        ),
        column("end_nanos", Nanos, "When the last counted activity ended: the end of the window."),
        column(
            "window_nanos",
            Nanos,
            "Length of the window, HTA's kernel time: `end_nanos` - `start_nanos`.",
        ),
        column(
            "busy_nanos",
            Nanos,
            "Time in the window in which at least one counted activity ran: the union of kernels, copies and fills on all streams of the device.",
        ),
        column(
            "idle_nanos",
            Nanos,
            "Time in the window in which none ran: `window_nanos` - `busy_nanos`.",
        ),
        column(
            "compute_nanos",
            Nanos,
            "Time in the window in which at least one computation kernel ran: the union of those of the class `compute`.",
        ),
        column(
            "non_compute_nanos",
            Nanos,
            "Time in the window in which the device was busy without computing: `busy_nanos` - `compute_nanos`, which is `exposed_communication_nanos` + `memory_only_nanos`.",
        ),
        column(
            "communication_nanos",
            Nanos,
            "Time in the window in which at least one communication kernel ran: the union of those of the class `communication`.",
        ),
        column(
            "memory_nanos",
            Nanos,
            "Time in the window in which at least one copy or fill ran: the union of those of the class `memory`.",
        ),
        column(
            "overlap_nanos",
            Nanos,
            "Time in the window in which communication and computation ran at the same time: the intersection of both unions.",
        ),
        column(
            "exposed_communication_nanos",
            Nanos,
            "Time in the window in which communication ran and no computation did, whether or not there were copies: `communication_nanos` - `overlap_nanos`.",
        ),
        column(
            "compute_only_nanos",
            Nanos,
            "Time in the window in which computation ran, and neither communication nor a copy or fill.",
        ),
        column(
            "communication_only_nanos",
            Nanos,
            "Time in the window in which communication ran, and neither computation nor a copy or fill.",
        ),
        column(
            "memory_only_nanos",
            Nanos,
            "Time in the window in which a copy or fill ran, and neither computation nor communication.",
        ),
        maybe("idle_percent", Real, "100 * `idle_nanos` / `window_nanos`; null if that is 0."),
        maybe(
            "compute_percent",
            Real,
            "100 * `compute_nanos` / `window_nanos`; null if that is 0.",
        ),
        maybe(
            "non_compute_percent",
            Real,
            "100 * `non_compute_nanos` / `window_nanos`; null if that is 0.",
        ),
        maybe(
            "overlap_percent",
            Real,
            "How much of communication computation hides: 100 * `overlap_nanos` / `communication_nanos`; null if nothing communicated.",
        ),
        PID,
        RANK,
        PROCESS_ID,
    ],
    sorted_by: None,
};

/// What each device did in each training step of its process, between the begin and the end of the
/// step on the host, whichever step launched it; one row for each step and each device that the
/// process used at all (in other steps too).
pub const GPU_TIME_BY_STEP: Table = Table {
    name: "gpu_time_by_step",
    doc: "What each device did in each training step of its process, between the begin and the end of the step on the host, whichever step launched it; one row for each step and each device that the process used at all (in other steps too).",
    columns: &[
        column("number", Id, "Number of the step in its process."),
        DEVICE,
        column("start_nanos", Nanos, "When the step began on the host."),
        column("end_nanos", Nanos, "When the step ended on the host."),
        column("duration_nanos", Nanos, "Length of the step: `end_nanos` - `start_nanos`."),
        column(
            "busy_nanos",
            Nanos,
            "Time in the step in which at least one counted activity ran: the union of kernels, copies and fills on all streams of the device.",
        ),
        column(
            "idle_nanos",
            Nanos,
            "Time in the step in which none ran: `duration_nanos` - `busy_nanos`.",
        ),
        column(
            "compute_nanos",
            Nanos,
            "Time in the step in which at least one computation kernel ran: the union of those of the class `compute`.",
        ),
        column(
            "non_compute_nanos",
            Nanos,
            "Time in the step in which the device was busy without computing: `busy_nanos` - `compute_nanos`, which is `exposed_communication_nanos` + `memory_only_nanos`.",
        ),
        column(
            "communication_nanos",
            Nanos,
            "Time in the step in which at least one communication kernel ran: the union of those of the class `communication`.",
        ),
        column(
            "memory_nanos",
            Nanos,
            "Time in the step in which at least one copy or fill ran: the union of those of the class `memory`.",
        ),
        column(
            "overlap_nanos",
            Nanos,
            "Time in the step in which communication and computation ran at the same time: the intersection of both unions.",
        ),
        column(
            "exposed_communication_nanos",
            Nanos,
            "Time in the step in which communication ran and no computation did, whether or not there were copies: `communication_nanos` - `overlap_nanos`.",
        ),
        column(
            "compute_only_nanos",
            Nanos,
            "Time in the step in which computation ran, and neither communication nor a copy or fill.",
        ),
        column(
            "communication_only_nanos",
            Nanos,
            "Time in the step in which communication ran, and neither computation nor a copy or fill.",
        ),
        column(
            "memory_only_nanos",
            Nanos,
            "Time in the step in which a copy or fill ran, and neither computation nor communication.",
        ),
        maybe("idle_percent", Real, "100 * `idle_nanos` / `duration_nanos`; null if that is 0."),
        maybe(
            "compute_percent",
            Real,
            "100 * `compute_nanos` / `duration_nanos`; null if that is 0.",
        ),
        maybe(
            "non_compute_percent",
            Real,
            "100 * `non_compute_nanos` / `duration_nanos`; null if that is 0.",
        ),
        maybe(
            "overlap_percent",
            Real,
            "How much of communication computation hides: 100 * `overlap_nanos` / `communication_nanos`; null if nothing communicated.",
        ),
        THREAD,
        PID,
        RANK,
        PROCESS_ID,
        THREAD_ID,
    ],
    sorted_by: None,
};

/// The kernels, copies and fills of each device by name: how often they ran and how long. A row for
/// each process, device, kind and name; waits and annotations are not counted.
pub const KERNEL_SUMMARY: Table = Table {
    name: "kernel_summary",
    doc: "The kernels, copies and fills of each device by name: how often they ran and how long. A row for each process, device, kind and name; waits and annotations are not counted.",
    columns: &[
        column("name", Text, "Name of the kernel, or of the kind of copy or fill."),
        column("kind", Text, "What it is: kernel, memcpy or memset."),
        column(
            "class",
            Text,
            "What it is for: compute, communication or memory, as `gpu_class()` has it.",
        ),
        column("count", Int, "How often it ran."),
        column(
            "total_nanos",
            Nanos,
            "Sum of the durations; what ran at the same time is counted each time.",
        ),
        column("mean_nanos", Real, "`total_nanos` divided by `count`."),
        column("min_nanos", Nanos, "The shortest."),
        column("max_nanos", Nanos, "The longest."),
        maybe(
            "stddev_nanos",
            Real,
            "Sample standard deviation of the durations, which divides by `count` - 1; null if it ran once.",
        ),
        maybe(
            "device_percent",
            Real,
            "`total_nanos` in percent of the sum of `total_nanos` over the device; null if that is 0.",
        ),
        DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ],
    sorted_by: None,
};

/// The copies and fills of each device by their kind, with the bandwidth that they reached. A row
/// for each process, device and name, such as `Memcpy HtoD (Pinned -> Device)` or `Memset
/// (Device)`.
pub const GPU_COPIES: Table = Table {
    name: "gpu_copies",
    doc: "The copies and fills of each device by their kind, with the bandwidth that they reached. A row for each process, device and name, such as `Memcpy HtoD (Pinned -> Device)` or `Memset (Device)`.",
    columns: &[
        column("name", Text, "The kind of copy or fill, with the memories that it is between."),
        column("kind", Text, "What it is: memcpy or memset."),
        column("count", Int, "How many there were."),
        maybe(
            "bytes",
            Int,
            "Bytes that they copied or filled, in all; null if it is known of none.",
        ),
        column(
            "total_nanos",
            Nanos,
            "Sum of their durations; what ran at the same time is counted each time.",
        ),
        column("busy_nanos", Nanos, "Time in which at least one of them ran."),
        maybe(
            "bytes_per_second",
            Real,
            "Bandwidth while they ran: `bytes` divided by the time in which at least one of them ran whose bytes are known; null if that is 0 or the bytes are not known.",
        ),
        maybe(
            "min_bytes_per_second",
            Real,
            "The lowest bandwidth of a single one: its bytes divided by its duration; without those of duration 0 or unknown bytes.",
        ),
        maybe(
            "mean_bytes_per_second",
            Real,
            "Mean of the bandwidths of the single ones, each counted alike however many bytes it has; without those of duration 0 or unknown bytes.",
        ),
        maybe(
            "max_bytes_per_second",
            Real,
            "The highest bandwidth of a single one; without those of duration 0 or unknown bytes.",
        ),
        DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ],
    sorted_by: None,
};

/// The annotated ranges of each device by name: how often they stood there and how long, each from
/// the first to the last thing launched within it on one stream. A row for each process, device and
/// name.
pub const GPU_ANNOTATIONS: Table = Table {
    name: "gpu_annotations",
    doc: "The annotated ranges of each device by name: how often they stood there and how long, each from the first to the last thing launched within it on one stream. A row for each process, device and name.",
    columns: &[
        column("name", Text, "Name of the annotation, as the program gave it."),
        column(
            "count",
            Int,
            "How many ranges there are; one for each stream that an annotation launched on.",
        ),
        column(
            "total_nanos",
            Nanos,
            "Sum of their durations, gaps in which the stream was idle included; ranges at the same time (of several streams, or one in another of the same name) are counted each time.",
        ),
        column("mean_nanos", Real, "`total_nanos` divided by `count`."),
        column("min_nanos", Nanos, "The shortest."),
        column("max_nanos", Nanos, "The longest."),
        maybe(
            "stddev_nanos",
            Real,
            "Sample standard deviation of the durations, which divides by `count` - 1; null if there is one.",
        ),
        column("busy_nanos", Nanos, "Time in which at least one of them lasted."),
        DEVICE,
        PID,
        RANK,
        PROCESS_ID,
    ],
    sorted_by: None,
};
