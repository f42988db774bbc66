//! Recording of NVTX annotations.

use crate::client::{
    Attributes, Library, attributes, initialize_without_exports, with_message, with_payload,
};
use marey_record::{Format, NodeKind, SessionId, SessionOptions, api};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Serialises the tests, which share the recorder.
fn recorder_lock() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start_session() -> SessionId {
    let folder = tempfile::tempdir().unwrap();
    api::start(&SessionOptions::named(folder.path().join("p").to_str().unwrap())).unwrap()
}

/// Returns the lines of the session's profile with names, counts and payloads.
fn summary(session: SessionId) -> Vec<String> {
    let json = api::get_data(session, 0, Format::Hatchet).unwrap();
    api::discard(session).unwrap();
    let json = String::from_utf8(json).unwrap();
    let keys = ["\"name\"", "\"payload\"", "\"wall_count\""];
    let is_selected = |line: &&str| keys.iter().any(|key| line.starts_with(key));
    let lines = json.lines().map(|line| line.trim().trim_end_matches(',')).filter(is_selected);
    lines.map(|line| line.replace('"', "").replace("name: ", "")).collect()
}

fn losses(session: SessionId, cause: &str) -> u64 {
    let json = api::get_data(session, 0, Format::Hatchet).unwrap();
    let json = String::from_utf8(json).unwrap();
    let (_, value) = json.split_once(&format!("\"{cause}\": ")).unwrap();
    value[..value.find(|c: char| !c.is_ascii_digit()).unwrap()].parse().unwrap()
}

#[test]
fn names_are_messages_prefixed_by_their_domain() {
    let _turn = recorder_lock();
    let library = Library::new();
    let session = start_session();
    let domain = library.domain(c"lib");
    assert_eq!(domain, library.domain(c"lib"), "the same name is the same domain");
    library.push(c"plain");
    library.push_wide(&['w' as u32, 'ï' as u32, 0xD800, 0]);
    library.push_in(domain, &with_message(c"text"));
    library.push_in(domain, &library.register(domain, c"kept"));
    library.push_in(null_mut(), &attributes(0, null()));
    library.push_in(null_mut(), &with_message(c""));
    library.push_in(null_mut(), &with_message(c"\xff"));
    for _ in 0..5 {
        assert!(library.pop() >= 0);
    }
    assert_eq!((library.pop_in(domain), library.pop_in(domain)), (1, 0));
    let names: Vec<_> = summary(session)
        .into_iter()
        .filter(|line| !line.contains(':') || line.contains("::"))
        .collect();
    let expected = [
        "\u{FFFD}",
        "<unnamed>",
        "<unnamed>",
        "lib::kept",
        "lib::text",
        "wï\u{FFFD}",
        "plain",
        "ROOT",
    ];
    assert_eq!(names, expected);
}

#[test]
fn levels_are_per_thread_and_domain_also_without_a_session() {
    let _turn = recorder_lock();
    let library = Library::new();
    let (a, b) = (library.domain(c"a"), library.domain(c"b"));
    assert_eq!(library.pop(), -1);
    assert_eq!([library.push(c"x"), library.push(c"x")], [0, 1]);
    assert_eq!(
        [library.push_in(a, &with_message(c"x")), library.push_in(b, &with_message(c"x"))],
        [0, 0]
    );
    std::thread::scope(|scope| scope.spawn(|| assert_eq!(library.push(c"x"), 0)).join().unwrap());
    assert_eq!([library.pop_in(a), library.pop_in(a), library.pop_in(b)], [0, -1, 0]);
    assert_eq!([library.pop(), library.pop(), library.pop()], [1, 0, -1]);
}

#[test]
fn a_pop_leaves_only_the_scope_of_its_own_push() {
    let _turn = recorder_lock();
    let library = Library::new();
    let (a, b) = (library.domain(c"a"), library.domain(c"b"));
    library.push(c"before");
    let session = start_session();
    let other = Library::new();
    api::enter(api::intern("scope"), NodeKind::Scope);
    assert_eq!(library.pop(), 0, "its push was not recorded");
    library.push_in(a, &with_message(c"1"));
    other.push_in(b, &with_message(c"2"));
    library.pop_in(a);
    other.push_in(b, &with_message(c"3"));
    other.pop_in(b);
    other.pop_in(b);
    api::exit(api::intern("scope"));
    assert_eq!(library.pop(), -1);
    for cause in ["unclosed_scopes", "reentrant_events"] {
        assert_eq!(losses(session, cause), 0, "{cause}");
    }
    assert_eq!(losses(session, "unmatched_exits"), 1);
    let expected = ["b::3", "wall_count: 1", "b::2", "wall_count: 1", "a::1", "wall_count: 1"];
    assert_eq!(summary(session)[..6], expected);
}

