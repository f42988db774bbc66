//! Damaged and hostile files.

use marey_formats::ImportError;
use marey_model::loss::LossCause;
use proptest::prelude::*;

use super::message::{Message, event, message, thread, trace};
use crate::dump::{dump, export_bytes, import_bytes, import_data};
use crate::faults::{self, fault};

/// Returns the warnings of a trace with usable content.
fn warnings(packets: impl IntoIterator<Item = Message>) -> Vec<String> {
    faults::warnings(&import_bytes(&trace(packets)).unwrap())
}

#[test]
fn faults_report_their_position() {
    let cases: [(&[u8], &str); 6] = [
        (b"\x0a\x05\x40\x01", "byte 0: the file ends in the middle of a packet"),
        (b"\x0a\x02\x40\x01\x0b\x00", "byte 4: wire type 3 where a packet begins"),
        (b"\x0a\x02\x40\x01\x0a\xff\xff\xff\xff\xff\x0f", "byte 4: a packet of 549755813887 bytes"),
        (
            b"\x0a\x02\x40\x01\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "byte 4: a number of more than 64 bits",
        ),
        (b"\x0a\x02\x40\x01\x0a", "byte 4: the file ends in the middle of a packet"),
        (b"\x0a\x02\x40\xff", "byte 0: no packet can be read"),
    ];
    for (content, expected) in cases {
        assert_eq!(fault(content).to_string(), expected, "{content:x?}");
    }
}

#[test]
fn a_damaged_packet_does_not_affect_others() {
    let begin = |name| event(10, 1, 1, name);
    let end = || event(20, 2, 1, "");
    let interned_name = message().int(8, 15).message(11, message().int(9, 3).int(11, 1).int(10, 9));
    let local_clock = message().int(8, 15).int(58, 70).message(11, message().int(9, 3));
    let untimed = message().message(11, message().int(9, 3));
    let valueless = message().int(8, 15).message(11, message().int(9, 4));
    let cases: [(Message, &str); 13] = [
        (
            message().bytes(11, b"\x48"),
            "unreadable_events 1 byte 27: a packet that is not a protobuf message",
        ),
        (
            message().int(8, 5).bytes(50, b"no zlib"),
            "unreadable_events 1 byte 27: compressed packets are damaged: corrupt deflate stream",
        ),
        (interned_name, "unreadable_events 1 byte 27: an event whose name is not in the file"),
        (
            local_clock,
            "unreadable_events 1 byte 27: the time of a packet is on the unknown clock 70",
        ),
        (untimed, "unreadable_events 1 byte 27: an event without a time"),
        (valueless, "unreadable_events 1 byte 27: a counter without a value"),
        (event(15, 2, 9, ""), "unmatched_exits 1 byte 27: the end of a slice that did not begin"),
        (event(15, 5, 1, "state"), "unsupported_events 1 byte 27: an event of type 5"),
        (
            message().message(1, message()),
            "unsupported_events 1 byte 27: a packet of ftrace_events",
        ),
        (message().message(444, message()), "unsupported_events 1 byte 27: a packet of field 444"),
        (
            message().message(66, message().int(2, 1)),
            "unsupported_events 1 byte 27: a sample without a call stack",
        ),
        (
            message().message(54, message()),
            "unsupported_events 1 byte 27: samples without a thread",
        ),
        (
            message().int(13, 2).int(42, 1),
            "unreadable_events 1 byte 27: a packet that refers to a lost packet",
        ),
    ];
    for (packet, expected) in cases {
        let packets = [thread(1, 5, 6), begin("a"), packet, end()];
        assert_eq!(warnings(packets), [expected]);
    }
    let backwards = [thread(1, 5, 6), begin("a"), event(5, 2, 1, "")];
    let expected = "byte 27: a slice that ends before it begins";
    assert_eq!(fault(&trace(backwards)).to_string(), expected);
}

#[test]
fn nested_compressed_packets_are_refused() {
    let pack = |content: Vec<u8>| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, &content).unwrap();
        message().bytes(50, encoder.finish().unwrap())
    };
    let inner = pack(trace([event(1, 3, 1, "moment")]));
    let packets = [thread(1, 5, 6), event(1, 3, 1, "moment"), pack(trace([inner]))];
    assert_eq!(
        warnings(packets),
        ["unreadable_events 1 byte 32: compressed packets in compressed packets"]
    );
}

