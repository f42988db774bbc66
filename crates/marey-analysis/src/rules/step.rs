//! Rules on steps, ranks and memory.

use marey_model::table::stored;

use crate::rule::{Rule, Threshold};

/// Steps that took much longer than the others of their process.
pub(super) const SLOW_STEPS: Rule = Rule {
    name: "slow_steps",
    needs: &[&stored::STEPS],
    title: "Slow steps",
    doc: "Fires for a process of at least min_steps steps of which some are outliers (step_times: a robust z above 3.5, and more than 5 % above the median) if together they cost at least min_percent of all steps. impact = sum of what each took more than the median / steps. gain = impact: if they took the median. What grew is the name on the host whose exclusive time in the worst step is longest over its mean a step in the rest of the recorded steps; a step itself stands for what is in no other span.",
    thresholds: &[
        Threshold {
            name: "min_steps",
            default: 5.0,
            unit: "steps",
            doc: "Steps of the process that it takes.",
        },
        Threshold {
            name: "min_percent",
            default: 1.0,
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
    sql: include_str!("../../rules/slow_steps.sql"),
    says: "{outlier_count} of {step_count} steps were slow ({numbers}), which costs {impact_nanos} {per} on average. The worst, step {worst_number}, took {worst_nanos} instead of {median_nanos}: {grown_name} took {grown_nanos} longer than in other steps.",
    hint: "See what these steps do that others do not: a checkpoint, evaluation or logging, longer inputs, recompilation, garbage collection. The first steps may be warm-up: record after them.",
};

/// A rank that others wait for in collectives, more than it would be by chance.
pub(super) const STRAGGLER: Rule = Rule {
    name: "straggler",
    needs: &[&stored::COLLECTIVES],
    title: "Straggling rank",
    doc: "Fires for a rank and process group if this rank's share of all delays of the group is at least min_ratio times what it would have by chance (1 / the ranks that took part), and costs at least min_percent of the step. A delay is the time from when the last but one began a collective to when this rank did, as in the view stragglers, for those that it began within its steps. impact = sum of its delays / steps. gain = impact: the others' wait, if only this rank were on time. Needs collectives that have numbers, of at least two ranks, imported together.",
    thresholds: &[
        Threshold {
            name: "min_ratio",
            default: 1.5,
            unit: "",
            doc: "Its share of all delays of the group, in multiples of what it would have by chance.",
        },
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
    sql: include_str!("../../rules/straggler.sql"),
    says: "In group {process_group}, the {subject} began {last_count} of {count} collectives last, alone ({last_percent}): the others waited {delay_nanos} for it, {impact_nanos} {per}. That is {delay_percent} of all delays of the group.",
    hint: "Look at what this rank does before its collectives that the others do not: more or longer inputs, a slower or throttled device, logging or checkpoints on one rank. Give ranks equal work, such as batches of equal length.",
};

/// A rank that the others wait for, as far as spans of the host say it.
pub(super) const LATE_RANK: Rule = Rule {
    name: "late_rank",
    needs: &[&stored::SPANS],
    title: "A rank comes late",
    doc: "Fires for a rank that comes late to spans which end together on all ranks (view rank_arrivals), where no collectives are known by their numbers: these say more, in the rule straggler. A rank arrives when it enters the span or leaves the last span inside it. It fires if ranks waited for each other at least min_count times, this rank was last, alone, more often than by chance (count / ranks) by at least min_deviations standard deviations of that (binomial), and it costs at least min_percent of the step. impact = sum of its delays / steps, a delay being the time from the arrival of the last but one to its own. gain = impact: the others' wait, if only this rank were on time. It is likely if the rank has at least likely_percent of the last arrivals and of all delays, else possible. Why it is late: the name whose own time is longest over the mean of the other ranks, waits left out. What a rank does inside such a span without a span of its own is not seen, as all ranks are in it equally long.",
    thresholds: &[
        Threshold {
            name: "min_count",
            default: 5.0,
            unit: "",
            doc: "Times that ranks must have waited for each other.",
        },
        Threshold {
            name: "min_deviations",
            default: 3.0,
            unit: "",
            doc: "How far beyond chance its last arrivals must be, in standard deviations.",
        },
        Threshold {
            name: "likely_percent",
            default: 80.0,
            unit: "%",
            doc: "Share of the last arrivals, and of the delays, from which it is likely.",
        },
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
    sql: include_str!("../../rules/late_rank.sql"),
    says: "Of {count} times that ranks waited for each other, most in {path}, the {subject} came last, alone, {last_count} times ({last_percent}; by chance {chance_count}): the others waited {delay_nanos} for it, {impact_nanos} {per}. It was in {longer_name} {longer_nanos} {per} longer than they were.",
    hint: "Look at what this rank does before it comes there: data loading, logging, checkpoints, longer inputs. A scope around that names it. For certainty, import torch.profiler traces or flight recorder dumps of all ranks together: they have the collectives themselves.",
};

/// Allocated memory that grows from step to step.
pub(crate) const MEMORY_LEAK: Rule = Rule {
    name: "memory_leak",
    needs: &[&stored::MEMORY_EVENTS],
    title: "Memory growth",
    doc: "Fires for a memory of a process if what is allocated at the end of the steps (step_memory), without the first warmup_steps, grows by more than min_slope_bytes a step (Theil and Sen: the median of the slopes between all pairs of steps; of more than 400 steps, between 400 means), if a straight line explains it (r2 of at least min_r2), over at least min_steps steps and by at least min_growth_bytes in all. It costs no time: impact = 0, no gain, always high, as it ends in running out of memory. A process without steps, or whose allocator does not say what is allocated in all, has none.",
    thresholds: &[
        Threshold {
            name: "warmup_steps",
            default: 2.0,
            unit: "steps",
            doc: "First steps of the recording that do not count.",
        },
        Threshold {
            name: "min_steps",
            default: 10.0,
            unit: "steps",
            doc: "Steps after those that it takes.",
        },
        Threshold {
            name: "min_slope_bytes",
            default: 10_000_000.0,
            unit: "B",
            doc: "Growth a step above which it fires.",
        },
        Threshold {
            name: "min_r2",
            default: 0.5,
            unit: "",
            doc: "Least r2 of a straight line through them.",
        },
        Threshold {
            name: "min_growth_bytes",
            default: 100_000_000.0,
            unit: "B",
            doc: "Least growth from the first of these steps to the last.",
        },
    ],
    sql: include_str!("../../rules/memory_leak.sql"),
    says: "Memory of {subject} grew by {slope_bytes} a step over {step_count} steps, by {growth_bytes} in all, to {last_bytes}.",
    hint: "Look for tensors that outlive their step, such as losses kept in a list with their graph: append loss.item() or loss.detach(). A memory snapshot (torch.cuda.memory._record_memory_history) says where what remains was allocated.",
};
