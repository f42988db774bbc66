//! Properties that hold for any bytes. The fuzzer and the tests check them.

use marey_formats::hatchet::{self, Format};
use marey_model::profile::Profile;

/// Checks that reading returns an error, or a valid profile that survives a round trip in both
/// encodings.
pub(crate) fn check_any_file(bytes: &[u8]) {
    if let Ok(profile) = hatchet::parse(bytes) {
        assert_eq!(profile.check(), Ok(()));
        assert_round_trip(&profile);
    }
}

/// Checks that a profile survives a round trip in both encodings. NaN equals NaN here, and 0 is not
/// -0.
pub(crate) fn assert_round_trip(profile: &Profile) {
    for format in [Format::Json, Format::Msgpack] {
        let mut file = Vec::new();
        hatchet::write(profile, format, &mut file).unwrap();
        let again = hatchet::parse(&file).unwrap();
        assert_eq!(format!("{again:?}"), format!("{profile:?}"), "as {format:?}");
    }
}
