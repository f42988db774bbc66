//! Traces of other programs.

use std::path::PathBuf;

use super::message::{Message, event, message, thread, trace};
use crate::dump::{dump, import_bytes, import_data};
use crate::faults::losses;

/// Panics with the first line that differs.
fn assert_golden(name: &str, dumped: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/perfetto").join(name);
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    for (n, (line, expected)) in dumped.lines().zip(golden.lines()).enumerate() {
        assert_eq!(line, expected, "line {} of {name}", n + 1);
    }
    assert_eq!(dumped, golden, "{name} has another length");
}

#[test]
fn a_trace_of_another_implementation_is_read() {
    assert_golden("foreign.txt", &dump(&import_data("perfetto/foreign.pftrace").run));
}

#[test]
fn losses_are_reported() {
    assert_eq!(
        losses(&import_data("perfetto/foreign.pftrace")),
        [
            "unmatched_exits 1 the end of a slice that did not begin",
            "unreadable_events 2 a call stack that is not in the file",
            "unsupported_events 4 an event of phase `O`",
        ]
    );
}

fn spans(packets: impl IntoIterator<Item = Message>) -> Vec<String> {
    let opened = import_bytes(&trace(packets)).unwrap();
    let dumped = dump(&opened.run);
    dumped.lines().filter(|line| line.starts_with("spans")).map(str::to_owned).collect()
}

#[test]
fn slices_of_a_thread_nest_in_event_order() {
    let packets = [
        thread(1, 5, 6),
        event(10, 1, 1, "a"),
        event(10, 1, 1, "b"),
        event(20, 2, 1, ""),
        event(20, 2, 1, ""),
    ];
    assert_eq!(
        spans(packets),
        [
            "spans 10+10 children=0 p5/t6() /scope:a/scope:b",
            "spans 10+10 children=10 p5/t6() /scope:a",
        ]
    );
}

#[test]
fn open_slices_end_with_the_trace() {
    let packets = [thread(1, 5, 6), event(10, 1, 1, "a"), event(30, 3, 1, "moment")];
    assert_eq!(spans(packets), ["spans 10+20 children=0 p5/t6() /scope:a open"]);
}

#[test]
fn interned_names_belong_to_their_sequence() {
    let named = |sequence: u64, time: u64, kind: u64| {
        let event = message().int(9, kind).int(10, 1).int(11, 1);
        message().int(8, time).int(10, sequence).int(13, 2).message(11, event)
    };
    let interned = |sequence: u64, name: &str| {
        let interned = message().message(2, message().int(1, 1).bytes(2, name));
        message().int(10, sequence).int(13, 1).message(12, interned)
    };
    let packets = [
        thread(1, 5, 6),
        interned(1, "one"),
        interned(2, "two"),
        named(1, 10, 1),
        named(2, 11, 1),
        named(1, 12, 2),
        // The interned data of the sequence are cleared.
        interned(1, "new"),
        named(1, 13, 1),
        named(1, 14, 2),
        named(2, 15, 2),
    ];
    assert_eq!(
        spans(packets),
        [
            "spans 10+5 children=2 p5/t6() /scope:one",
            "spans 11+1 children=0 p5/t6() /scope:one/scope:two",
            "spans 13+1 children=0 p5/t6() /scope:one/scope:new",
        ]
    );
}

#[test]
fn cyclic_tracks_belong_to_no_process() {
    let child = |track: u64, parent: u64| {
        message().message(60, message().int(1, track).int(5, parent).bytes(2, "x"))
    };
    let packets = [child(1, 2), child(2, 1), event(5, 1, 1, "a"), event(6, 2, 1, "")];
    let opened = import_bytes(&trace(packets)).unwrap();
    assert!(dump(&opened.run).contains("async_spans 5+1 p-1 track=x \"a\""));
}

#[test]
fn open_slices_last_until_the_last_of_them_begins() {
    let packets =
        [thread(1, 5, 6), event(10, 1, 1, "a"), event(30, 1, 1, "b"), event(40, 1, 1, "c")];
    assert_eq!(
        spans(packets),
        [
            "spans 10+30 children=10 p5/t6() /scope:a open",
            "spans 30+10 children=0 p5/t6() /scope:a/scope:b open",
            "spans 40+0 children=0 p5/t6() /scope:c open",
        ]
    );
}
