//! `.hatchet` and `.hatchet_msgpack`: a context tree with metrics, as Proton and marey write it.
//!
//! Both are the list `[ROOT, DEVICES]`, as JSON or `MessagePack`. A window moves over the file
//! (`source`), a tokenizer for each format (`json`, `msgpack`) splits it into tokens, and one
//! reader (`reader`) builds a [`Profile`]. The reader has an explicit stack on the heap, so deep
//! trees do not overflow the thread's. [`write()`] is the inverse.

mod columns;
mod error;
mod extras;
mod json;
mod msgpack;
mod profile;
mod reader;
mod run;
mod source;
mod token;
mod values;
mod write;

use std::fs::File;
use std::path::Path;

pub use marey_model::hatchet::{Format, VERSION as FORMAT_VERSION};
use marey_model::profile::Profile;

pub use error::{Cause, ParseError, Position, ReadError};
pub use profile::profile_of;
pub(crate) use run::{export, import};
pub use write::write;

pub use crate::shared::MAX_DEPTH;

use error::Fault;
use json::JsonTokens;
use msgpack::MsgpackTokens;
use source::{FileInput, Input, Source, WINDOW_BYTES, decompressed};

/// Reads and checks the file at `path` in either format, compressed or not.
///
/// Only a window of the file is in memory at a time.
pub fn read(path: &Path) -> Result<Profile, ReadError> {
    read_watched(path, &mut |_bytes| {})
}

/// Like [`read`], and passes the number of bytes read so far to `progress` now and then.
pub fn read_watched(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<Profile, ReadError> {
    let unreadable = |source| ReadError::Io { path: path.to_owned(), source };
    let file = File::open(path).and_then(decompressed).map_err(unreadable)?;
    let mut input = FileInput { file, bytes: 0, progress, error: None };
    let result = load(&mut input, WINDOW_BYTES);
    match input.error {
        Some(error) => Err(unreadable(error)),
        None => result.map_err(|source| ReadError::Malformed { path: path.to_owned(), source }),
    }
}

/// Reads and checks the content of a file in either format.
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

    /// Yields one byte at a time, like a slow pipe.
    struct Drip<'a>(&'a [u8]);

    impl Input for Drip<'_> {
        fn fill(&mut self, space: &mut [u8]) -> usize {
            self.0.fill(&mut space[..1])
        }
    }

    #[test]
    fn the_window_size_does_not_change_the_result() {
        for file in [
            include_bytes!("../../tests/data/train.hatchet").as_slice(),
            include_bytes!("../../tests/data/minimal.hatchet_msgpack"),
            b"[{\"frame\": {\"name\": \"\\ud83d\\ude00\"}, \"metrics\": {\"a\": -Infinity, \"b\": 1e",
            b"[{\"frame\": {\"name\": \"n\"},\n\n   \"metrics\": {\"a\": nuII",
            b"[{\"frame\": {\"name\": \"\xc3\xa9\xff\"}",
        ] {
            let int = format!("{:?}", parse(file));
            for window_bytes in 1..40 {
                assert_eq!(format!("{:?}", load(&mut { file }, window_bytes)), int);
            }
            assert_eq!(format!("{:?}", load(&mut Drip(file), 16)), int);
        }
    }
}
