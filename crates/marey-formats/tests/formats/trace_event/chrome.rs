//! Events of Chrome's own tracing.

use marey_store::row::{AsyncSpan, Span};

use super::{args_of, import_events, lines};
use crate::dump::import_bytes;
use crate::faults::warnings;

#[test]
fn begin_and_end_events_are_paired() {
    let run = import_events(
        r#"{"ph":"B","cat":"c","name":"outer","pid":1,"tid":1,"ts":10,"args":{"a":1}},
        {"ph":"B","name":"inner","pid":1,"tid":1,"ts":10},
        {"ph":"B","name":"elsewhere","pid":1,"tid":2,"ts":12},
        {"ph":"E","pid":1,"tid":1,"ts":20,"args":{"b":"x"}},
        {"ph":"E","name":"outer","cat":"c","pid":1,"tid":1,"ts":20,"sf":3},
        {"ph":"E","pid":1,"tid":1,"ts":21},
        {"ph":"i","name":"last","pid":1,"tid":1,"ts":50}"#,
    );
    let expected = [
        "loss unmatched_exits=1",
        r#"spans 10000+10000 children=0 p1/t1() /scope:outer/scope:inner {"b":"x"}"#,
        r#"spans 10000+10000 children=10000 p1/t1() /scope:outer [c] {"a":1,"sf":3}"#,
        "spans 12000+38000 children=0 p1/t2() /scope:elsewhere open",
    ];
    assert_eq!(lines(&run, &["spans", "loss"]), expected);
}

