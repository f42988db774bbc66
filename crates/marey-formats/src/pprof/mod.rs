//! Reads and writes pprof profiles: samples by call stack, in a protobuf message.
//!
//! The context of a frame has the name of its function. So stacks are merged by function, as in
//! pprof's own views. The other data of a file are kept too. The argument `pprof.locations` of a
//! sample lists the ids of its locations, innermost first. Rows of `metadata` contain the locations
//! (`pprof.location.7`), functions, mappings and the metadata of the whole file ([`metadata`]). So
//! an imported profile is exported unchanged.

mod describe;
mod message;
mod metadata;
mod read;
mod stacks;
mod symbols;
mod tables;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;

use crate::shared::protobuf::{Field, Fields, LENGTH_DELIMITED, VARINT};

/// Whether the first three fields of a file have the numbers and wire types of fields of a profile.
pub(crate) fn is_profile(head: &[u8]) -> bool {
    let is_profile_field = |field: &Field| {
        matches!(
            (field.number, field.wire_type()),
            (1..=6 | 11 | 13, LENGTH_DELIMITED) | (7..=10 | 12..=15, VARINT)
        )
    };
    let matching = Fields::new(head).take(3).map_while(Result::ok).filter(is_profile_field);
    matching.count() == 3
}

/// The argument of a sample that has the ids of its locations.
const LOCATIONS_ARG: &str = "pprof.locations";
