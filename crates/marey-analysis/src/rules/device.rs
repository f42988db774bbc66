//! Rules about the time in which devices wait: idle time, slow launches, small kernels and exposed
//! communication.

use marey_model::table::stored;

use super::{HIGH_PERCENT, MEDIUM_FROM_PERCENT, MEDIUM_PERCENT, min_percent};
use crate::rule::{Rule, RuleThreshold};

/// The share of the step time below which these rules do not fire.
const MIN_PERCENT: RuleThreshold = min_percent(5.0);

/// No stream of a device is busy. The idle time is split by cause and by the activity of the host.
pub(super) const GPU_IDLE: Rule = Rule {
    name: "gpu_idle",
    needed_tables: &[&stored::GPU_ACTIVITIES],
    title: "Idle device",
    doc: "Fires for each cause in `device_idle` that takes at least `min_percent` of the step time. Impact: the idle time with that cause, per step. Gain: all of it for `host wait`, 0 for `kernel wait`, unknown for `other`. The time before the first and after the last activity is not counted. Severity: high above `high_percent` of the step time, medium above `medium_percent`.",
    thresholds: &[HIGH_PERCENT, MEDIUM_PERCENT, MIN_PERCENT],
    sql: include_str!("../../rules/gpu_idle.sql"),
    description: "Device {device} was idle for {impact_nanos} {per} ({impact_percent}), cause \"{subject}\". Top host span: {host_span}, {host_span_nanos} {per}. In total the device was idle {device_idle_percent} of the time.",
    hint: "Let the host run ahead of the device: remove synchronisation from the step, allocate memory once, prefetch data, and launch fewer, larger operations with torch.compile or CUDA graphs.",
};

/// The host launches kernels more slowly than the device executes them.
pub(super) const LAUNCH_BOUND: Rule = Rule {
    name: "launch_bound",
    needed_tables: &[&stored::GPU_ACTIVITIES],
    title: "Launch-bound",
    doc: "Fires when three conditions hold. More than `min_operator_percent` of a device's idle time is `host wait` during operators and runtime calls that neither wait, copy nor allocate. More than `min_empty_percent` of the launches found the queue empty: the launched work began less than `queue_micros` after the call returned. The mean work per launch is shorter than the median time from one launch of a thread to the next; a median, because a few long waits would raise a mean. A graph launch counts as one launch. Impact: that idle time, per step. Gain: all of it, as if launches took no time. Severity: high above `high_percent` of the step time, medium above `medium_percent`.",
    thresholds: &[
        HIGH_PERCENT,
        MEDIUM_PERCENT,
        MIN_PERCENT,
        RuleThreshold {
            name: "min_operator_percent",
            default: 50.0,
            unit: "%",
            doc: "Share of the idle time that the host must spend in operators.",
        },
        RuleThreshold {
            name: "min_empty_percent",
            default: 50.0,
            unit: "%",
            doc: "Share of the launches that must find the queue empty.",
        },
        RuleThreshold {
            name: "queue_micros",
            default: 20.0,
            unit: "µs",
            doc: "A launch found the queue empty if its work began within this time after the call.",
        },
    ],
    sql: include_str!("../../rules/launch_bound.sql"),
    description: "Device {device} waited {impact_nanos} {per} ({impact_percent}) for launches: the host issued one every {cycle_nanos}, and each brought {work_nanos} of work. {empty_percent} of {launch_count} launches found the queue empty.",
    hint: "Reduce the number of launches: torch.compile (mode \"reduce-overhead\"), CUDA graphs, fused or foreach optimizers, larger batches. First profile again without stacks and shapes: recording them slows the host down.",
};

/// Kernels so short that the cost of starting them matters.
pub(super) const SMALL_KERNELS: Rule = Rule {
    name: "small_kernels",
    needed_tables: &[&stored::GPU_ACTIVITIES],
    title: "Many small kernels",
    doc: "Fires when kernels shorter than `short_micros` are at least `min_count_percent` of a device's kernels and at least `min_per_step` per step. Impact: the union of their time plus the gaps before them in which the device was idle although they had been launched (`kernel wait`), per step. Gain: these gaps, which fusion removes; the memory traffic that fusion saves is unknown. Severity: high above `high_percent` of the step time, medium above `medium_percent`.",
    thresholds: &[
        HIGH_PERCENT,
        MEDIUM_PERCENT,
        MIN_PERCENT,
        RuleThreshold {
            name: "short_micros",
            default: 10.0,
            unit: "µs",
            doc: "Kernels shorter than this are small.",
        },
        RuleThreshold {
            name: "min_count_percent",
            default: 50.0,
            unit: "%",
            doc: "Share of the kernels that must be small.",
        },
        RuleThreshold {
            name: "min_per_step",
            default: 100.0,
            unit: "",
            doc: "Number of small kernels that a step must have.",
        },
    ],
    sql: include_str!("../../rules/small_kernels.sql"),
    description: "{kernels_per_step} kernels {per} ({count_percent}) on device {device} are short: {mean_nanos} on average. With {gap_nanos} of gaps before them they take {impact_nanos} {per} ({impact_percent}). The most frequent is {subject} ({top_per_step} {per}), launched in {path} among others.",
    hint: "Fuse them: torch.compile for elementwise chains, foreach=True or fused=True for optimizers, fused norms and attention. Increase the batch size. CUDA graphs shorten the gaps between the remaining kernels.",
};

/// Communication that does not overlap with computation.
pub(super) const EXPOSED_COMMUNICATION: Rule = Rule {
    name: "exposed_communication",
    needed_tables: &[&stored::GPU_ACTIVITIES],
    title: "Exposed communication",
    doc: "Fires for a device on which communication kernels ran without overlapping computation for at least `min_percent` of the step time. Impact: `exposed_communication_nanos` of `gpu_time_by_step`, summed over the steps, per step; for a process without steps, that of `gpu_time` over the recording. Gain: all of it, as if computation hid all communication. The time in which a rank waits for other ranks is included. Severity: high above `high_percent` of the step time, medium from `medium_percent`.",
    thresholds: &[min_percent(2.0), MEDIUM_FROM_PERCENT, HIGH_PERCENT],
    sql: include_str!("../../rules/exposed_communication.sql"),
    description: "Device {device} communicated for {communication_nanos} {per}, and {overlap_percent} of that overlapped with computation: {impact_nanos} ({impact_percent}) were exposed. The longest-running communication kernel is {kernel}.",
    hint: "Overlap communication with computation: smaller DDP buckets (bucket_cap_mb), FSDP prefetching, asynchronous collectives with a later wait. Or communicate less: gradient accumulation, bf16 gradients. If ranks wait for a late rank, fix that first.",
};
