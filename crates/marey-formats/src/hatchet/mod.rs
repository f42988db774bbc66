//! `.hatchet` and `.hatchet_msgpack`: a context tree with metrics, as Proton and marey write it.
//!
//! Both are the list `[ROOT, DEVICES]`, once as JSON and once as `MessagePack`. A small tokenizer
//! for each (`json`, `msgpack`) feeds one reader (`reader`) that keeps its own stack, so that
//! a deep tree costs heap and never the thread's stack.

mod error;
mod extras;
mod json;
mod msgpack;
mod parts;
mod profile;
mod reader;
mod rollup;
mod token;

use std::fs;
use std::path::Path;

pub use error::{Cause, ParseError, Place, ReadError};
pub use extras::FORMAT_VERSION;
pub use profile::{Broken, Device, Meta, MetricKey, Node, NodeId, Overhead, Process, Profile};
pub use reader::MAX_DEPTH;

use error::Fault;
use json::JsonTokens;
use msgpack::MsgpackTokens;

/// Reads and checks the file at `path`, whichever of the two formats it holds.
pub fn read(path: &Path) -> Result<Profile, ReadError> {
    let bytes = fs::read(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    parse(&bytes).map_err(|source| ReadError::Malformed { path: path.to_owned(), source })
}

/// Reads and checks the content of a file; the content says which of the two formats it is.
pub fn parse(bytes: &[u8]) -> Result<Profile, ParseError> {
    let is_json = bytes.trim_ascii_start().first().is_some_and(|&byte| json::may_start_with(byte));
    let result = if is_json {
        reader::read_profile(JsonTokens::new(bytes))
    } else if bytes.first().is_some_and(|&byte| msgpack::may_start_with(byte)) {
        reader::read_profile(MsgpackTokens::new(bytes))
    } else if bytes.trim_ascii().is_empty() {
        Err(Fault { offset: bytes.len(), cause: Cause::Empty })
    } else {
        Err(Fault { offset: 0, cause: Cause::NotAProfile })
    };
    let profile = result.map_err(|fault| ParseError::Syntax {
        place: if is_json {
            Place::in_text(bytes, fault.offset)
        } else {
            Place::in_binary(fault.offset)
        },
        cause: fault.cause,
    })?;
    profile.check()?;
    Ok(profile)
}
