//! Round trips of profiles.

use std::collections::BTreeMap;

use proptest::prelude::*;
use prost::Message as _;

use super::message::{Function, Label, Line, Location, Profile, Sample, ValueType};
use super::{export_profile, import_bytes};

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("a;b\n\"c\\".to_owned()),
        Just("file.py:3@f".to_owned()),
        Just("name (unit)".to_owned()),
        Just("x".repeat(5_000)),
        ".{0,12}",
    ]
}

/// Random profiles without dangling references.
fn profiles() -> impl Strategy<Value = Profile> {
    let texts = prop::collection::vec(name(), 4..10);
    let samples = prop::collection::vec(
        (
            prop::collection::vec(1..=4_u64, 0..6),
            -1_000_000_000_000_000_000..1_000_000_000_000_000_000_i64,
            prop::collection::vec(any::<(u8, u8, i8, u8)>(), 0..4),
        ),
        1..9,
    );
    let lines = prop::collection::vec(prop::collection::vec((1..=3_u64, any::<i64>()), 0..3), 4);
    (texts, samples, lines, any::<[u64; 4]>(), any::<(i64, i64)>()).prop_map(
        |(mut texts, samples, lines, addresses, (time_nanos, duration_nanos))| {
            texts.insert(0, String::new());
            texts.extend(["cpu".to_owned(), "bytes".to_owned()]);
            let count = i64::try_from(texts.len()).unwrap();
            let text = |number: u8| i64::from(number) % count;
            let label = |(key, kind, num, unit): (u8, u8, i8, u8)| match kind % 2 {
                0 => Label { key: text(key), text: text(kind), num: 0, num_unit: 0 },
                _ => Label { key: text(key), text: 0, num: num.into(), num_unit: text(unit) },
            };
            let line = |(function_id, number)| Line { function_id, number, column: 0 };
            Profile {
                sample_type: vec![
                    ValueType { kind: count - 2, unit: count - 1 },
                    ValueType { kind: 2, unit: count - 1 },
                ],
                sample: samples
                    .into_iter()
                    .map(|(location_id, value, labels)| Sample {
                        location_id,
                        value: vec![value, 1],
                        label: labels.into_iter().map(label).collect(),
                    })
                    .collect(),
                location: (1..)
                    .zip(lines)
                    .zip(addresses)
                    .map(|((id, lines), address)| Location {
                        id,
                        address,
                        line: lines.into_iter().map(line).collect(),
                        ..Location::default()
                    })
                    .collect(),
                function: (1..=3)
                    .zip(1..)
                    .map(|(id, name)| Function { id, name, filename: 4, ..Function::default() })
                    .collect(),
                string_table: texts,
                time_nanos,
                duration_nanos,
                ..Profile::default()
            }
        },
    )
}

/// Returns the meaning of a profile: sums by stack with ordered labels, without empty ones.
fn meaning(profile: &Profile) -> Vec<String> {
    let mut sums: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for sample in &profile.sample {
        let locations: Vec<String> =
            sample.location_id.iter().map(|&id| describe_location(profile, id)).collect();
        let mut labels: Vec<String> =
            sample.label.iter().map(|label| describe_label(profile, label)).collect();
        labels.sort();
        let values = sums.entry(format!("{locations:?} {labels:?}")).or_insert_with(|| vec![0; 2]);
        for (sum, value) in values.iter_mut().zip(&sample.value) {
            *sum += value;
        }
    }
    let mut lines: Vec<String> =
        sums.iter().map(|(key, values)| format!("{key} {values:?}")).collect();
    lines.push(format!("{} {}", profile.time_nanos, profile.duration_nanos));
    lines.push(format!("{:?}", profile.types()));
    lines
}

fn describe_location(profile: &Profile, id: u64) -> String {
    let location = profile.location.iter().find(|location| location.id == id).unwrap();
    let lines: Vec<_> = location
        .line
        .iter()
        .map(|line| {
            let mut functions = profile.function.iter();
            let function = functions.find(|function| function.id == line.function_id).unwrap();
            (profile.text(function.name), profile.text(function.filename), line.number)
        })
        .collect();
    format!("{:#x} {lines:?}", location.address)
}

fn describe_label(profile: &Profile, label: &Label) -> String {
    let (key, text) = (profile.text(label.key), profile.text(label.text));
    // The number 0 and an empty text have the same encoding.
    format!("{key:?} {text:?} {} {:?}", label.num, profile.text(label.num_unit))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn profiles_survive_a_round_trip(profile in profiles()) {
        let imported = import_bytes(&profile.encode_to_vec()).unwrap();
        prop_assume!(imported.imported.files[0].warnings.is_empty());
        let (again, _) = export_profile(&imported.run);
        prop_assert_eq!(meaning(&again), meaning(&profile));
    }
}
