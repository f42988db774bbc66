//! Rules on what the host does.

use marey_model::table::stored;

use super::{HIGH, MEDIUM};
use crate::rule::{Rule, Threshold};

/// From where on there is something to say.
const LEAST: Threshold = Threshold {
    name: "min_percent",
    default: 1.0,
    unit: "%",
    doc: "Below this share of the steps nothing is said.",
};

/// Calls in a step in which the host waits for a device.
pub(super) const CPU_GPU_SYNC: Rule = Rule {
    name: "cpu_gpu_sync",
    needs: &[&stored::SPANS],
    title: "The host waits for the device",
    doc: "Fires for each operator whose calls take at least `min_percent` of the steps: those that synchronise with a device, a stream or an event, and copies to the host that end before the call does (to memory that is not pinned, as in `aten::item`, or by a call that is not asynchronous). Not `StreamWaitEvent`, in which the device waits, nor the last one of all outside of any span, by which profilers end. Impact: the union of these calls, by the steps. Gain: as much, but not more than the device is idle. High above `high_percent` of the steps, medium above `medium_percent`, as PRISM has it.",
    thresholds: &[
        Threshold {
            name: "high_percent",
            default: 20.0,
            unit: "%",
            doc: "Above this share of the steps it is high.",
        },
        MEDIUM,
        LEAST,
    ],
    sql: include_str!("../../rules/cpu_gpu_sync.sql"),
    says: "The host waited {impact_nanos} {per} ({impact_percent}) for the device in {subject}, {syncs_per_step} times {per}, most in {call}; all waits of the process take {total_sync_percent}.",
    hint: "Keep values on the device: no .item(), .cpu(), print or if on tensors in the step; log every so many steps, copy to pinned memory with non_blocking=True, and synchronise once at the end.",
};

/// The main thread waits for the next batch while the device has nothing to do.
pub(super) const DATALOADER_STALL: Rule = Rule {
    name: "dataloader_stall",
    needs: &[&stored::SPANS],
    title: "Waiting for data",
    doc: "Fires when the main thread is in the data loader (`enumerate(DataLoader)…`, `DataLoader.__next__`, `next(…)`) with a device idle for at least `min_percent` of the steps. Impact and gain: that time, by the steps; without a device, all time in the data loader. Of several devices, the one that was idle longest counts. High above `high_percent` of the steps, medium above `medium_percent`.",
    thresholds: &[HIGH, MEDIUM, LEAST],
    sql: include_str!("../../rules/dataloader_stall.sql"),
    says: "The main thread was in {subject} for {load_nanos} {per}, {hidden_nanos} of which the device was busy; {impact_nanos} ({impact_percent}) are lost. The longest of {load_count} took {longest_nanos}.",
    hint: "Raise num_workers, set persistent_workers=True, pin_memory=True and a larger prefetch_factor, move decoding and augmentation into workers or onto the device, or store the data in a form that is faster to read.",
};

/// Copies between host and device during which no kernel runs.
pub(super) const HOST_DEVICE_COPIES: Rule = Rule {
    name: "host_device_copies",
    needs: &[&stored::GPU_ACTIVITIES],
    title: "Copies that nothing hides",
    doc: "Fires for each direction in which copies that began in the steps take at least `min_percent` of them while no kernel runs on the device. Impact and gain: that time, by the steps. Bytes are pageable where the name of the copy says so; ROCm's do not, and say no bytes. High above `high_percent` of the steps, medium above `medium_percent`.",
    thresholds: &[HIGH, MEDIUM, LEAST],
    sql: include_str!("../../rules/host_device_copies.sql"),
    says: "Copies from {subject} take {copy_nanos} {per}, {impact_nanos} ({impact_percent}) of which device {device} runs no kernel: {copied_bytes} in {copies_per_step} copies, {pageable_percent} of them pageable; the longest in {path}.",
    hint: "Pin the host's memory (pin_memory=True), copy with non_blocking=True on a stream of its own while the previous batch computes, make data on the device, and join small copies.",
};

/// An operation that takes much of the step by itself: on the host, or a kernel on a device.
pub(super) const HOT_OPERATION: Rule = Rule {
    name: "hot_operation",
    needs: &[&stored::ROLLUPS, &stored::GPU_ACTIVITIES],
    title: "Hot operation",
    doc: "Fires for a name and kind on the host whose exclusive time (without what is inside it, added up over the threads of its process, so that it may exceed 100 %) is more than medium_percent of the steps, and for a kernel that computes, if it runs for more than that on its device (where it runs several times at once, counted once). Steps, calls that wait (Synchronize), collectives on the host, and waits of Python's own do not count; of what is named backward, only what PyTorch's own thread for that does not account for. impact = that time / steps. gain = at most impact; on the host also at most the time in which the busiest device of the process did nothing, as that one sets the pace. Of a process of which only sums are known: percent of the exclusive time of all, and the time is of the whole recording.",
    thresholds: &[
        Threshold {
            name: "medium_percent",
            default: 10.0,
            unit: "%",
            doc: "Share of the step above which it fires, and is medium.",
        },
        Threshold {
            name: "high_percent",
            default: 30.0,
            unit: "%",
            doc: "Share of the step above which it is high.",
        },
    ],
    sql: include_str!("../../rules/hot_operation.sql"),
    says: "On the {side}, the {kind} {subject} took {impact_nanos} {per} by itself ({impact_percent}), in {count} calls of {mean_nanos} on average.",
    hint: "Make it cheaper, call it less often, or move it off the step: fuse or compile what is around a hot kernel, choose a faster algorithm or data type; take a hot operation of the host out of the loop, or let another thread do it.",
};
