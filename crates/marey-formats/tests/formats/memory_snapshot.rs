//! Snapshots of PyTorch's allocator.

mod hostile;

use marey_store::row::MemoryEvent;

use crate::dump::{dump, import_bytes, import_data, import_named, reader};
use crate::faults::losses;

/// All pickle protocols give the same run.
#[test]
fn a_snapshot_is_read_completely() {
    let golden = include_str!("../data/memory_snapshot/snapshot.txt");
    for protocol in 2..=5 {
        let name = format!("memory_snapshot/snapshot_protocol_{protocol}.pickle");
        let imported = import_data(&name);
        assert_eq!(dump(&imported.run), golden, "{name}");
        assert_eq!(imported.imported.files[0].warnings, []);
    }
}

/// marey writes snapshots as JSON, with the scopes that allocated a block.
#[test]
fn a_snapshot_in_json_is_read_completely() {
    let content = br#"{"segments": [{"device": 0, "address": 4096, "total_size": 2048, "stream": 3,
        "segment_type": "small", "blocks": [
            {"address": 4096, "size": 512, "requested_size": 500, "state": "active_allocated",
             "frames": [{"filename": "a.py", "line": 1, "name": "f"}], "path": ["Net", "head"],
             "tensor": "parameter head.weight"},
            {"size": 512, "requested_size": 9, "state": "active_allocated",
             "frames": [{"filename": "a.py", "line": 1, "name": "f"}]},
            {"size": 1024, "requested_size": 0, "state": "inactive", "frames": []}]}],
        "device_traces": [[], [{"action": "alloc", "addr": 7, "size": 8, "stream": 0,
            "time_us": 5, "frames": []}]], "left_out_trace_entries": 4}"#;
    let imported = import_named("memory-1-0.json", content).unwrap();
    let dump = dump(&imported.run);
    let lines: Vec<_> = dump.lines().filter(|line| !line.starts_with("process")).collect();
    assert_eq!(
        lines,
        [
            "memory_events 5000 p-1 None Alloc cuda device=Some(1) stream=Some(0) address=Some(7) bytes=8 allocated=None reserved=None at=None",
            r#"memory_snapshots 5000 p-1 device=0 stream=Some(3) segment=0x1000+2048 small 0x1000+512 requested=Some(500) active_allocated at=Some("/scope:Net/scope:head") {"tensor":"parameter head.weight"}"#,
            r#"memory_snapshots 5000 p-1 device=0 stream=Some(3) segment=0x1000+2048 small 0x1200+512 requested=Some(9) active_allocated at=Some("/frame:a.py:1@f")"#,
            "memory_snapshots 5000 p-1 device=0 stream=Some(3) segment=0x1000+2048 small 0x1400+1024 requested=Some(0) inactive at=None",
            "metadata p-1 None left_out_trace_entries=4",
        ]
    );
    for len in (1..content.len()).step_by(7) {
        // An error or a loss, and no panic.
        drop(import_named("memory-1-0.json", &content[..len]));
    }
}

/// Old snapshots have no times, stacks in a history, and blocks without addresses.
#[test]
fn old_snapshots_are_read() {
    let imported = import_data("memory_snapshot/old.pickle");
    assert_eq!(dump(&imported.run), include_str!("../data/memory_snapshot/old.txt"));
    let expected = ["unsupported_events 1 an earlier use of a block, which runs do not store"];
    assert_eq!(losses(&imported), expected);
}

/// The oldest snapshots are a list of segments.
#[test]
fn a_list_of_segments_is_a_snapshot() {
    let list = dump(&import_data("memory_snapshot/segments.pickle").run);
    let blocks = |dump: &str| {
        let lines = dump.lines().filter(|line| line.starts_with("memory_snapshots"));
        // Only the traces contain the time.
        lines.map(|line| line.replacen(" 2 ", " 0 ", 1)).collect::<Vec<_>>()
    };
    assert_eq!(blocks(&list), blocks(include_str!("../data/memory_snapshot/old.txt")));
}

#[test]
fn the_rank_may_be_in_the_file_name() {
    let content = include_bytes!("../data/memory_snapshot/old.pickle");
    let rank = |name| {
        let imported = import_named(name, content).unwrap();
        reader(&imported.run).processes().next().unwrap().rank
    };
    assert_eq!(rank("rank12_snapshot.pickle"), Some(12));
    assert_eq!(rank("snapshot_7.pickle"), None);
}

/// A stack that 60,000 events share is stored once.
#[test]
fn shared_stacks_are_stored_once() {
    let mut content = b"\x80\x04}(\x8c\x0ddevice_traces]](".to_vec();
    let text = |text: &str| [b"\x8c", &[text.len() as u8][..], text.as_bytes(), b"\x94"].concat();
    content.extend(b"}(");
    let frame = [
        text("frames"),     // 0
        b"]\x94(".to_vec(), // 1
        b"}\x94(".to_vec(), // 2
        text("filename"),
        text("a.py"),
        text("line"),
        b"K\x05".to_vec(),
        text("name"),
        text("f"),
        b"ue".to_vec(),
    ];
    content.extend(frame.concat());
    content.extend([text("action"), text("alloc"), text("size"), b"K\x08".to_vec()].concat()); // 8, 9, 10
    content.push(b'u');
    content.extend(b"}(h\x00h\x01h\x08h\x09h\x0aK\x08u".repeat(59_999));
    content.extend(b"eau.");
    let imported = import_bytes(&content).unwrap();
    assert_eq!(
        (imported.imported.events, &*imported.imported.files[0].warnings),
        (60_000, &[][..])
    );
    let reader = reader(&imported.run);
    let events: Vec<MemoryEvent> = reader.rows().unwrap().map(Result::unwrap).collect();
    let stack = events[0].context_id.unwrap();
    assert_eq!(reader.path(stack).len(), 1);
    assert!(events.iter().all(|event| event.context_id == Some(stack)));
    // Events without times keep their order.
    assert!(events.iter().map(|event| event.time_nanos).eq(0..60_000));
}
