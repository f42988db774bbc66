//! Rules about steps, ranks and memory: slow steps, ranks that others wait for, and memory that
//! grows.

use marey_model::table::stored;

use super::{HIGH_PERCENT, MEDIUM_FROM_PERCENT, min_percent};
use crate::rule::{Rule, RuleThreshold};

/// Steps that took much longer than the other steps of their process.
pub(super) const SLOW_STEPS: Rule = Rule {
    name: "slow_steps",
    needed_tables: &[&stored::STEPS],
    title: "Slow steps",
    doc: "Fires for a process of at least `min_steps` steps if some of them are outliers (`step_times`: a robust z above 3.5, and more than 5 % above the median) and the outliers together cost at least `min_percent` of the time of all steps. Impact: the excess of each outlier over the median, summed, per step. Gain: all of it, as if these steps took the median. The name to blame is the one on the host whose exclusive time in the slowest step exceeds its mean over the other recorded steps by most; the step itself stands for time outside all other spans. Severity: high above `high_percent` of the step time, medium from `medium_percent`.",
    thresholds: &[
        RuleThreshold {
            name: "min_steps",
            default: 5.0,
            unit: "steps",
            doc: "Number of steps that the process must have.",
        },
        min_percent(1.0),
        MEDIUM_FROM_PERCENT,
        HIGH_PERCENT,
    ],
    sql: include_str!("../../rules/slow_steps.sql"),
    description: "{outlier_count} of {step_count} steps were slow ({numbers}) and cost {impact_nanos} {per} on average. The slowest, step {worst_number}, took {worst_nanos} where the median is {median_nanos}: {grown_name} took {grown_nanos} longer than in the other steps.",
    hint: "Check what these steps do that the others do not: checkpoints, evaluation, logging, longer inputs, recompilation, garbage collection. The first steps may be warm-up; start recording after them.",
};

/// A rank for which the others wait in collectives more often than by chance.
pub(super) const STRAGGLER: Rule = Rule {
    name: "straggler",
    needed_tables: &[&stored::COLLECTIVES],
    title: "Straggling rank",
    doc: "Fires for a rank in a process group if its share of all delays of the group is at least `min_ratio` times its share by chance (1 / the ranks that took part), and the delays cost at least `min_percent` of the step time. A delay is the time from when the second-last rank began a collective to when this rank did, as in the view `stragglers`; only collectives that the rank began within its steps count. Impact: the sum of its delays, per step. Gain: all of it, the wait of the others if only this rank were on time. Needs numbered collectives of at least two ranks that were imported together. Severity: high above `high_percent` of the step time, medium from `medium_percent`.",
    thresholds: &[
        RuleThreshold {
            name: "min_ratio",
            default: 1.5,
            unit: "",
            doc: "Its share of all delays of the group, as a multiple of its share by chance.",
        },
        min_percent(2.0),
        MEDIUM_FROM_PERCENT,
        HIGH_PERCENT,
    ],
    sql: include_str!("../../rules/straggler.sql"),
    description: "In group {process_group}, {subject} alone was last to begin {last_count} of {count} collectives ({last_percent}). The others waited {delay_nanos} for it, {impact_nanos} {per}; that is {delay_percent} of all delays of the group.",
    hint: "Compare what this rank does before its collectives with the other ranks: more or longer inputs, a slower or throttled device, logging or checkpoints on one rank. Balance the work, for example with batches of equal length.",
};

