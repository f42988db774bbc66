//! Rules on what devices wait for.

use marey_model::table::stored;

use super::{HIGH, MEDIUM};
use crate::rule::{Rule, Threshold};

/// From where on there is something to say.
const LEAST: Threshold = Threshold {
    name: "min_percent",
    default: 5.0,
    unit: "%",
    doc: "Below this share of the steps nothing is said.",
};

/// No stream of a device is busy: by why it waits, and by what the host does meanwhile.
pub(super) const GPU_IDLE: Rule = Rule {
    name: "gpu_idle",
    needs: &[&stored::GPU_ACTIVITIES],
    title: "Idle device",
    doc: "Fires for each cause in `device_idle` that takes at least `min_percent` of the steps. Impact: the idle time with that cause, by the steps. Gain: all of it for `host wait`, 0 for `kernel wait`, unknown for `other`. What lies before the first and after the last activity does not count. High above `high_percent` of the steps, medium above `medium_percent`.",
    thresholds: &[HIGH, MEDIUM, LEAST],
    sql: include_str!("../../rules/gpu_idle.sql"),
    says: "Device {device} was idle for {impact_nanos} {per} ({impact_percent}) because of {subject}; most of it, {host_span_nanos} {per}, in {host_span}. In total it was idle {device_idle_percent} of the time.",
    hint: "Let the host run ahead of the device: take out what it waits for, allocate memory once, load data ahead, and launch less with larger operators, torch.compile or CUDA graphs.",
};

/// The host cannot launch as fast as the device runs.
pub(super) const LAUNCH_BOUND: Rule = Rule {
    name: "launch_bound",
    needs: &[&stored::GPU_ACTIVITIES],
    title: "Launches are the bottleneck",
    doc: "Fires when more than `min_operator_percent` of a device's idle time is `host wait` in operators and calls of the runtime that neither wait, copy nor allocate, and more than `min_empty_percent` of the launches found the queue empty (what they launched began less than `queue_micros` after the call returned), and a launch gives the device less to do on average than the median time from one launch of a thread to its next: a median, so that long waits do not make it so. A launch of a graph is one. Impact: that idle time, by the steps. Gain: all of it, as if launching took no time. High above `high_percent` of the steps, medium above `medium_percent`.",
    thresholds: &[
        HIGH,
        MEDIUM,
        LEAST,
        Threshold {
            name: "min_operator_percent",
            default: 50.0,
            unit: "%",
            doc: "Share of the idle time for which the host must be in operators.",
        },
        Threshold {
            name: "min_empty_percent",
            default: 50.0,
            unit: "%",
            doc: "Share of the launches that must find the queue empty.",
        },
        Threshold {
            name: "queue_micros",
            default: 20.0,
            unit: "µs",
            doc: "A launch whose work begins sooner after the call than this found the queue empty.",
        },
    ],
    sql: include_str!("../../rules/launch_bound.sql"),
    says: "Device {device} waited {impact_nanos} {per} ({impact_percent}) for launches: the host needed {cycle_nanos} from one to the next, and each gave {work_nanos} of work; {empty_percent} of {launch_count} found the queue empty.",
    hint: "Launch less: torch.compile (mode \"reduce-overhead\"), CUDA graphs, fused and foreach optimizers, larger batches. Profile without stacks and shapes first: recording them slows the host down.",
};

/// Kernels that are so short that starting them matters.
pub(super) const SMALL_KERNELS: Rule = Rule {
    name: "small_kernels",
    needs: &[&stored::GPU_ACTIVITIES],
    title: "Many small kernels",
    doc: "Fires when kernels shorter than `short_micros` are at least `min_count_percent` of a device's kernels and at least `min_per_step` a step. Impact: the union of their time, and the gaps before them in which the device was idle though they had been launched (`kernel wait`), by the steps. Gain: these gaps, which fusing saves; what it saves of reading and writing memory is not known. High above `high_percent` of the steps, medium above `medium_percent`.",
    thresholds: &[
        HIGH,
        MEDIUM,
        LEAST,
        Threshold {
            name: "short_micros",
            default: 10.0,
            unit: "µs",
            doc: "Kernels shorter than this are small.",
        },
        Threshold {
            name: "min_count_percent",
            default: 50.0,
            unit: "%",
            doc: "Share of the kernels that must be small.",
        },
        Threshold {
            name: "min_per_step",
            default: 100.0,
            unit: "",
            doc: "Small kernels that a step must have.",
        },
    ],
    sql: include_str!("../../rules/small_kernels.sql"),
    says: "{kernels_per_step} kernels {per} ({count_percent}) on device {device} are short, {mean_nanos} on average; with {gap_nanos} of gaps they take {impact_nanos} {per} ({impact_percent}). {top_per_step} of them are {subject}, launched in {path} among others.",
    hint: "Fuse them: torch.compile for elementwise chains, foreach=True or fused=True for optimizers, fused norms and attention, larger batches; CUDA graphs shorten the gaps between those that stay.",
};

/// Communication that no computation of the device hides.
pub(super) const EXPOSED_COMMUNICATION: Rule = Rule {
    name: "exposed_communication",
    needs: &[&stored::GPU_ACTIVITIES],
    title: "Exposed communication",
    doc: "Fires for a device on which kernels of communication ran while none that computes did, for at least min_percent of the steps. impact = sum over the steps of gpu_time_by_step's exposed_communication_nanos / steps; of a process without steps, gpu_time's over the recording. gain = impact: the step if computation hid all of it. Time in which a rank waits for others is in it.",
    thresholds: &[
        Threshold {
            name: "min_percent",
            default: 2.0,
            unit: "%",
            doc: "Share of the step under which it is silent.",
        },
        Threshold {
            name: "medium_percent",
            default: 10.0,
            unit: "%",
            doc: "Share of the step from which it is medium.",
        },
        Threshold {
            name: "high_percent",
            default: 30.0,
            unit: "%",
            doc: "Share of the step above which it is high.",
        },
    ],
    sql: include_str!("../../rules/exposed_communication.sql"),
    says: "Device {device} communicated for {communication_nanos} {per}, of which computation hid {overlap_percent}: {impact_nanos} were exposed ({impact_percent} of the step), most of the communication in {kernel}.",
    hint: "Start communication earlier so that it runs beside computation: smaller DDP buckets (bucket_cap_mb), prefetching in FSDP, an asynchronous call with a later wait. Or communicate less: accumulate gradients, send bf16. If ranks wait for one of them, mend that first.",
};
