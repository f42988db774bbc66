//! Import and export of collapsed stacks.

use marey_formats::{Format, ImportError, LeftOut};
use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_store::row::Sample;
use marey_store::{Assembler, NewProcess, Run};
use proptest::prelude::*;

use crate::build::build_run;
use crate::dump::{dump, export_bytes, import_bytes, import_data};
use crate::faults::warnings;

/// Returns a run as text.
fn export_text(run: &Run) -> (String, LeftOut) {
    let (bytes, left_out) = export_bytes(run, Format::Collapsed);
    (String::from_utf8(bytes).unwrap(), left_out)
}

#[test]
fn golden_files_have_the_expected_content() {
    for (name, golden) in [
        ("perf.txt", include_str!("../data/collapsed/perf.dump.txt")),
        ("windows.txt", include_str!("../data/collapsed/windows.dump.txt")),
    ] {
        let imported = import_data(&format!("collapsed/{name}"));
        let dumped = dump(&imported.run);
        assert_eq!(dumped, golden, "{name} reads as:\n{dumped}");
        assert!(imported.imported.files[0].warnings.is_empty());
    }
}

#[test]
fn stacks_are_exported_with_their_sums() {
    let (text, left_out) = export_text(&import_data("collapsed/perf.txt").run);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let expected = [
        " [unknown];0x7f00;a  b 0",
        "a 1",
        "python;main (train.py:10) 2.5",
        "python;main (train.py:10);forward 42",
        "python;main (train.py:10);forward; 3",
        "swapper;größe [k] 9223372036854776000",
        "x -4",
    ];
    assert_eq!((lines.as_slice(), left_out), (&expected[..], LeftOut::new()));
}

/// Returns a run of samples with these stacks and weights.
fn build_samples(stacks: &[(Vec<&str>, MetricValue)]) -> (tempfile::TempDir, Run) {
    build_run(|run| {
        let process_id = run.add_process(NewProcess::default());
        let name_id = run.text_id("samples");
        for (frames, value) in stacks {
            let context_id = frames.iter().fold(Assembler::ROOT, |context, frame| {
                let name_id = run.text_id(frame);
                run.context_id(context, NodeKind::Frame, name_id)
            });
            run.add_sample(&Sample::new(process_id, context_id, name_id, value.clone())).unwrap();
        }
    })
}

#[test]
fn separators_in_names_are_replaced_and_counted() {
    let (_folder, run) = build_samples(&[
        (vec!["#a", "b;c\r\n", "#d"], MetricValue::Int(1)),
        (vec![], MetricValue::Int(2)),
        (vec!["e"], MetricValue::Float(f64::NAN)),
        (vec!["f"], MetricValue::Float(0.1)),
        (vec!["f"], MetricValue::Int(1)),
        (vec!["g"], MetricValue::Int(i64::MAX)),
        (vec!["g"], MetricValue::Int(1)),
    ]);
    let (text, left_out) = export_text(&run);
    assert_eq!(text, ":a;b:c  ;#d 1\nf 1.1\ng 9223372036854776000\n");
    let expected = [
        ("separators in names", 2),
        ("values that are not numbers", 1),
        ("values without a stack", 1),
    ];
    assert_eq!(left_out, LeftOut::from(expected));
}

#[test]
fn malformed_lines_are_counted() {
    let content = b"a;b 1\nno number here\na;b inf\n7\n\xff 1\na 1e\na 1e400\na 2e3\nlast;line 5";
    let run = import_bytes(content).unwrap();
    assert_eq!(run.imported.events, 3);
    let expected = ["unreadable_events 6 byte 6: the line does not end with a number"];
    assert_eq!(warnings(&run), expected);

    let deep = format!("{} 1\na 1\n", "a;".repeat(10_000));
    let expected = ["unsupported_events 1 byte 0: the stack has more than 10000 frames"];
    assert_eq!(warnings(&import_bytes(deep.as_bytes()).unwrap()), expected);
}

#[test]
fn an_endless_line_is_refused() {
    let content = [&b"a 1\n"[..], &vec![b'x'; (16 << 20) + 1]].concat();
    let run = import_bytes(&content).unwrap();
    assert_eq!(run.imported.events, 1);
    let expected = ["truncated_files 1 byte 4: the line has more than 16777216 bytes"];
    assert_eq!(warnings(&run), expected);
}

#[test]
fn an_empty_stack_may_be_the_first() {
    let run = import_bytes(b" 5\na;b 1\n").unwrap();
    assert_eq!((run.imported.files[0].format, run.imported.events), (Format::Collapsed, 2));
}

#[test]
fn every_truncation_is_read() {
    let whole = "# c\na;größe 12\r\nb  c 2.5\n\nd\t3".as_bytes();
    for end in 0..whole.len() {
        match import_bytes(&whole[..end]) {
            Ok(run) => assert!(run.imported.events <= 3),
            Err(error) => assert!(matches!(error, ImportError::Unknown { .. }), "{end}: {error}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_stacks_survive_a_round_trip(
        // Without control characters, since content with them is not recognised as text, and
        // without a byte order mark.
        stacks in prop::collection::btree_map(
            prop::collection::vec(r"[^\pC;#][^\pC;]{0,9}", 1..5),
            prop_oneof![
                any::<i64>().prop_map(MetricValue::Int),
                (-1e15..1e15).prop_map(|n: f64| MetricValue::Float(n.round() + 0.5)),
            ],
            1..8,
        ),
        deep in 1_usize..3000,
    ) {
        let mut lines: Vec<String> = Vec::new();
        let mut all: Vec<(Vec<&str>, MetricValue)> = stacks
            .iter()
            .map(|(stack, value)| (stack.iter().map(String::as_str).collect(), value.clone()))
            .collect();
        all.push((vec!["deep"; deep], MetricValue::Int(1)));
        for (stack, value) in &all {
            let value = match value {
                MetricValue::Int(value) => value.to_string(),
                MetricValue::Float(value) => value.to_string(),
                _ => unreachable!(),
            };
            lines.push(format!("{} {value}", stack.join(";")));
        }
        lines.sort();
        let (_folder, run) = build_samples(&all);
        let (text, left_out) = export_text(&run);
        prop_assert_eq!(left_out, LeftOut::new());
        let mut written: Vec<&str> = text.lines().collect();
        written.sort_unstable();
        prop_assert_eq!(&written, &lines);
        // The first line decides the format.
        let again = import_bytes(format!("first 1\n{text}").as_bytes()).unwrap();
        prop_assert!(again.imported.files[0].warnings.is_empty());
        let (again, _) = export_text(&again.run);
        let mut again: Vec<&str> = again.lines().filter(|line| *line != "first 1").collect();
        again.sort_unstable();
        prop_assert_eq!(again, lines);
    }
}
