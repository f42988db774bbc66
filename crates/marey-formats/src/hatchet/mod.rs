//! `.hatchet` and `.hatchet_msgpack`: a context tree with metrics, as Proton and marey write it.
//!
//! Both are the list `[ROOT, DEVICES]`, once as JSON and once as `MessagePack`. A window moves over
//! the file (`source`), a small tokenizer for each format (`json`, `msgpack`) cuts it into words,
//! and one reader (`reader`) makes a [`Profile`] of them. It keeps its own stack, so that a deep
//! tree costs heap and never the thread's stack. [`write()`] goes the other way.

mod columns;
mod error;
mod extras;
mod json;
mod msgpack;
mod parts;
mod reader;
mod run;
mod source;
mod sum;
mod token;
mod write;

use std::fs::File;
use std::path::Path;

use marey_model::profile::Profile;

pub use error::{Cause, ParseError, Place, ReadError};
pub use extras::FORMAT_VERSION;
pub(crate) use run::{export, import};
pub use sum::profile_of;
pub use write::{Format, write};

pub use crate::shared::MAX_DEPTH;

use error::Fault;
use json::JsonTokens;
use msgpack::MsgpackTokens;
use source::{FileInput, Input, Source, WINDOW_BYTES, unpacked};

/// Reads and checks the file at `path`, whichever of the two formats it holds, compressed or not.
///
/// A part of the file is in memory at a time.
pub fn read(path: &Path) -> Result<Profile, ReadError> {
    read_watched(path, &mut |_bytes| {})
}

/// The same; `watch` is told now and then how many bytes have been read.
pub fn read_watched(path: &Path, watch: &mut dyn FnMut(u64)) -> Result<Profile, ReadError> {
    let unreadable = |source| ReadError::Io { path: path.to_owned(), source };
    let file = File::open(path).and_then(unpacked).map_err(unreadable)?;
    let mut input = FileInput { file, bytes: 0, watch, error: None };
    let result = load(&mut input, WINDOW_BYTES);
    match input.error {
        Some(error) => Err(unreadable(error)),
        None => result.map_err(|source| ReadError::Malformed { path: path.to_owned(), source }),
    }
}

/// Reads and checks the content of a file; the content says which of the two formats it is.
pub fn parse(mut bytes: &[u8]) -> Result<Profile, ParseError> {
    load(&mut bytes, WINDOW_BYTES)
}

fn load(input: &mut dyn Input, window_bytes: usize) -> Result<Profile, ParseError> {
    let profile = read_either(Source::new(input, window_bytes))?;
    profile.check()?;
    Ok(profile)
}

fn read_either(mut source: Source<'_>) -> Result<Profile, Fault> {
    if source.peek(0).is_some_and(msgpack::may_start_with) {
        reader::read_profile(MsgpackTokens::new(source))
    } else {
        reader::read_profile(JsonTokens::new(source)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time, as a slow pipe does.
    struct Drip<'a>(&'a [u8]);

    impl Input for Drip<'_> {
        fn fill(&mut self, space: &mut [u8]) -> usize {
            self.0.fill(&mut space[..1])
        }
    }

    #[test]
    fn where_the_window_ends_makes_no_difference() {
        for file in [
            include_bytes!("../../tests/data/train.hatchet").as_slice(),
            include_bytes!("../../tests/data/minimal.hatchet_msgpack"),
            b"[{\"frame\": {\"name\": \"\\ud83d\\ude00\"}, \"metrics\": {\"a\": -Infinity, \"b\": 1e",
            b"[{\"frame\": {\"name\": \"n\"},\n\n   \"metrics\": {\"a\": nuII",
            b"[{\"frame\": {\"name\": \"\xc3\xa9\xff\"}",
        ] {
            let whole = format!("{:?}", parse(file));
            for window_bytes in 1..40 {
                assert_eq!(format!("{:?}", load(&mut { file }, window_bytes)), whole);
            }
            assert_eq!(format!("{:?}", load(&mut Drip(file), 16)), whole);
        }
    }
}
