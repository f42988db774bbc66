//! Writer of profiles in Proton's schema.

mod document;
mod json;
mod msgpack;

use std::io::{self, BufWriter, Write};

use marey_model::profile::Profile;

use document::Document;
use json::Json;
use msgpack::Msgpack;

/// The two encodings of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `.hatchet` in Proton's layout: four spaces for each level, sorted keys.
    Json,
    /// `.hatchet_msgpack`.
    Msgpack,
}

/// Writes a profile so that [`parse`](super::parse) and `proton-viewer` can read it.
///
/// A node's metrics have the profile's order. marey's extras are written if the profile has any.
/// JSON has no NaN and no infinities: NaN becomes `null`, and infinities become `Infinity` and
/// `-Infinity`, as in Python's `json` module.
///
/// A profile that is read back is equal if it is in the form that readers produce: devices are
/// grouped by family, metrics have values and are in the order of their first occurrence, their
/// values are [normalised](marey_model::profile::Values::normalise), an empty list of numbers is a list
/// of integers, and the tree is not deeper than [`MAX_DEPTH`](super::MAX_DEPTH).
///
/// # Errors
///
/// Errors of `out`, and `InvalidInput` for a profile that [`Profile::check`] refuses.
pub fn write(profile: &Profile, format: Format, out: &mut impl Write) -> io::Result<()> {
    profile.check().map_err(|broken| io::Error::new(io::ErrorKind::InvalidInput, broken))?;
    let mut out = BufWriter::new(out);
    let document = Document::new(profile);
    match format {
        Format::Json => document.write(&mut Json::new(&mut out))?,
        Format::Msgpack => document.write(&mut Msgpack::new(&mut out))?,
    }
    out.flush()
}