#[test]
fn endlessly_nested_messages_are_refused() {
    let deep = (0..5000).fold(message().bytes(10, "x"), |inner, _| message().message(12, inner));
    let event = message().int(9, 3).message(4, deep);
    let packets = [thread(1, 5, 6), message().int(8, 1).message(11, event)];
    let expected = "byte 13: a packet that is not a protobuf message";
    assert_eq!(fault(&trace(packets)).to_string(), expected);
}

/// Returns a small trace that marey wrote.
fn small() -> Vec<u8> {
    let run = import_data("perfetto/foreign.pftrace");
    export_bytes(&run.run, marey_formats::Format::Perfetto).0
}

#[test]
fn every_truncation_keeps_earlier_events() {
    let packets =
        [thread(1, 5, 6), event(10, 1, 1, "a"), event(20, 2, 1, ""), event(30, 3, 1, "b")];
    let ends = packets.iter().scan(0, |end, packet| {
        *end += packet.0.len() + 2;
        Some(*end)
    });
    let ends: Vec<usize> = ends.collect();
    let content = trace(packets);
    for end in 0..content.len() {
        let opened = import_bytes(&content[..end]);
        // Before the end of the first event there is no usable content.
        let is_cut = end > 0 && !ends.contains(&end);
        match opened {
            Ok(opened) => {
                let warnings = &opened.imported.files[0].warnings;
                let is_reported =
                    warnings.iter().any(|warning| warning.loss == LossCause::Truncated);
                assert_eq!(is_reported, is_cut, "{end}");
            }
            Err(ImportError::Unusable { .. }) => assert!(is_cut && end < ends[1], "{end}"),
            Err(ImportError::Unknown { .. }) => assert!(end < 8, "{end}"),
            Err(error) => panic!("{end}: {error}"),
        }
    }
}

#[test]
fn truncations_of_larger_files_never_panic() {
    for content in [small(), std::fs::read(data()).unwrap()] {
        for end in (0..content.len()).step_by(content.len() / 12) {
            if let Ok(opened) = import_bytes(&content[..end]) {
                dump(&opened.run);
            }
        }
    }
}

fn data() -> std::path::PathBuf {
    std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/perfetto/foreign.pftrace")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]

    #[test]
    fn flipped_bits_never_panic(
        is_own: bool,
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 1..8),
    ) {
        let mut content = if is_own { small() } else { std::fs::read(data()).unwrap() };
        for (index, bit) in flips {
            let index = index.index(content.len());
            content[index] ^= 1 << bit;
        }
        if let Ok(opened) = import_bytes(&content) {
            dump(&opened.run);
        }
    }
}

#[test]
fn events_before_their_track_descriptor_are_counted() {
    let below = message().message(60, message().int(1, 2).int(5, 1).bytes(2, "below"));
    let packets = [
        event(10, 3, 1, "of no process"),
        below,
        event(11, 3, 2, "of no process either"),
        thread(1, 5, 6),
        event(12, 3, 2, "of the thread"),
        event(13, 3, 9, "of a track that never comes"),
    ];
    assert_eq!(
        warnings(packets),
        [
            "unsupported_events 2 byte 75: an event on a track without a process that is described later"
        ]
    );
}

#[test]
fn the_depth_of_stacks_is_limited() {
    let cause = |count, offset: usize| {
        format!("unsupported_events {count} byte {offset}: a call stack of more than 10000 frames")
    };
    let on = |event: Message| message().int(8, 10).message(11, event.int(9, 3).int(11, 1));
    let inline = |frames| {
        let stack = (0..frames).fold(message(), |all, _| all.message(1, message().bytes(1, "f")));
        on(message().message(55, stack))
    };
    let moment = trace([thread(1, 5, 6)]).len();
    let packets = [thread(1, 5, 6), inline(10_000), inline(10_001)];
    let offset = moment + trace([inline(10_000)]).len();
    assert_eq!(warnings(packets), [cause(1, offset)]);

    let stack = |iid, frames| (0..frames).fold(message().int(1, iid), |all, _| all.int(2, 7));
    let interned = message().message(7, stack(1, 10_000)).message(7, stack(2, 10_001));
    let interned = message().int(13, 1).message(12, interned);
    let use_of = |iid| on(message().int(56, iid));
    let packets = [thread(1, 5, 6), interned.clone(), use_of(1), use_of(2), use_of(2)];
    let offset = moment + trace([interned, use_of(1)]).len();
    assert_eq!(warnings(packets), [cause(2, offset)]);
}
