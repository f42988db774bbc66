//! Tests of the findings that are made from the rows of rules, and of their overlaps.

use super::sample_run;
use crate::ask::{Cell, Questions, Rows};
use crate::finding::{Confidence, Finding, FindingQuestions, Severity, findings};
use crate::rule::Thresholds;
use crate::rules;

/// The row of a rule: subject, severity, confidence, impact in ns and in per cent, gain, process.
type Row = (&'static str, &'static str, &'static str, f64, f64, Option<f64>, i64);

fn rows(rows: &[Row]) -> Rows {
    const COLUMNS: [&str; 9] = [
        "subject",
        "severity",
        "confidence",
        "impact_nanos",
        "impact_percent",
        "gain_nanos",
        "process_id",
        "rank",
        "device",
    ];
    let text = |text: &str| Cell::Text(text.to_owned());
    let row = |&(subject, severity, confidence, impact, percent, gain, process): &Row| {
        vec![
            text(subject),
            text(severity),
            text(confidence),
            Cell::Real(impact),
            Cell::Real(percent),
            gain.map_or(Cell::Null, Cell::Real),
            Cell::Int(process),
            Cell::Int(process + 1),
            Cell::Int(0),
        ]
    };
    let columns = COLUMNS.map(str::to_owned).to_vec();
    Rows { columns, rows: rows.iter().map(row).collect(), was_cut: false }
}

/// Returns the findings in the rows of rules. Process 7 has steps.
fn findings_in(answers: &[(&str, &[Row])]) -> Vec<Finding> {
    let answer = |name: &str| {
        let found = answers.iter().find(|(rule, _)| *rule == name);
        found.map_or_else(Rows::default, |(_, found)| rows(found))
    };
    let with_steps =
        Rows { columns: vec!["process_id".into()], rows: vec![vec![Cell::Int(7)]], was_cut: false };
    let mut rows: Vec<Rows> = rules::ALL.iter().map(|rule| answer(rule.name)).collect();
    rows.push(with_steps);
    FindingQuestions::new(&Thresholds::default()).findings(&rows)
}

#[test]
fn a_finding_has_what_the_row_of_its_rule_says() {
    let found = findings_in(&[(
        "hot_operation",
        &[
            ("mm", "high", "measured", 5e6, 50.0, Some(5e6), 7),
            ("add", "medium", "likely", 2e6, 20.0, None, 8),
            ("mul", "low", "possible", 1e6, 10.0, Some(0.0), 8),
        ],
    )]);
    let subjects: Vec<&str> = found.iter().map(|finding| &*finding.subject).collect();
    assert_eq!(subjects, ["mm", "add", "mul"]);
    let severities: Vec<Severity> = found.iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [Severity::High, Severity::Medium, Severity::Low]);
    let confidences: Vec<Confidence> = found.iter().map(|finding| finding.confidence).collect();
    assert_eq!(confidences, [Confidence::Measured, Confidence::Likely, Confidence::Possible]);
    // A step takes 10 ms, of which half is gained.
    let speedups: Vec<Option<f64>> = found.iter().map(|finding| finding.speedup).collect();
    assert_eq!(speedups, [Some(2.0), None, Some(1.0)]);
    let mm = &found[0];
    assert_eq!((mm.impact_nanos, mm.impact_percent, mm.gain_nanos), (5e6, Some(50.0), Some(5e6)));
    assert_eq!((mm.process_id, mm.rank, mm.is_per_step), (Some(7), Some(8), true));
    assert_eq!(mm.evidence.row[0], Cell::Text("mm".to_owned()));
    assert!(!found[1].is_per_step);
}

#[test]
fn the_most_severe_findings_are_first_and_of_these_those_with_the_largest_impact() {
    let row = |subject, severity, impact| (subject, severity, "measured", impact, 1.0, None, 7);
    let found = findings_in(&[
        ("gpu_idle", &[row("d", "low", 9.0), row("b", "high", 3.0)]),
        ("hot_operation", &[row("a", "high", 5.0), row("c", "medium", 8.0)]),
    ]);
    let subjects: Vec<&str> = found.iter().map(|finding| &*finding.subject).collect();
    assert_eq!(subjects, ["a", "b", "c", "d"]);
}

#[test]
fn overlaps_refer_to_findings_in_their_order() {
    let row = |subject, severity, impact| (subject, severity, "measured", impact, 1.0, None, 7);
    let found = findings_in(&[
        ("gpu_idle", &[row("host wait: operators", "low", 9.0)]),
        ("launch_bound", &[row("host", "high", 4.0)]),
    ]);
    assert_eq!(found[0].rule, "launch_bound");
    let overlap = &found[0].overlaps[0];
    assert_eq!((overlap.finding, overlap.rule, overlap.nanos), (1, "gpu_idle", 4.0));
    assert_eq!(found[1].overlaps[0].finding, 0);
}

#[test]
fn the_questions_of_findings_have_the_names_of_their_rules() {
    let names: Vec<&str> = FindingQuestions::names().collect();
    assert_eq!(names.len(), FindingQuestions::new(&Thresholds::default()).questions.len());
    assert_eq!((names[0], *names.last().unwrap()), (rules::ALL[0].name, "steps of findings"));
}

#[test]
fn the_findings_of_a_run_are_those_of_its_rules() {
    let database = sample_run::with_steps(3);
    let found = findings(&Questions::new(&database), &Thresholds::default()).unwrap();
    assert!(found.iter().any(|finding| finding.rule == "gpu_idle"), "{found:?}");
}