#[test]
fn payloads_are_exclusive_values_of_their_range_or_mark() {
    let _turn = recorder_lock();
    let library = Library::new();
    let session = start_session();
    let payloads = [
        (c"u64", 1, u64::MAX),
        (c"i64", 2, (-5_i64).cast_unsigned()),
        (c"f64", 3, 0.25_f64.to_bits()),
        (c"u32", 4, 0xffff_ffff_0000_0007),
        (c"i32", 5, 0xffff_fff9),
        (c"f32", 6, f32::to_bits(-1.5).into()),
        (c"ext", 0xdfbd_0009_u32.cast_signed(), 1),
    ];
    for (text, kind, bits) in payloads {
        library.push_in(null_mut(), &with_payload(text, kind, bits));
        library.pop();
    }
    library.mark(null_mut(), &with_payload(c"mark", 2, 8));
    library.end(library.start(null_mut(), &with_payload(c"range", 2, 9)));
    let lines = summary(session);
    let mut found: Vec<_> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with("payload"))
        .map(|(index, line)| format!("{} {line}", lines[index - 1]))
        .collect();
    let expected = [
        "f32 payload: -1.5",
        "f64 payload: 0.25",
        "i32 payload: -7",
        "i64 payload: -5",
        "mark payload: 8",
        "range payload: 9",
        "u32 payload: 7",
        "u64 payload: 9223372036854775807",
    ];
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn start_end_ranges_overlap_and_end_once_on_any_thread() {
    let _turn = recorder_lock();
    let library = Library::new();
    let before = library.start(null_mut(), &with_message(c"before"));
    let session = start_session();
    let (a, b) = (
        library.start(null_mut(), &with_message(c"a")),
        library.start(null_mut(), &with_message(c"b")),
    );
    assert!(a != b && a != before && a != 0);
    library.end(a);
    std::thread::scope(|scope| scope.spawn(|| library.end(b)).join().unwrap());
    for number in [a, b, before, 0, u64::MAX, 1 << 40] {
        library.end(number);
    }
    let mut lines = summary(session);
    lines.sort();
    assert_eq!(lines, ["ROOT", "a", "b", "wall_count: 1", "wall_count: 1"]);
}

#[test]
fn ranges_beyond_the_table_size_are_counted_as_lost() {
    const SLOTS: usize = 1 << 14;
    let _turn = recorder_lock();
    let library = Library::new();
    let session = start_session();
    let start = |_| library.start(null_mut(), &with_message(c"r"));
    let first: Vec<u64> = (0..SLOTS).map(start).collect();
    let lost: Vec<u64> = (0..3).map(start).collect();
    assert_eq!(losses(session, "ranges_table_full"), 3);
    for range in lost {
        library.end(range);
    }
    // One range stays open while others start and end.
    first[1..].iter().for_each(|&range| library.end(range));
    (0..2 * SLOTS).map(start).for_each(|range| library.end(range));
    library.end(first[0]);
    assert_eq!(losses(session, "ranges_table_full"), 3);
    assert_eq!(summary(session)[..2], ["r".to_owned(), format!("wall_count: {}", 3 * SLOTS)]);
}

#[test]
fn null_short_and_newer_attributes_are_not_read() {
    let _turn = recorder_lock();
    let library = Library::new();
    let session = start_session();
    let short = Attributes { bytes: 24, ..with_message(c"short") };
    let later = Attributes { version: 9, ..with_message(c"later") };
    library.push_in(null_mut(), &short);
    library.push_in(null_mut(), &later);
    library.push_in(null_mut(), &attributes(1, null()));
    library.push_in(null_mut(), &attributes(3, null()));
    assert_eq!([(); 4].map(|()| library.pop()), [3, 2, 1, 0]);
    library.mark(null_mut(), &attributes(3, null_mut::<c_void>().with_addr(usize::MAX)));
    let names: Vec<_> = summary(session).into_iter().filter(|line| !line.contains(':')).collect();
    assert_eq!(names, ["<unnamed>", "<unnamed>", "<unnamed>", "<unnamed>", "<unnamed>", "ROOT"]);
}

#[test]
fn a_library_without_an_export_table_is_rejected() {
    assert_eq!(initialize_without_exports(), [0, 0]);
}
