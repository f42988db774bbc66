//! Traces of Proton and of marey's recorder.

use super::{import_events, lines};
use crate::dump::import_bytes;

#[test]
fn lanes_of_proton_are_threads_and_streams() {
    let run = import_bytes(
        br#"{"displayTimeUnit":"us","baseTimeNanoseconds":1000000,"traceEvents":[
        {"args":{"name":"Trace"},"name":"process_name","ph":"M","pid":0},
        {"args":{"name":"CPU Thread 0"},"name":"thread_name","ph":"M","pid":0,"tid":0},
        {"args":{"name":"GPU Stream 7"},"name":"thread_name","ph":"M","pid":0,"tid":200007},
        {"args":{"call_stack":["ROOT","train"],"scope_id":1},"cat":"scope","dur":50.5,"name":"train","ph":"X","pid":0,"tid":0,"ts":0.0},
        {"args":{"call_stack":["ROOT","train","add"],"metrics":{"flops":"12"}},"cat":"kernel","dur":2.0,"name":"add","ph":"X","pid":0,"tid":200007,"ts":20.001},
        {"args":{"call_stack":["ROOT","train","graph"]},"cat":"scope","dur":9,"name":"graph","ph":"X","pid":0,"tid":100007,"ts":30},
        {"bp":"e","cat":"flow","id":3,"name":"launch->kernel","ph":"s","pid":0,"tid":0,"ts":5.0}]}"#,
    )
    .unwrap();
    let none = "graph_node=None grid=None block=None registers=None shared=None bytes=None";
    let expected = [
        r#"flows 1005000 p0/t0(CPU Thread 0) Start id=3 enclosing=true "launch->kernel" [flow]"#.to_owned(),
        format!(r#"gpu_activities 1020001+2000 p0 device=0 stream=7 Kernel "add" at=Some("/scope:train") {none} [kernel] {{"metrics":{{"flops":"12"}}}}"#),
        format!(r#"gpu_activities 1030000+9000 p0 device=0 stream=7 Annotation "graph" at=Some("/scope:train") {none} [scope]"#),
        r#"metadata p0 None displayTimeUnit="us""#.to_owned(),
        r#"process 0 rank=None host="" argv=[] name=Some("Trace") 1000000..1050500"#.to_owned(),
        r#"spans 1000000+50500 children=0 p0/t0(CPU Thread 0) /scope:train [scope] {"call_stack":["ROOT","train"],"scope_id":1}"#.to_owned(),
        "thread p0/t0(CPU Thread 0)".to_owned(),
    ];
    assert_eq!(lines(&run, &[""]), expected);
}

#[test]
fn call_stacks_may_exclude_the_kernel() {
    let kernel = |name: &str, stack: &str| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":200007,"ts":1,"dur":1,"args":{{"call_stack":{stack}}}}}"#
        )
    };
    let events = [
        kernel("k", r#"["ROOT","train","k"]"#),
        kernel("k", r#"["ROOT","train"]"#),
        kernel("k: <flops, 1>", r#"["ROOT","train","k"]"#),
        kernel("k", "[]"),
    ];
    let run = import_events(&events.join(","));
    let mut at: Vec<_> = lines(&run, &["gpu"])
        .iter()
        .map(|line| line.split(" at=").nth(1).unwrap().split(" graph").next().unwrap().to_owned())
        .collect();
    at.sort_unstable();
    let train = r#"Some("/scope:train")"#;
    assert_eq!(at, [r#"Some("")"#, train, train, train]);
}

#[test]
fn unknown_kinds_stay_arguments() {
    let scope = |kind: &str| {
        format!(
            r#"{{"ph":"X","cat":"scope","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{{"call_stack":["ROOT","a"],"kind":{kind}}}}}"#
        )
    };
    for kind in [r#""root""#, r#""mine""#, "5"] {
        let spans = lines(&import_events(&scope(kind)), &["spans"]);
        let argument = format!("\"kind\":{kind}");
        assert!(spans[0].contains(" /scope:a ") && spans[0].contains(&argument), "{spans:?}");
    }
}

/// A trace of marey's recorder: inner scopes first, with kinds, metrics and open scopes.
#[test]
fn traces_of_the_recorder_are_read() {
    let run = import_bytes(
        br#"{"baseTimeNanoseconds":1000000,"displayTimeUnit":"us","traceEvents":[
{"args":{"name":"Trace (rank 3, node)"},"name":"process_name","ph":"M","pid":77},
{"args":{"name":"MainThread","os_id":78},"name":"thread_name","ph":"M","pid":77,"tid":0},
{"args":{"call_stack":["ROOT","outer","inner"],"metrics":{"loss":"0.500000","tokens":"3","v":"[1,2]","w":"nan"},"scope_id":1},"cat":"metric","dur":4.000,"name":"inner: <loss, 0.500000>, <tokens, 3>","ph":"X","pid":77,"tid":0,"ts":0.000},
{"args":{"call_stack":["ROOT","outer"],"kind":"module","open":true,"scope_id":2},"cat":"scope","dur":4.000,"name":"outer","ph":"X","pid":77,"tid":0,"ts":0.000},
{"args":{"call_stack":["ROOT"],"metrics":{"note":"late"}},"cat":"metric","name":"ROOT: <note, late>","ph":"i","pid":77,"s":"t","tid":0,"ts":9.001}
],"marey":{"losses":{"trace_buffer_full":2},"process":{"host":"node","pid":77,"rank":3,"start_unix_nanos":1},"torn_bytes":0,"version":1}}
"#,
    )
    .unwrap();
    let thread = "p77/t78(MainThread)";
    let expected = [
        "loss trace_buffer_full=2".to_owned(),
        format!(r#"metrics 1000000 {thread} /scope:outer/scope:inner "loss" 0.5"#),
        format!(r#"metrics 1000000 {thread} /scope:outer/scope:inner "tokens" 3"#),
        format!(r#"metrics 1000000 {thread} /scope:outer/scope:inner "v" [1.0, 2.0]"#),
        format!(r#"metrics 1000000 {thread} /scope:outer/scope:inner "w" NaN"#),
        format!(r#"metrics 1009001 {thread}  "note" "late""#),
        r#"process 77 rank=Some(3) host="node" argv=[] name=Some("Trace (rank 3, node)") 1000000..1009001"#.to_owned(),
        format!(r#"spans 1000000+4000 children=0 {thread} /module:outer/scope:inner [metric] {{"call_stack":["ROOT","outer","inner"],"scope_id":1}}"#),
        format!(r#"spans 1000000+4000 children=4000 {thread} /module:outer open [scope] {{"call_stack":["ROOT","outer"],"scope_id":2}}"#),
        format!("thread {thread}"),
    ];
    assert_eq!(
        lines(&run, &["loss", "metrics", "process ", "spans", "thread", "instants"]),
        expected
    );
}
