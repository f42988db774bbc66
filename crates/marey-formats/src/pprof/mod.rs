//! pprof: samples by call stack, as a protobuf message.
//!
//! A frame's context has the name of its function, so that stacks add up by function as pprof's own
//! views do. Everything else that a file says is kept beside: a sample's `pprof.locations` are the
//! numbers of its locations, innermost first, and rows of `metadata` say what those are
//! (`pprof.location.7`), as well as functions, mappings and what concerns the whole file ([`facts`]).
//! So a profile that was read is written again as it was.

mod describe;
mod facts;
mod message;
mod read;
mod stacks;
mod symbols;
mod tables;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;

use crate::shared::protobuf::{BYTES, Field, Fields, VARINT};

/// Whether the first three fields of a file have the numbers and wire types of a profile's fields.
pub(crate) fn is_profile(head: &[u8]) -> bool {
    let is_known = |field: &Field| {
        matches!(
            (field.number, field.wire_type()),
            (1..=6 | 11 | 13, BYTES) | (7..=10 | 12..=15, VARINT)
        )
    };
    let known = Fields::of(head).take(3).map_while(Result::ok).filter(is_known);
    known.count() == 3
}

/// The argument of a sample that has the numbers of its locations.
const LOCATIONS: &str = "pprof.locations";
