//! What can be wrong with a file, and where.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::profile::Broken;

/// Why a file gave no profile.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file was read and is not a whole, sound profile.
    #[error("cannot read `{}`: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: ParseError,
    },
}

/// Why a sequence of bytes is no profile.
#[derive(Debug, PartialEq, Error)]
pub enum ParseError {
    /// The bytes cannot be read as a profile.
    #[error("{place}: {cause}")]
    Syntax {
        /// Where.
        place: Place,
        /// What.
        cause: Cause,
    },
    /// The bytes can be read, and what they say contradicts itself.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes before it.
    pub byte: usize,
    /// Line and column, both from 1 and the column in bytes, where the format has lines.
    pub line_and_column: Option<(usize, usize)>,
}

impl Place {
    pub(super) fn in_text(text: &[u8], byte: usize) -> Self {
        let before = &text[..byte.min(text.len())];
        let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let line = before.split(|&b| b == b'\n').count();
        Self { byte, line_and_column: Some((line, before.len() - line_start + 1)) }
    }

    pub(super) const fn in_binary(byte: usize) -> Self {
        Self { byte, line_and_column: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line_and_column {
            Some((line, column)) => {
                write!(f, "line {line}, column {column} (byte {})", self.byte)
            }
            None => write!(f, "byte {}", self.byte),
        }
    }
}

/// What is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Cause {
    /// There is nothing in the file.
    #[error("the file is empty")]
    Empty,
    /// The first byte starts neither format.
    #[error("the content is neither JSON nor MessagePack")]
    NotAProfile,
    /// The file stops inside the profile.
    #[error("the file ends in the middle of the profile")]
    UnexpectedEnd,
    /// The profile ends and the file goes on.
    #[error("the profile is complete, yet more follows")]
    TrailingBytes,
    /// A byte that cannot stand here.
    #[error("expected {expected}, found byte {}", show_byte(*.found))]
    UnexpectedByte {
        /// What may stand here.
        expected: &'static str,
        /// What does.
        found: u8,
    },
    /// A value of another type than the schema has here.
    #[error("expected {expected}, found {found}")]
    UnexpectedValue {
        /// What may stand here.
        expected: &'static str,
        /// What does.
        found: &'static str,
    },
    /// A text with a bad escape, a bare control character, or bytes that are not UTF-8.
    #[error("the text holds a bad escape, a control character or bytes that are not UTF-8")]
    BadText,
    /// Something that starts like a number and is none.
    #[error("the number is malformed or out of range")]
    BadNumber,
    /// A tree deeper than [`MAX_DEPTH`](super::MAX_DEPTH).
    #[error("the tree is more than {limit} levels deep")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// A node without `frame.name`.
    #[error("a node ends here that has no frame name")]
    Nameless,
    /// A file of a later marey.
    #[error("the file has version {found}, this marey reads versions up to {known}")]
    NewerVersion {
        /// The file's version.
        found: u64,
        /// The newest version that is understood.
        known: u64,
    },
}

fn show_byte(byte: u8) -> String {
    if byte.is_ascii_graphic() {
        format!("`{}`", char::from(byte))
    } else {
        format!("0x{byte:02x}")
    }
}

/// A cause and its offset, before the offset becomes a [`Place`].
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) offset: usize,
    pub(super) cause: Cause,
}
