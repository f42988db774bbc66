//! Written files are read back and have the layout of Proton's files.

use std::io;

use marey_formats::hatchet::{self, Format, MAX_DEPTH};
use marey_model::metric::MetricValue;
use marey_model::profile::{Metric, Node, NodeId, Profile};
use proptest::prelude::*;

use crate::profiles::profiles;
use crate::round_trip;

fn encode(profile: &Profile, format: Format) -> Vec<u8> {
    let mut file = Vec::new();
    hatchet::write(profile, format, &mut file).unwrap();
    file
}

/// Returns a root with this metric.
fn with_metric(key: &str, value: MetricValue) -> Profile {
    let mut metric = Metric::new(key.into());
    metric.push(NodeId::ROOT, value);
    let root = Node { name: "ROOT".into(), kind: None, parent: None };
    Profile { nodes: vec![root], metrics: vec![metric], ..Profile::default() }
}

#[test]
fn a_file_of_proton_survives_a_round_trip_byte_for_byte() {
    for (file, format) in [
        (include_bytes!("../data/proton.hatchet").as_slice(), Format::Json),
        (include_bytes!("../data/proton.hatchet_msgpack"), Format::Msgpack),
    ] {
        let again = encode(&hatchet::parse(file).unwrap(), format);
        assert!(again == file, "{}", String::from_utf8_lossy(&again));
    }
}

#[test]
fn extras_of_marey_survive_a_round_trip() {
    let profile = hatchet::parse(include_bytes!("../data/train.hatchet")).unwrap();
    round_trip::assert_round_trip(&profile);
    let file = String::from_utf8(encode(&profile, Format::Json)).unwrap();
    assert!(file.contains(
        r#"
                "marey": {"kind": "step", "sketch": [[930, 100]]},
                "metrics": {
                    "wall_count": 100,"#
    ));
}

#[test]
fn a_profile_without_extras_has_none_after_writing() {
    let file = encode(&with_metric("a", MetricValue::Int(1)), Format::Json);
    assert!(!String::from_utf8(file).unwrap().contains("marey"));
}

#[test]
fn nan_and_infinities_are_written_as_in_python() {
    for (value, word) in
        [(f64::NAN, "null"), (f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity")]
    {
        let file = encode(&with_metric("a", MetricValue::Float(value)), Format::Json);
        let line = format!("\n            \"a\": {word}\n");
        assert!(String::from_utf8(file).unwrap().contains(&line), "{word}");
    }
}

#[test]
fn inconsistent_profiles_are_refused() {
    let error = hatchet::write(&Profile::default(), Format::Json, &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(error.to_string(), "the profile has no root");
}

#[test]
fn the_deepest_tree_is_given_back_and_has_bounded_margins() {
    let node = |depth: usize| Node {
        name: "n".into(),
        kind: None,
        parent: depth.checked_sub(1).map(|above| NodeId(above as u32)),
    };
    let profile = Profile { nodes: (0..MAX_DEPTH).map(node).collect(), ..Profile::default() };
    round_trip::assert_round_trip(&profile);
    let file = String::from_utf8(encode(&profile, Format::Json)).unwrap();
    assert!(file.len() < 300 * MAX_DEPTH);
    let margins = file.lines().map(|line| line.len() - line.trim_start().len());
    assert_eq!(margins.max(), Some(400));
}

proptest! {
    #[test]
    fn every_profile_is_given_back(profile in profiles()) {
        prop_assert_eq!(profile.check(), Ok(()));
        round_trip::assert_round_trip(&profile);
    }
}
