//! Rules about the time that the host spends: waits for a device or for data, copies, and hot
//! operations.

use marey_model::table::stored;

use super::{HIGH_PERCENT, MEDIUM_PERCENT, high_percent, min_percent};
use crate::rule::{Rule, RuleThreshold};

/// The share of the step time below which these rules do not fire.
const MIN_PERCENT: RuleThreshold = min_percent(1.0);

/// Calls within a step in which the host waits for a device.
pub(super) const CPU_GPU_SYNC: Rule = Rule {
    name: "cpu_gpu_sync",
    needed_tables: &[&stored::SPANS],
    title: "Host waits for the device",
    doc: "Fires for each operator whose waiting calls take at least `min_percent` of the step time: calls that synchronise with a device, a stream or an event, and copies to the host that end before the call does (to pageable memory, as in `aten::item`, or by a synchronous call). Not counted: `StreamWaitEvent`, in which the device waits, and the last wait outside of all spans, which profilers issue when they stop. Impact: the union of these calls, per step. Gain: the same, limited by the idle time of the device. Severity: high above `high_percent` of the step time, medium above `medium_percent`, as in PRISM.",
    thresholds: &[high_percent(20.0), MEDIUM_PERCENT, MIN_PERCENT],
    sql: include_str!("../../rules/cpu_gpu_sync.sql"),
    description: "The host waited {impact_nanos} {per} ({impact_percent}) for the device in {subject}, {syncs_per_step} times {per}, the longest in {call}. All such waits of the process take {total_sync_percent}.",
    hint: "Keep values on the device: avoid .item(), .cpu(), and print or if on tensors within the step. Log only every N steps, copy to pinned memory with non_blocking=True, and synchronise once at the end.",
};

/// The main thread waits for the next batch while the device is idle.
pub(super) const DATALOADER_STALL: Rule = Rule {
    name: "dataloader_stall",
    needed_tables: &[&stored::SPANS],
    title: "Waiting for data",
    doc: "Fires when the main thread is in the data loader (`enumerate(DataLoader)…`, `DataLoader.__next__`, `next(…)`) while a device is idle, for at least `min_percent` of the step time. Impact and gain: that time, per step; without a device, all time in the data loader. Of several devices, the one that was idle longest counts. Severity: high above `high_percent` of the step time, medium above `medium_percent`.",
    thresholds: &[HIGH_PERCENT, MEDIUM_PERCENT, MIN_PERCENT],
    sql: include_str!("../../rules/dataloader_stall.sql"),
    description: "The main thread spent {load_nanos} {per} in {subject}. For {impact_nanos} of that ({impact_percent}) {meanwhile}. The longest of {load_count} loads took {longest_nanos}.",
    hint: "Raise num_workers, set persistent_workers=True and pin_memory=True, raise prefetch_factor, move decoding and augmentation into the workers or onto the device, or store the data in a format that is faster to read.",
};

/// Copies between host and device that no kernel hides.
pub(super) const HOST_DEVICE_COPIES: Rule = Rule {
    name: "host_device_copies",
    needed_tables: &[&stored::GPU_ACTIVITIES],
    title: "Exposed copies",
    doc: "Fires for each direction in which copies that began within the steps take at least `min_percent` of the step time while no kernel runs on the device. Impact and gain: that time, per step. Whether a copy is pageable is read from its name; names and records of ROCm tell neither that nor the bytes. Severity: high above `high_percent` of the step time, medium above `medium_percent`.",
    thresholds: &[HIGH_PERCENT, MEDIUM_PERCENT, MIN_PERCENT],
    sql: include_str!("../../rules/host_device_copies.sql"),
    description: "Copies from {subject} take {copy_nanos} {per}; for {impact_nanos} of that ({impact_percent}) no kernel runs on device {device}. {copies_per_step} copies {per} move {copied_bytes}; {pageable_percent} of them use pageable memory. The longest is in {path}.",
    hint: "Pin host memory (pin_memory=True), copy with non_blocking=True on a separate stream while the previous batch computes, create data directly on the device, and merge small copies.",
};

/// An operation that takes a large share of the step by itself: on the host, or a kernel on a
/// device.
pub(super) const HOT_OPERATION: Rule = Rule {
    name: "hot_operation",
    needed_tables: &[&stored::ROLLUPS, &stored::GPU_ACTIVITIES],
    title: "Hot operation",
    doc: "Fires for each name and kind on the host whose exclusive time is more than `medium_percent` of the step time (summed over the threads of the process, so it may exceed 100 %), and for each compute kernel that runs for more than that on its device (concurrent executions counted once). Not counted: steps, calls that wait (Synchronize), collectives on the host, and Python's own waits; names with \"backward\" count only for the time that PyTorch's autograd thread does not account for. Impact: that time, per step. Gain: at most the impact; on the host also at most the idle time of the busiest device of the process, which sets the pace. For a process with sums only, percentages are of the exclusive time of all its operations, and times cover the whole recording. Severity: high above `high_percent` of the step time, medium otherwise.",
    thresholds: &[
        RuleThreshold {
            name: "medium_percent",
            default: 10.0,
            unit: "%",
            doc: "Share of the step time above which the rule fires, with medium severity.",
        },
        HIGH_PERCENT,
    ],
    sql: include_str!("../../rules/hot_operation.sql"),
    description: "On the {side}, the {kind} {subject} took {impact_nanos} of exclusive time {per} ({impact_percent}), in {count} calls of {mean_nanos} on average, the largest part in {path}{place}.",
    hint: "Make it cheaper, call it less often, or take it out of the step. For a hot kernel: fuse or compile the operations around it, or choose a faster algorithm or data type. For a hot host operation: move it out of the loop or to another thread.",
};
