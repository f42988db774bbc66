//! Findings that may count the same time, so that their gains do not add up.
//!
//! A table says which rules look at the same kind of time; two findings of these overlap if they are of
//! one process, one device as far as both name one, and one kernel if they are about single kernels.

use serde::Serialize;

use crate::ask::Cell;
use crate::finding::{Evidence, Finding};

/// Another finding that may count the same time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overlap {
    /// Position of the other finding in the list of all.
    pub finding: usize,
    /// Its rule.
    pub rule: &'static str,
    /// Its subject.
    pub subject: String,
    /// How much of the time may be counted in both, at most: the smaller of the two impacts.
    pub nanos: f64,
}

/// The time that a finding counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time<'a> {
    /// A device is idle because the host launched nothing while it was doing this.
    IdleForHost(&'a str),
    /// A device is idle although something was launched.
    IdleForKernels,
    /// The host launches as fast as it can.
    Launching,
    /// The host waits for data.
    Loading,
    /// The host waits for a device.
    Synchronising,
    /// An operation of the host, of this kind.
    Operation(&'a str),
    /// A kernel of this name.
    Kernel(&'a str),
    /// Kernels of several names.
    Kernels,
    /// Kernels of several names, and the idle time before them.
    SmallKernels,
    /// Communication on a device.
    Communication,
    /// Ranks wait for a late one.
    LateRank,
    /// Nothing that another rule counts, too.
    Alone,
}

impl<'a> Time<'a> {
    fn of(finding: &'a Finding) -> Self {
        let subject = finding.subject.as_str();
        match finding.rule {
            "gpu_idle" if subject == "kernel wait" => Self::IdleForKernels,
            "gpu_idle" => match subject.strip_prefix("host wait: ") {
                Some(activity) => Self::IdleForHost(activity),
                None => Self::Alone,
            },
            "launch_bound" => Self::Launching,
            "dataloader_stall" => Self::Loading,
            "cpu_gpu_sync" => Self::Synchronising,
            "hot_operation" if device(finding).is_none() => {
                Self::Operation(evidence(finding, "kind").map_or("", Cell::text))
            }
            "hot_operation" | "low_occupancy" => Self::Kernel(subject),
            "tensor_cores_missed" | "memory_bound" => Self::Kernels,
            "small_kernels" => Self::SmallKernels,
            "exposed_communication" => Self::Communication,
            "straggler" | "late_rank" => Self::LateRank,
            _ => Self::Alone,
        }
    }

    /// Whether it may be counted by the other one, too; the other way around is asked by itself.
    fn may_share(self, other: Self) -> bool {
        match self {
            Self::IdleForHost(activity) => match other {
                Self::Launching => activity == "operators",
                Self::Loading => activity == "data loading",
                Self::Synchronising => matches!(activity, "synchronisation" | "copying"),
                Self::Operation(kind) => match activity {
                    "data loading" => true,
                    "outside operators" => !is_call(kind),
                    _ => is_call(kind),
                },
                _ => false,
            },
            Self::Launching => matches!(other, Self::Operation(kind) if is_call(kind)),
            Self::Loading | Self::Synchronising | Self::LateRank => {
                matches!(other, Self::Operation(_))
            }
            Self::IdleForKernels => other == Self::SmallKernels,
            Self::Kernel(_) => other == self || matches!(other, Self::Kernels | Self::SmallKernels),
            Self::Kernels => matches!(other, Self::Kernels | Self::SmallKernels),
            Self::Communication => other == Self::LateRank,
            Self::Operation(_) | Self::SmallKernels | Self::Alone => false,
        }
    }
}

/// Whether operations of a kind are operators or calls of the runtime.
fn is_call(kind: &str) -> bool {
    matches!(kind, "operator" | "runtime")
}

/// Notes at each finding which others may count the same time.
pub(crate) fn note(findings: &mut [Finding]) {
    let overlaps: Vec<Vec<Overlap>> = findings.iter().map(|one| of(one, findings)).collect();
    for (finding, overlaps) in findings.iter_mut().zip(overlaps) {
        finding.overlaps = overlaps;
    }
}

fn of(one: &Finding, all: &[Finding]) -> Vec<Overlap> {
    let overlapping = all.iter().enumerate().filter(|(_, other)| overlap(one, other));
    let noted = |(at, other): (usize, &Finding)| Overlap {
        finding: at,
        rule: other.rule,
        subject: other.subject.clone(),
        nanos: one.impact_nanos.min(other.impact_nanos),
    };
    overlapping.map(noted).filter(|overlap| overlap.nanos > 0.0).collect()
}

fn overlap(one: &Finding, other: &Finding) -> bool {
    let (time, other_time) = (Time::of(one), Time::of(other));
    one.rule != other.rule
        && one.process_id == other.process_id
        && device(one).zip(device(other)).is_none_or(|(one, other)| one == other)
        && (time.may_share(other_time) || other_time.may_share(time))
}

/// The device that a finding is about, if it is about one.
fn device(finding: &Finding) -> Option<i64> {
    evidence(finding, "device").and_then(Cell::whole)
}

/// The value of a column of the row that a finding rests on.
fn evidence<'a>(finding: &'a Finding, name: &str) -> Option<&'a Cell> {
    let Evidence { columns, row, .. } = &finding.evidence;
    row.get(columns.iter().position(|column| column == name)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Confidence, Severity};

    fn finding(rule: &'static str, subject: &str, device: Cell, impact_nanos: f64) -> Finding {
        let evidence = Evidence {
            sql: String::new(),
            columns: vec!["kind".to_owned(), "device".to_owned()],
            row: vec![Cell::Text("operator".to_owned()), device],
        };
        Finding {
            rule,
            title: "",
            subject: subject.to_owned(),
            severity: Severity::High,
            impact_nanos,
            is_per_step: true,
            impact_percent: None,
            gain_nanos: None,
            speedup: None,
            confidence: Confidence::Measured,
            rank: None,
            process_id: Some(0),
            description: String::new(),
            hint: "",
            overlaps: Vec::new(),
            evidence,
        }
    }

    /// The pairs of positions that overlap, the smaller first, with how much.
    fn pairs(mut findings: Vec<Finding>) -> Vec<(usize, usize, f64)> {
        note(&mut findings);
        let mut pairs = Vec::new();
        for (at, finding) in findings.iter().enumerate() {
            for other in &finding.overlaps {
                let is_mutual = findings[other.finding].overlaps.iter().any(|o| o.finding == at);
                assert!(is_mutual && other.rule == findings[other.finding].rule);
                if at < other.finding {
                    pairs.push((at, other.finding, other.nanos));
                }
            }
        }
        pairs
    }

    #[test]
    fn what_counts_the_same_time_says_so() {
        let idle = |cause, nanos| finding("gpu_idle", cause, Cell::Int(0), nanos);
        let found = vec![
            idle("host wait: operators", 119.0),
            finding("launch_bound", "host", Cell::Int(0), 100.0),
            finding("launch_bound", "host", Cell::Int(1), 100.0),
            idle("kernel wait", 5.0),
            idle("host wait: data loading", 30.0),
            idle("host wait: outside operators", 40.0),
            finding("small_kernels", "k", Cell::Int(0), 9.0),
            finding("hot_operation", "aten::mm", Cell::Null, 50.0),
            finding("memory_leak", "cuda", Cell::Null, 0.0),
        ];
        let expected =
            [(0, 1, 100.0), (0, 7, 50.0), (1, 7, 50.0), (2, 7, 50.0), (3, 6, 5.0), (4, 7, 30.0)];
        assert_eq!(pairs(found), expected);
    }

    #[test]
    fn other_kernels_and_processes_do_not_overlap() {
        let hot = |name| finding("hot_operation", name, Cell::Int(0), 10.0);
        let found = vec![
            hot("gemm"),
            finding("low_occupancy", "gemm", Cell::Int(0), 8.0),
            finding("low_occupancy", "softmax", Cell::Int(0), 7.0),
            Finding { process_id: Some(1), ..finding("low_occupancy", "gemm", Cell::Int(0), 6.0) },
            hot("softmax"),
        ];
        assert_eq!(pairs(found), [(0, 1, 8.0), (2, 4, 7.0)]);
    }

    /// A rule that is new has its time said here, or is known to stand alone.
    #[test]
    fn the_time_of_every_rule_is_said() {
        let alone = ["host_device_copies", "slow_steps", "memory_leak"];
        for rule in crate::rules::ALL {
            let subject = if rule.name == "gpu_idle" { "host wait: operators" } else { "x" };
            let finding = finding(rule.name, subject, Cell::Null, 1.0);
            let is_alone = Time::of(&finding) == Time::Alone;
            assert_eq!(is_alone, alone.contains(&rule.name), "{}", rule.name);
        }
    }
}
