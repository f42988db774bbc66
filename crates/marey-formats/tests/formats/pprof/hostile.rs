//! Damaged, truncated and hostile profiles.

use marey_formats::ImportError;
use proptest::prelude::*;
use prost::Message as _;

use super::message::{Function, Label, Line, Location, Profile, Sample, ValueType};
use crate::dump::{dump, import_bytes};
use crate::faults::{damaged, losses, warnings};

/// Returns a small valid profile with one value type and a stack of two.
pub(super) fn small() -> Profile {
    let texts = ["", "cpu", "nanoseconds", "inner", "outer"];
    let location = |id, function_id| location(id, vec![line(function_id)]);
    Profile {
        sample_type: vec![ValueType { kind: 1, unit: 2 }],
        sample: vec![Sample { value: vec![5], ..sample(vec![1, 2]) }],
        location: vec![location(1, 1), location(2, 2)],
        function: vec![function(1, 3), function(2, 4)],
        string_table: texts.map(str::to_owned).to_vec(),
        ..Profile::default()
    }
}

/// Returns the warnings of a profile.
fn warning(profile: &Profile) -> String {
    // A profile that loses all samples is refused, so one is added.
    let mut profile = profile.clone();
    let value = vec![1; profile.sample_type.len()];
    profile.sample.push(Sample { value, ..Sample::default() });
    losses(&import_bytes(&profile.encode_to_vec()).unwrap()).join("; ")
}

#[test]
fn losses_are_reported() {
    let mut cases: Vec<(Profile, &str)> = Vec::new();
    let mut case = |change: fn(&mut Profile), cause| {
        let mut profile = small();
        change(&mut profile);
        cases.push((profile, cause));
    };
    case(|p| p.sample[0].location_id = vec![1, 99], "unreadable_events 1 location 99 is missing");
    case(|p| p.sample[0].location_id = vec![0], "unreadable_events 1 location 0 is missing");
    case(
        |p| p.sample[0].value = vec![1, 2],
        "unreadable_events 1 the sample has 2 values and the file 1 types",
    );
    case(
        |p| p.sample[0].value.clear(),
        "unreadable_events 1 the sample has 0 values and the file 1 types",
    );
    case(|p| p.function[0].id = 9, "unreadable_events 1 function 1 is missing");
    // The frame is then named by its address.
    case(|p| p.function[0].name = 77, "unreadable_events 2 text 77 is missing");
    case(|p| p.function[0].name = -1, "unreadable_events 2 text -1 is missing");
    case(|p| p.location[1].id = 1, "unreadable_events 2 location 1 appears twice");
    case(
        |p| {
            p.sample_type.push(p.sample_type[0]);
            p.sample[0].value.push(6);
        },
        "unsupported_events 1 two value types have the name `cpu`",
    );
    case(
        |p| {
            p.string_table.push("pprof.locations".to_owned());
            p.sample[0].label.push(Label { key: 5, text: 1, num: 0, num_unit: 0 });
        },
        "unsupported_events 1 a label has the reserved name `pprof.locations`",
    );
    case(
        |p| p.sample[0].location_id = vec![1; 10_001],
        "unsupported_events 1 the stack has more than 10000 frames",
    );
    let found: Vec<String> = cases.iter().map(|(profile, _)| warning(profile)).collect();
    assert_eq!(found, cases.iter().map(|(_, cause)| *cause).collect::<Vec<_>>());
}

#[test]
fn unknown_and_malformed_fields_are_counted() {
    let mut bytes = small().encode_to_vec();
    bytes.extend([0xa0, 0x01, 5, 0x12, 2, 0x0a, 9]);
    let expected = [
        "unreadable_events 1 byte 84: the sample is malformed",
        "unsupported_events 1 byte 81: profiles have no field 20",
    ];
    assert_eq!(warnings(&import_bytes(&bytes).unwrap()), expected);
}

#[test]
fn texts_that_are_not_utf8_are_repaired_and_counted() {
    let mut bytes = small().encode_to_vec();
    let position = bytes.windows(5).position(|window| window == b"inner").unwrap();
    bytes[position] = 0xff;
    let imported = import_bytes(&bytes).unwrap();
    assert_eq!(imported.imported.files[0].warnings[0].first.cause, "a text is not UTF-8");
    assert!(dump(&imported.run).contains("/frame:\u{fffd}nner"));
}

/// A kilobyte that expands to gigabytes of frames and texts is refused before it is expanded.
#[test]
fn references_do_not_expand_without_limit() {
    let mut frames = small();
    frames.location = (1..=10).map(|id| location(id, vec![line(1); 400])).collect();
    let functions = (1..=10).zip(1..);
    frames.function = functions.map(|(id, name)| function(id, name)).collect();
    frames.string_table.extend((0..10).map(|n| n.to_string()));
    for (location, id) in frames.location.iter_mut().zip(1..) {
        location.line[0].function_id = id;
    }
    let stacks = (0..1000).map(|n| vec![n % 10 + 1, n / 10 % 10 + 1, n / 100 + 1]);
    frames.sample = stacks.map(sample).collect();
    let mut texts = small();
    texts.string_table[3] = "x".repeat(1 << 16);
    texts.function = (1..=400).map(|id| function(id, 3)).collect();
    for profile in [frames, texts] {
        let fault = match import_bytes(&profile.encode_to_vec()) {
            Err(ImportError::Unusable { fault, .. }) => fault.cause,
            Ok(run) => run.imported.files[0].warnings[0].first.cause.clone(),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(fault, "the references of the profile expand to far more than the profile");
    }
}

fn function(id: u64, name: i64) -> Function {
    Function { id, name, ..Function::default() }
}

fn location(id: u64, line: Vec<Line>) -> Location {
    Location { id, line, ..Location::default() }
}

fn line(function_id: u64) -> Line {
    Line { function_id, number: 1, ..Line::default() }
}

fn sample(location_id: Vec<u64>) -> Sample {
    Sample { location_id, value: vec![1], label: Vec::new() }
}

/// Samples precede the entries that they refer to, so a truncated profile has hardly any stacks.
#[test]
fn every_truncation_is_a_fault_or_a_warning() {
    let bytes = small().encode_to_vec();
    let whole = import_bytes(&bytes).unwrap();
    assert_eq!((whole.imported.events, whole.imported.files[0].warnings.len()), (1, 0));
    for end in 3..bytes.len() {
        match import_bytes(&bytes[..end]) {
            // Truncated between fields, a profile is valid.
            Ok(run) => assert!(run.imported.events <= 1, "cut at {end}"),
            Err(ImportError::Unusable { fault, .. }) => {
                let is_cut = fault.cause == "the content ends in the middle of a field";
                assert!(is_cut || fault.cause.ends_with(" is missing"), "cut at {end}: {fault}");
            }
            Err(other) => panic!("cut at {end}: {other}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn damaged_files_never_panic(bytes in damaged(small().encode_to_vec())) {
        // The result is a run or an error.
        let result = import_bytes(&bytes).map(|run| dump(&run.run).len());
        prop_assert!(result.map_or_else(|error| !error.to_string().is_empty(), |length| length > 0));
    }
}