#[test]
fn arguments_of_the_end_event_take_precedence() {
    let run = import_events(
        r##"{"ph":"B","name":"a","pid":1,"tid":1,"ts":1,"args":{"n":1,"x":"#1","y":[2]}},
        {"ph":"E","pid":1,"tid":1,"ts":2,"n":7,"args":{"\u0079":"later","z":3}},
        {"ph":"b","cat":"c","name":"r","id":1,"pid":1,"tid":1,"ts":1,"args":{"n":1}},
        {"ph":"e","cat":"c","name":"r","id":1,"pid":1,"tid":1,"ts":2,"args":{"n":2}}"##,
    );
    let reader = crate::dump::reader(&run.run);
    let span = reader.rows::<Span>().unwrap().next().unwrap().unwrap();
    assert_eq!(args_of(&reader, &span.args), r##"{"x":"#1","n":7,"y":"later","z":3}"##);
    let span = reader.rows::<AsyncSpan>().unwrap().next().unwrap().unwrap();
    assert_eq!(args_of(&reader, &span.args), r#"{"n":2}"#);
}

#[test]
fn open_events_outlast_their_children() {
    let run = import_events(
        r#"{"ph":"B","name":"a","pid":1,"tid":1,"ts":1},
        {"ph":"X","name":"c","pid":1,"tid":1,"ts":2,"dur":1},
        {"ph":"B","name":"b","pid":1,"tid":1,"ts":5},
        {"ph":"b","cat":"c","name":"r","id":1,"pid":1,"tid":1,"ts":7}"#,
    );
    let expected = [
        "async_spans 7000+0 p1 track=1 \"r\" open [c]",
        "spans 1000+6000 children=3000 p1/t1() /scope:a open",
        "spans 2000+1000 children=0 p1/t1() /scope:a/scope:c",
        "spans 5000+2000 children=0 p1/t1() /scope:a/scope:b open",
    ];
    assert_eq!(lines(&run, &["async", "spans"]), expected);
}

#[test]
fn an_id2_may_hold_any_value() {
    let run = import_events(
        r#"{"ph":"b","cat":"c","name":"r","id2":{"local":5},"pid":1,"tid":1,"ts":1},
        {"ph":"b","cat":"c","name":"r","id2":{"local":6},"pid":1,"tid":1,"ts":2},
        {"ph":"e","cat":"c","name":"r","id2":{"local":5},"pid":1,"tid":1,"ts":3},
        {"ph":"e","cat":"c","name":"r","id2":{"local":6},"pid":1,"tid":1,"ts":5},
        {"ph":"b","cat":"c","name":"r","id2":7,"pid":1,"tid":1,"ts":6},
        {"ph":"e","cat":"c","name":"r","id2":{},"pid":1,"tid":1,"ts":7}"#,
    );
    let expected = [
        r#"async_spans 1000+2000 p1 track=5 "r" [c]"#,
        r#"async_spans 2000+3000 p1 track=6 "r" [c]"#,
        "loss unreadable_events=2",
    ];
    assert_eq!(lines(&run, &["async", "loss"]), expected);
}

#[test]
fn instants_have_their_scope() {
    let run = import_events(
        r#"{"ph":"i","name":"a","pid":1,"tid":1,"ts":1,"s":"g","args":{"x":1}},
        {"ph":"I","name":"b","pid":1,"tid":1,"ts":2,"s":"p"},
        {"ph":"i","name":"c","cat":"k","pid":1,"tid":1,"ts":3,"s":"t"},
        {"ph":"R","name":"mark","pid":1,"tid":1,"ts":4}"#,
    );
    let expected = [
        r#"instants 1000 p1 Some("p1/t1()") Global "a" {"x":1}"#,
        r#"instants 2000 p1 Some("p1/t1()") Process "b""#,
        r#"instants 3000 p1 Some("p1/t1()") Thread "c" [k]"#,
        r#"instants 4000 p1 Some("p1/t1()") Thread "mark""#,
    ];
    assert_eq!(lines(&run, &["instants"]), expected);
}

#[test]
fn counters_have_a_metric_for_each_series() {
    let run = import_events(
        r#"{"ph":"C","name":"power","pid":1,"tid":1,"ts":1,"args":{"value":7}},
        {"ph":"C","name":"mem","pid":1,"tid":1,"ts":2,"args":{"mem":1.5}},
        {"ph":"C","name":"heap","pid":1,"tid":1,"ts":3,"args":{"used":-1,"free":"much"}},
        {"ph":"C","name":"q","id":"0x1","pid":1,"ts":4,"args":{"value":"inf","list":[1,2.5],"none":null}},
        {"ph":"C","name":"empty","pid":1,"tid":1,"ts":5}"#,
    );
    let expected = [
        "loss unreadable_events=1",
        r#"metrics 1000 p1/t1()  "power" 7"#,
        r#"metrics 2000 p1/t1()  "mem" 1.5"#,
        r#"metrics 3000 p1/t1()  "heap.free" "much""#,
        r#"metrics 3000 p1/t1()  "heap.used" -1"#,
        r#"metrics 4000 p1/t0()  "q[0x1]" inf"#,
        r#"metrics 4000 p1/t0()  "q[0x1].list" [1.0, 2.5]"#,
        r#"metrics 4000 p1/t0()  "q[0x1].none" "null""#,
    ];
    assert_eq!(lines(&run, &["metrics", "loss"]), expected);
}

#[test]
fn flows_keep_their_points() {
    let run = import_events(
        r#"{"ph":"s","cat":"fwdbwd","name":"fwdbwd","id":7,"pid":1,"tid":1,"ts":1},
        {"ph":"t","cat":"fwdbwd","name":"fwdbwd","id":"7","pid":1,"tid":1,"ts":2},
        {"ph":"f","cat":"fwdbwd","name":"fwdbwd","id":"0x7","pid":1,"tid":2,"ts":3,"bp":"e"},
        {"ph":"f","cat":"mine","name":"f","id":"a b","pid":1,"tid":2,"ts":4,"args":{"k":1}},
        {"ph":"f","cat":"mine","name":"f","pid":1,"tid":2,"ts":5},
        {"ph":"s","cat":"async","name":"work","id":1,"pid":1,"tid":1,"ts":6},
        {"ph":"s","cat":"async","name":"launch","id":1,"pid":1,"tid":1,"ts":7},
        {"ph":"s","cat":"async_cpu_to_gpu","name":"async_gpu","id":1,"pid":1,"tid":1,"ts":8},
        {"ph":"i","name":"an event","pid":1,"tid":1,"ts":9}"#,
    );
    let expected = [
        r#"flows 1000 p1/t1() Start id=7 enclosing=true "fwdbwd" [fwdbwd]"#,
        r#"flows 2000 p1/t1() Step id=7 enclosing=true "fwdbwd" [fwdbwd]"#,
        r#"flows 3000 p1/t2() End id=7 enclosing=true "fwdbwd" [fwdbwd]"#,
        r#"flows 4000 p1/t2() End id=16591147884985137298 enclosing=false "f" [mine] {"k":1}"#,
        r#"flows 6000 p1/t1() Start id=1 enclosing=true "work" [async]"#,
        "loss unreadable_events=1",
    ];
    assert_eq!(lines(&run, &["flows", "loss"]), expected);
}

#[test]
fn asynchronous_events_have_tracks() {
    let run = import_events(
        r#"{"ph":"b","cat":"net","name":"request","id":"0x1","pid":1,"tid":1,"ts":1,"args":{"url":"/"}},
        {"ph":"b","cat":"net","name":"request","id":"0x2","pid":1,"tid":1,"ts":2},
        {"ph":"b","cat":"net","name":"dns","id":"0x1","pid":1,"tid":1,"ts":3},
        {"ph":"n","cat":"net","name":"hit","id":"0x1","pid":1,"tid":1,"ts":4},
        {"ph":"e","cat":"net","name":"request","id":"0x1","pid":1,"tid":9,"ts":6,"args":{"status":200}},
        {"ph":"e","cat":"net","name":"dns","id":"0x1","pid":1,"tid":1,"ts":7},
        {"ph":"e","cat":"other","name":"request","id":"0x2","pid":1,"tid":1,"ts":8},
        {"ph":"b","cat":"net","name":"own","id2":{"local":"0x1"},"scope":"s","pid":1,"tid":1,"ts":1},
        {"ph":"b","cat":"net","name":"own","id2":{"local":"0x1"},"scope":"s","pid":2,"tid":1,"ts":2},
        {"ph":"e","cat":"net","name":"own","id2":{"local":"0x1"},"scope":"s","pid":1,"tid":1,"ts":3},
        {"ph":"e","cat":"net","name":"own","id2":{"local":"0x1"},"scope":"s","pid":2,"tid":1,"ts":5},
        {"ph":"b","cat":"net","name":"all","id2":{"global":"0x1"},"pid":1,"tid":1,"ts":1},
        {"ph":"e","cat":"net","name":"all","id2":{"global":"0x1"},"pid":2,"tid":1,"ts":9},
        {"ph":"S","cat":"old","name":"load","id":3,"pid":1,"tid":1,"ts":1},
        {"ph":"T","cat":"old","name":"load","id":3,"pid":1,"tid":1,"ts":2,"args":{"step":"half"}},
        {"ph":"F","cat":"old","name":"load","id":3,"pid":1,"tid":1,"ts":4}"#,
    );
    let expected = [
        r#"async_spans 1000+2000 p1 track=s:0x1 "own" [net]"#,
        r#"async_spans 1000+3000 p1 track=3 "load" [old]"#,
        r#"async_spans 1000+5000 p1 track=0x1 "request" [net] {"status":200,"url":"/"}"#,
        r#"async_spans 1000+8000 p1 track=0x1 "all" [net]"#,
        r#"async_spans 2000+3000 p2 track=s:0x1 "own" [net]"#,
        r#"async_spans 2000+7000 p1 track=0x2 "request" open [net]"#,
        r#"async_spans 3000+4000 p1 track=0x1 "dns" [net]"#,
        r#"instants 2000 p1 Some("p1/t1()") Thread "load" [old] {"id":"3","step":"half"}"#,
        r#"instants 4000 p1 Some("p1/t1()") Thread "hit" [net] {"id":"0x1"}"#,
        "loss unmatched_exits=1",
    ];
    assert_eq!(lines(&run, &["async", "instants", "loss"]), expected);
}

#[test]
fn unsupported_events_are_counted() {
    let run = import_events(
        r#"{"ph":"N","name":"o","id":1,"pid":1,"tid":1,"ts":1},
        {"ph":"P","name":"s","pid":1,"tid":1,"ts":1},
        {"ph":"v","name":"d","pid":1,"tid":1,"ts":1},
        {"ph":"X","name":"no time","pid":1,"tid":1},
        {"name":"no phase","pid":1,"tid":1,"ts":3},
        {"ph":"X","name":"good","pid":1,"tid":1,"ts":3,"dur":1}"#,
    );
    let expected = [
        "unreadable_events 2 byte 185: an event without a time",
        "unsupported_events 3 byte 16: an event of phase `N`",
    ];
    assert_eq!(warnings(&run), expected);
    assert_eq!(lines(&run, &["spans"]).len(), 1);
}

#[test]
fn a_bare_list_is_a_trace() {
    let event = r#"{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1}"#;
    let cases = [
        format!("[{event}]"),
        format!("[{event},\n{event},\n"),
        format!("[\n{event}"),
        format!("\u{feff} [,{event},,]\n"),
        format!("{{\"traceEvents\":[{event},],}}"),
    ];
    for trace in cases {
        let run = import_bytes(trace.as_bytes()).unwrap();
        assert_eq!(run.imported.files[0].warnings, [], "{trace}");
        let spans = lines(&run, &["spans"]);
        assert_eq!(spans.len(), trace.matches("\"a\"").count(), "{trace}");
    }
}

#[test]
fn metadata_events_may_come_last() {
    let run = import_bytes(
        br#"[{"ph":"X","cat":"kernel","name":"of Linux","ts":1,"dur":1,"pid":1,"tid":"worker"},
        {"ph":"M","name":"process_name","pid":1,"args":{"name":"first"}},
        {"ph":"M","name":"process_name","pid":1,"args":{"name":"server"}},
        {"ph":"M","name":"thread_name","pid":1,"tid":"worker","args":{"name":"other"}},
        {"ph":"M","name":"thread_name","pid":1,"tid":5,"args":{"name":"idle"}},
        {"ph":"M","name":"thread_sort_index","pid":1,"tid":5,"args":{"sort_index":2}},
        {"ph":"M","name":"num_cpus","pid":1,"args":{"number":8}},
        {"ph":"M","name":"process_name","pid":"gpu","args":{"name":"gpu"}}]"#,
    )
    .unwrap();
    let expected = [
        r#"metadata p-3 None process_name={"name":"gpu"}"#,
        r#"metadata p1 None num_cpus={"number":8}"#,
        r#"metadata p1 Some("p1/t-2(worker)") thread_name={"name":"other"}"#,
        r#"metadata p1 Some("p1/t5(idle)") thread_sort_index={"sort_index":2}"#,
        r#"process -3 rank=None host="" argv=[] name=Some("gpu") 1000..2000"#,
        r#"process 1 rank=None host="" argv=[] name=Some("server") 1000..2000"#,
        "spans 1000+1000 children=0 p1/t-2(worker) /scope:of Linux [kernel]",
        "thread p1/t-2(worker)",
        "thread p1/t5(idle)",
    ];
    assert_eq!(lines(&run, &[""]), expected);
}

#[test]
fn members_beside_the_events_are_kept() {
    let run = import_bytes(
        br#"{"otherData":{"version":"1"},"stackFrames":{"5":{"name":"main"}},"traceEvents":[],"systemTraceEvents":"a\nb","power":nan}"#,
    )
    .unwrap();
    let expected = [
        r#"metadata p-1 None otherData={"version":"1"}"#,
        r#"metadata p-1 None power="nan""#,
        r#"metadata p-1 None stackFrames={"5":{"name":"main"}}"#,
        r#"metadata p-1 None systemTraceEvents="a\nb""#,
    ];
    assert_eq!(lines(&run, &["metadata"]), expected);
}
