//! Finds overlaps between findings: pairs that may count the same time, so that their gains do not
//! add up.
//!
//! A table lists which rules measure the same kind of time. Two findings of such rules overlap if
//! they are of the same process, of the same device if both have one, and of the same kernel if
//! both are about a single kernel.

use serde::Serialize;

use crate::ask::Cell;
use crate::finding::{Evidence, Finding};

/// Another finding that may count the same time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overlap {
    /// Index of the other finding in the list of findings.
    pub finding: usize,
    /// The rule of the other finding.
    pub rule: &'static str,
    /// The subject of the other finding.
    pub subject: String,
    /// The most time that both may count: the smaller of the two impacts.
    pub nanos: f64,
}

/// The kind of time that a finding counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountedTime<'a> {
    /// A device is idle because the host was busy with this activity and launched nothing.
    IdleForHost(&'a str),
    /// A device is idle although the next kernel had been launched.
    IdleForKernels,
    /// The host launches as fast as it can.
    Launching,
    /// The host waits for data in the span of this name.
    Loading(&'a str),
    /// The host waits for a device.
    Synchronising,
    /// A host operation of this kind, with the path of most of its calls.
    Operation { kind: &'a str, path: &'a str },
    /// The kernel of this name.
    Kernel(&'a str),
    /// Kernels of several names.
    Kernels,
    /// Kernels of several names, and the idle time before them.
    SmallKernels,
    /// Communication on a device.
    Communication,
    /// Ranks wait for a late one.
    LateRank,
    /// Time that no other rule counts.
    Exclusive,
}

impl<'a> CountedTime<'a> {
    fn from_finding(finding: &'a Finding) -> Self {
        let subject = finding.subject.as_str();
        match finding.rule {
            "gpu_idle" if subject == "kernel wait" => Self::IdleForKernels,
            "gpu_idle" => match subject.strip_prefix("host wait: ") {
                Some(activity) => Self::IdleForHost(activity),
                None => Self::Exclusive,
            },
            "launch_bound" => Self::Launching,
            "dataloader_stall" => Self::Loading(subject),
            "cpu_gpu_sync" => Self::Synchronising,
            "hot_operation" if device(finding).is_none() => {
                let text = |column| evidence_cell(finding, column).map_or("", Cell::text);
                Self::Operation { kind: text("kind"), path: text("path") }
            }
            "hot_operation" | "low_occupancy" => Self::Kernel(subject),
            "tensor_cores_missed" | "memory_bound" => Self::Kernels,
            "small_kernels" => Self::SmallKernels,
            "exposed_communication" => Self::Communication,
            "straggler" | "late_rank" => Self::LateRank,
            _ => Self::Exclusive,
        }
    }

    /// Whether `other` may count the same time. The result is not symmetric, so callers check both
    /// directions.
    fn may_share(self, other: Self) -> bool {
        match self {
            Self::IdleForHost(activity) => match other {
                Self::Launching => activity == "operators",
                Self::Loading(_) => activity == "data loading",
                Self::Synchronising => matches!(activity, "synchronisation" | "copying"),
                Self::Operation { kind, .. } => match activity {
                    "data loading" => true,
                    "outside operators" => !is_call(kind),
                    _ => is_call(kind),
                },
                _ => false,
            },
            Self::Launching => matches!(other, Self::Operation { kind, .. } if is_call(kind)),
            Self::Loading(span) => {
                matches!(other, Self::Operation { path, .. } if path.contains(span))
            }
            Self::Synchronising | Self::LateRank => matches!(other, Self::Operation { .. }),
            Self::IdleForKernels => other == Self::SmallKernels,
            Self::Kernel(_) => other == self || matches!(other, Self::Kernels | Self::SmallKernels),
            Self::Kernels => matches!(other, Self::Kernels | Self::SmallKernels),
            Self::Communication => other == Self::LateRank,
            Self::Operation { .. } | Self::SmallKernels | Self::Exclusive => false,
        }
    }
}

/// Whether operations of this kind are operators or calls of the CUDA or HIP runtime.
fn is_call(kind: &str) -> bool {
    matches!(kind, "operator" | "runtime")
}

/// Fills in the overlaps of each finding.
pub(crate) fn fill_in_overlaps(findings: &mut [Finding]) {
    let overlaps: Vec<Vec<Overlap>> =
        findings.iter().map(|finding| find_overlaps(finding, findings)).collect();
    for (finding, overlaps) in findings.iter_mut().zip(overlaps) {
        finding.overlaps = overlaps;
    }
}

fn find_overlaps(finding: &Finding, findings: &[Finding]) -> Vec<Overlap> {
    let overlapping_findings =
        findings.iter().enumerate().filter(|(_, other)| do_overlap(finding, other));
    let overlap_with = |(index, other): (usize, &Finding)| Overlap {
        finding: index,
        rule: other.rule,
        subject: other.subject.clone(),
        nanos: finding.impact_nanos.min(other.impact_nanos),
    };
    overlapping_findings.map(overlap_with).filter(|overlap| overlap.nanos > 0.0).collect()
}

fn do_overlap(finding: &Finding, other: &Finding) -> bool {
    let (counted_time, other_time) =
        (CountedTime::from_finding(finding), CountedTime::from_finding(other));
    finding.rule != other.rule
        && finding.process_id == other.process_id
        && device(finding).zip(device(other)).is_none_or(|(device, other)| device == other)
        && (counted_time.may_share(other_time) || other_time.may_share(counted_time))
}

/// The device of a finding, if it has one.
fn device(finding: &Finding) -> Option<i64> {
    evidence_cell(finding, "device").and_then(Cell::integer)
}

/// The value of a column in the row of a finding.
fn evidence_cell<'a>(finding: &'a Finding, name: &str) -> Option<&'a Cell> {
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
            columns: ["kind", "device", "path"].map(str::to_owned).to_vec(),
            row: vec![Cell::Text("operator".to_owned()), device, Cell::Text(subject.to_owned())],
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

    /// The index pairs of overlapping findings, the smaller index first, with the shared time.
    fn pairs(mut findings: Vec<Finding>) -> Vec<(usize, usize, f64)> {
        fill_in_overlaps(&mut findings);
        let mut pairs = Vec::new();
        for (index, finding) in findings.iter().enumerate() {
            for other in &finding.overlaps {
                let is_mutual =
                    findings[other.finding].overlaps.iter().any(|back| back.finding == index);
                assert!(is_mutual && other.rule == findings[other.finding].rule);
                if index < other.finding {
                    pairs.push((index, other.finding, other.nanos));
                }
            }
        }
        pairs
    }

    #[test]
    fn findings_that_count_the_same_time_overlap() {
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
    fn idle_time_overlaps_with_what_the_host_did() {
        let idle = |activity: &str| {
            finding("gpu_idle", &format!("host wait: {activity}"), Cell::Int(0), 9.0)
        };
        let is_shared = |activity, other: &Finding| {
            pairs(vec![idle(activity), other.clone()]) == [(0, 1, other.impact_nanos)]
        };
        let [loading, waiting, launching] = ["dataloader_stall", "cpu_gpu_sync", "launch_bound"]
            .map(|rule| finding(rule, "host", Cell::Null, 4.0));
        let call = finding("hot_operation", "aten::mm", Cell::Null, 4.0);
        let mut module = call.clone();
        module.evidence.row[0] = Cell::Text("module".to_owned());
        for (activity, expected) in [
            ("data loading", [true, false, false, true, true]),
            ("synchronisation", [false, true, false, true, false]),
            ("copying", [false, true, false, true, false]),
            ("operators", [false, false, true, true, false]),
            ("outside operators", [false, false, false, false, true]),
        ] {
            let others = [&loading, &waiting, &launching, &call, &module];
            assert_eq!(others.map(|other| is_shared(activity, other)), expected, "{activity}");
        }
        assert_eq!(pairs(vec![launching, module]), []);
        let late = finding("late_rank", "rank 1", Cell::Null, 4.0);
        let communication = finding("exposed_communication", "device 0", Cell::Int(0), 3.0);
        assert_eq!(pairs(vec![late, communication]), [(0, 1, 3.0)]);
        let no_time = finding("small_kernels", "k", Cell::Int(0), 0.0);
        assert_eq!(pairs(vec![finding("gpu_idle", "kernel wait", Cell::Int(0), 3.0), no_time]), []);
    }

    #[test]
    fn a_wait_for_data_overlaps_with_operations_inside_it_alone() {
        let load = finding("dataloader_stall", "next(loader)", Cell::Null, 5.0);
        let beside = finding("hot_operation", "aten::mm", Cell::Null, 4.0);
        let mut inside = finding("hot_operation", "aten::stack", Cell::Null, 3.0);
        inside.evidence.row[2] = Cell::Text("step/next(loader)/aten::stack".to_owned());
        assert_eq!(pairs(vec![load, beside, inside]), [(0, 2, 3.0)]);
    }

    #[test]
    fn findings_of_different_kernels_or_processes_do_not_overlap() {
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

    /// A new rule fails here until `CountedTime` lists it or it is added to the exclusive ones.
    #[test]
    fn every_rule_has_a_kind_of_time_or_is_listed_as_exclusive() {
        let exclusive = ["host_device_copies", "slow_steps", "memory_leak"];
        for rule in crate::rules::ALL {
            let subject = if rule.name == "gpu_idle" { "host wait: operators" } else { "x" };
            let finding = finding(rule.name, subject, Cell::Null, 1.0);
            let is_exclusive = CountedTime::from_finding(&finding) == CountedTime::Exclusive;
            assert_eq!(is_exclusive, exclusive.contains(&rule.name), "{}", rule.name);
        }
    }
}
