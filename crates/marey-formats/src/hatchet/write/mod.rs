//! A profile into a file, in Proton's schema.

mod document;
mod json;
mod msgpack;

use std::io::{self, BufWriter, Write};

use marey_model::profile::Profile;

use document::Document;
use json::Json;
use msgpack::Msgpack;

/// The two forms of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `.hatchet`, laid out as Proton does: four spaces a level, keys of a node sorted.
    Json,
    /// `.hatchet_msgpack`.
    Msgpack,
}

/// Writes a profile as [`parse`](super::parse) and `proton-viewer` read it.
///
/// A node's metrics stand in the profile's order. marey's own part stands where the profile has any
/// of it. JSON has no word for what is no number: NaN becomes `null`, and infinities become
/// `Infinity` and `-Infinity`, as in Python's `json` module.
///
/// What is read back is equal, if the profile is as readers make it: devices of one family stand
/// together, metrics have values and stand in the order in which a walk over the nodes meets them,
/// their values are [normalised](marey_model::profile::Values::normalise), an empty list of numbers is one of whole numbers, and the
/// tree is not deeper than [`MAX_DEPTH`](super::MAX_DEPTH).
///
/// # Errors
/// Those of `out`, and `InvalidInput` for a profile that [`Profile::check`] finds broken.
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