/// A rank for which the others wait, as far as spans on the host show it.
pub(super) const LATE_RANK: Rule = Rule {
    name: "late_rank",
    needed_tables: &[&stored::SPANS],
    title: "Late rank",
    doc: "Fires for a rank that arrives late at spans which end together on all ranks (view `rank_arrivals`), in runs without numbered collectives; where these exist, the rule `straggler` gives the better answer. A rank arrives when it enters the span or leaves the last span inside it. Three conditions must hold: ranks waited for each other at least `min_count` times; this rank was last, alone, more often than by chance (count / ranks) by at least `min_deviations` standard deviations of the binomial distribution; and its delays cost at least `min_percent` of the step time. A delay is the time from the second-last arrival to its own. Impact: the sum of its delays, per step. Gain: all of it, the wait of the others if only this rank were on time. Confidence is likely if the rank has at least `likely_percent` of the last arrivals and of all delays, otherwise possible. The cause named is the span name whose exclusive time exceeds the mean of the other ranks by most, waits left out. Work inside the shared span without a span of its own is not seen, since all ranks are in that span equally long. Severity: high above `high_percent` of the step time, medium from `medium_percent`.",
    thresholds: &[
        RuleThreshold {
            name: "min_count",
            default: 5.0,
            unit: "",
            doc: "Number of times that ranks must have waited for each other.",
        },
        RuleThreshold {
            name: "min_deviations",
            default: 3.0,
            unit: "",
            doc: "Standard deviations by which its last arrivals must exceed chance.",
        },
        RuleThreshold {
            name: "likely_percent",
            default: 80.0,
            unit: "%",
            doc: "Share of the last arrivals, and of the delays, from which confidence is likely.",
        },
        min_percent(2.0),
        MEDIUM_FROM_PERCENT,
        HIGH_PERCENT,
    ],
    sql: include_str!("../../rules/late_rank.sql"),
    description: "Ranks waited for each other {count} times, mostly in {path}; {subject} alone was last to arrive {last_count} times ({last_percent}; {chance_count} expected by chance). The others waited {delay_nanos} for it, {impact_nanos} {per}. It spent {longer_nanos} {per} more in {longer_name} than they did.",
    hint: "Check what this rank does before it arrives: data loading, logging, checkpoints, longer inputs. A scope around that code gives it a name. For certainty, import the torch.profiler traces or flight recorder dumps of all ranks together: they record the collectives themselves.",
};

/// Allocated memory that grows from step to step.
pub(crate) const MEMORY_LEAK: Rule = Rule {
    name: "memory_leak",
    needed_tables: &[&stored::MEMORY_EVENTS],
    title: "Memory growth",
    doc: "Fires for a memory of a process if the bytes allocated at the end of each step (`step_memory`), without the first `warmup_steps`, grow by more than `min_slope_bytes` per step (Theil-Sen estimator: the median of the slopes between all pairs of steps; beyond 400 steps, between 400 means), if a straight line fits them (r2 of at least `min_r2`), over at least `min_steps` steps and by at least `min_growth_bytes` in total. In a process of which a training profiler recorded some epochs alone, the epochs take the place of the steps. Impact: 0, since growth costs no time; no gain; always high, since it ends in running out of memory. Not available for a process without steps, or whose allocator does not report its total.",
    thresholds: &[
        RuleThreshold {
            name: "warmup_steps",
            default: 2.0,
            unit: "steps",
            doc: "Number of steps at the start of the recording that are ignored.",
        },
        RuleThreshold {
            name: "min_steps",
            default: 10.0,
            unit: "steps",
            doc: "Number of steps required after the ignored ones.",
        },
        RuleThreshold {
            name: "min_slope_bytes",
            default: 10_000_000.0,
            unit: "B",
            doc: "Growth per step above which the rule fires.",
        },
        RuleThreshold {
            name: "min_r2",
            default: 0.5,
            unit: "",
            doc: "Lowest r2 of a straight line through the steps.",
        },
        RuleThreshold {
            name: "min_growth_bytes",
            default: 100_000_000.0,
            unit: "B",
            doc: "Lowest growth from the first of these steps to the last.",
        },
    ],
    sql: include_str!("../../rules/memory_leak.sql"),
    description: "Memory allocated on {subject} grew by {slope_bytes} per {unit} over {step_count} {unit}s, by {growth_bytes} in total, to {last_bytes}.",
    hint: "Look for tensors that outlive their step, such as losses collected in a list together with their graph: append loss.item() or loss.detach() instead. A memory snapshot (torch.cuda.memory._record_memory_history) shows where the remaining memory was allocated.",
};
