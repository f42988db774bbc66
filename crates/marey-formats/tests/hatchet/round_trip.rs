//! What holds for every sequence of bytes. The fuzzer and the tests ask for the same.

use marey_formats::hatchet::{self, Format};
use marey_model::profile::Profile;

/// Reading gives an error or a sound profile, which both formats give back.
pub(crate) fn holds_for(bytes: &[u8]) {
    if let Ok(profile) = hatchet::parse(bytes) {
        assert_eq!(profile.check(), Ok(()));
        assert_is_given_back(&profile);
    }
}

/// Both formats give back what is written. NaN equals NaN here, and 0 is not -0.
pub(crate) fn assert_is_given_back(profile: &Profile) {
    for format in [Format::Json, Format::Msgpack] {
        let mut file = Vec::new();
        hatchet::write(profile, format, &mut file).unwrap();
        let again = hatchet::parse(&file).unwrap();
        assert_eq!(format!("{again:?}"), format!("{profile:?}"), "as {format:?}");
    }
}
