//! Damaged and hostile files.

use marey_formats::ImportError;

use marey_store::row::Span;

use super::{args_of, import_events, lines};
use crate::dump::{import_bytes, reader};
use crate::faults::warnings;

const EVENT: &str = r#"{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1}"#;

/// Returns the error of a file, or its warnings.
fn problems(content: &str) -> Vec<String> {
    match import_bytes(content.as_bytes()) {
        Err(ImportError::Unusable { fault, .. }) => vec![fault.to_string()],
        Err(error) => panic!("{content}: {error}"),
        Ok(run) => warnings(&run),
    }
}

#[test]
fn errors_report_position_and_cause() {
    let cases = [
        ("{".to_owned(), "byte 1: the file ends early"),
        ("{\"a\":1".to_owned(), "byte 6: the file ends early"),
        ("{\"traceEvents\":[".to_owned(), "byte 16: the file ends early"),
        ("{\"traceEvents\":[]} x".to_owned(), "byte 19: more after the end of the trace"),
        ("{\"traceEvents\" []}".to_owned(), "byte 15: `:` was expected after a key"),
        ("{traceEvents:[]}".to_owned(), "byte 1: a text was expected"),
        ("[{\"ph\":\"X\"".to_owned(), "byte 10: the file ends early"),
        ("[{\"ph\"}]".to_owned(), "byte 6: `:` was expected after a key"),
        ("[1,".to_owned() + EVENT, "unreadable_events 1 byte 1: an object was expected"),
        (
            format!("[{EVENT},{{\"ph\":\"X\",\"name\":\"un\"escaped\"}},\n{EVENT}]"),
            "unreadable_events 1 byte 75: `,` or `}` was expected after a member",
        ),
        (
            format!("[{EVENT},{{\"ph\":\"X\",\"args\":{{\"a\":[{{}},{{}}]]}}}},{EVENT}]"),
            "unreadable_events 1 byte 83: `,` or `}` was expected after a member",
        ),
        (format!("[{EVENT},{{\"ph\":\"X\",}}]"), "truncated_files 1 byte 64: a text was expected"),
        (
            format!("{{\"traceEvents\":[{EVENT},{{\"ph\":"),
            "truncated_files 1 byte 75: the file ends early",
        ),
        (format!("{{\"traceEvents\":[{EVENT}"), "truncated_files 1 byte 68: the file ends early"),
        (
            format!("[{EVENT},{{\"ph\":\"X\",\"args\":{}}}]", "[".repeat(200)),
            "truncated_files 1 byte 199: values are nested more than 128 deep",
        ),
        (
            format!("[{}]", EVENT.replace("\"ts\":1", "\"ts\":1e300")),
            "byte 1: an event without a time",
        ),
    ];
    for (content, expected) in cases {
        assert_eq!(problems(&content), [expected], "{content}");
    }
}

/// Files are read in chunks: events of all lengths span their boundaries, and positions are counted
/// across them.
#[test]
fn positions_are_correct_in_long_files() {
    let event = |n: usize| {
        let name = "x".repeat(7 * n % 40_000);
        format!(r#"{{"ph":"X","name":"{name}","pid":1,"tid":1,"ts":{n},"dur":1}}"#)
    };
    let untimed = r#"{"ph":"X","name":"untimed"}"#;
    let broken = r#"{"ph":"X","name":"bro"ken"}"#;
    for events in [100, 1000, 3000] {
        let good = (0..events).map(event).collect::<Vec<_>>().join(",\n");
        let content = format!("[{good},{untimed},{good},{broken},{EVENT},{{\"ph\":");
        let truncated = |content: &str| {
            format!("truncated_files 1 byte {}: the file ends early", content.len())
        };
        let unreadable =
            |count, position, cause| format!("unreadable_events {count} byte {position}: {cause}");
        let position = content.find(untimed).unwrap();
        let expected = [unreadable(2, position, "an event without a time"), truncated(&content)];
        assert_eq!(problems(&content), expected);
        let content = content.replace(untimed, EVENT);
        let position = content.find(broken).unwrap() + r#"{"ph":"X","name":"bro"#.len() + 1;
        let cause = "`,` or `}` was expected after a member";
        assert_eq!(problems(&content), [unreadable(1, position, cause), truncated(&content)]);
    }
}

#[test]
fn malformed_call_stacks_stay_arguments() {
    for stack in ["5", "\"a\"", "{}", "null"] {
        let run = import_events(&format!(
            r#"{{"ph":"X","cat":"scope","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{{"call_stack":{stack}}}}},
            {{"ph":"i","name":"b","pid":1,"tid":1,"ts":1,"args":{{"call_stack":{stack},"metrics":{{"m":"1"}}}}}},
            {{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":1,"ts":1,"dur":1,"args":{{"call_stack":{stack}}}}}"#
        ));
        let rows = lines(&run, &["spans", "instants", "gpu"]);
        let argument = format!("\"call_stack\":{stack}");
        assert!(rows.len() == 3 && rows.iter().all(|line| line.contains(&argument)), "{rows:?}");
    }
}

/// Stored values are exported unchanged, so they must be valid JSON.
#[test]
fn invalid_json_is_repaired() {
    let run = import_events(
        "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1,\u{b}\"args\":{\
         \"half\":[\"\\ud800\",\"\\ud83d\\ude00\"],\"list\":[1,\u{b}2\u{c}],\"o\":{\"z\"\u{c}:2}}}",
    );
    let reader = reader(&run.run);
    let span = reader.rows::<Span>().unwrap().next().unwrap().unwrap();
    let expected = r#"{"half":["\ufffd","\ud83d\ude00"],"list":[1, 2 ],"o":{"z" :2}}"#;
    assert_eq!(args_of(&reader, &span.args), expected);
}

#[test]
fn a_malformed_event_does_not_affect_others() {
    let trace = format!(
        "{{\"traceEvents\":[{EVENT},{{\"ph\":\"X\",\"name\":\"un\"escaped\"}}\n,{EVENT}],\"traceName\":\"x\"}}"
    );
    let run = import_bytes(trace.as_bytes()).unwrap();
    assert_eq!(lines(&run, &["spans"]).len(), 2);
    let expected = ["loss unreadable_events=1", "metadata p1 None traceName=\"x\""];
    assert_eq!(lines(&run, &["metadata", "loss"]), expected);
}
