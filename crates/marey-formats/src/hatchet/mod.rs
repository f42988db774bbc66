//! Reads and writes `.hatchet` and `.hatchet_msgpack`: a context tree with metrics, as Proton and
//! marey write it.
//!
//! Both are the list `[ROOT, DEVICES]`, as JSON or `MessagePack`. A buffer moves over the file
//! (`source`), a tokenizer for each format (`json`, `msgpack`) splits it into tokens, and one
//! reader (`reader`) builds a [`Profile`]. The reader has an explicit stack on the heap, so a deep
//! tree does not overflow the stack of the thread. [`write()`] is the inverse.

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

pub use error::{ParseError, Position, ReadError, SyntaxCause};
pub use profile::profile_from_run;
pub(crate) use run::{export, import};
pub use write::write;

pub use crate::shared::MAX_DEPTH;

use error::SyntaxFault;
use json::JsonTokens;
use msgpack::MsgpackTokens;
use source::{ByteInput, FileInput, Source, WINDOW_BYTES, open_decompressed};

/// Reads and checks the file at `path` in either format, compressed or not.
///
/// Only a part of the file is in memory at a time.
pub fn read(path: &Path) -> Result<Profile, ReadError> {
    read_with_progress(path, &mut |_bytes| {})
}

/// Like [`read`], but also passes the number of bytes read so far to `progress` from time to time.
pub fn read_with_progress(
    path: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Profile, ReadError> {
    let unreadable = |source| ReadError::Io { path: path.to_owned(), source };
    let file = File::open(path).and_then(open_decompressed).map_err(unreadable)?;
    let mut input = FileInput { file, read_bytes: 0, progress, error: None };
    let result = read_checked(&mut input, WINDOW_BYTES);
    match input.error {
        Some(error) => Err(unreadable(error)),
        None => result.map_err(|source| ReadError::Malformed { path: path.to_owned(), source }),
    }
}

/// Reads and checks the content of a file in either format.
pub fn parse(mut bytes: &[u8]) -> Result<Profile, ParseError> {
    read_checked(&mut bytes, WINDOW_BYTES)
}

fn read_checked(input: &mut dyn ByteInput, buffer_bytes: usize) -> Result<Profile, ParseError> {
    let profile = read_any_format(Source::new(input, buffer_bytes))?;
    profile.check()?;
    Ok(profile)
}

fn read_any_format(mut source: Source<'_>) -> Result<Profile, SyntaxFault> {
    if source.peek(0).is_some_and(msgpack::can_begin_profile) {
        reader::read_profile(MsgpackTokens::new(source))
    } else {
        reader::read_profile(JsonTokens::new(source)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields one byte at a time, like a slow pipe.
    struct ByteByByte<'a>(&'a [u8]);

    impl ByteInput for ByteByByte<'_> {
        fn fill(&mut self, space: &mut [u8]) -> usize {
            self.0.fill(&mut space[..1])
        }
    }

    #[test]
    fn the_buffer_size_does_not_change_the_result() {
        for file in [
            include_bytes!("../../tests/data/train.hatchet").as_slice(),
            include_bytes!("../../tests/data/minimal.hatchet_msgpack"),
            b"[{\"frame\": {\"name\": \"\\ud83d\\ude00\"}, \"metrics\": {\"a\": -Infinity, \"b\": 1e",
            b"[{\"frame\": {\"name\": \"n\"},\n\n   \"metrics\": {\"a\": nuII",
            b"[{\"frame\": {\"name\": \"\xc3\xa9\xff\"}",
        ] {
            let expected = format!("{:?}", parse(file));
            for buffer_bytes in 1..40 {
                assert_eq!(format!("{:?}", read_checked(&mut { file }, buffer_bytes)), expected);
            }
            assert_eq!(format!("{:?}", read_checked(&mut ByteByByte(file), 16)), expected);
        }
    }
}
