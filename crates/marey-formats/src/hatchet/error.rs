//! What can be wrong with a file, and where.

use std::fmt;
use std::io;
use std::path::PathBuf;

use marey_model::profile::Broken;
use thiserror::Error;

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
    pub byte: u64,
    /// Line and column, both from 1 and the column in bytes, where the format has lines.
    pub line_and_column: Option<(u64, u64)>,
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
    #[error("the content is neither a JSON nor a MessagePack profile")]
    NotAProfile,
    /// A map with `traceEvents`, as Chrome, Kineto and Proton write it.
    #[error("this is a trace (it has `traceEvents`), not a `.hatchet` file")]
    Trace,
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
    /// A key that its map has already.
    #[error("`{}` stands twice in one map", show_text(.key))]
    Duplicate {
        /// The key.
        key: Box<str>,
    },
    /// A text with bytes that are not UTF-8.
    #[error("the text is not UTF-8")]
    NotUtf8,
    /// A text with a control character that is not escaped.
    #[error("the text holds the bare control character {}", show_byte(*.found))]
    ControlCharacter {
        /// The character.
        found: u8,
    },
    /// A backslash with something behind it that JSON does not know.
    #[error("the text holds a bad escape")]
    BadEscape,
    /// Half of a pair of `\u` escapes.
    #[error("the text holds a lone surrogate")]
    LoneSurrogate,
    /// Something that starts like a number and is none.
    #[error("the number is malformed")]
    BadNumber,
    /// A number beyond 64 bits.
    #[error("the number is out of range")]
    NumberOutOfRange,
    /// A tree, or a value that is skipped, deeper than [`MAX_DEPTH`](super::MAX_DEPTH).
    #[error("the nesting is more than {limit} levels deep")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// More nodes than have numbers.
    #[error("the tree has more than {} nodes", u32::MAX)]
    TooManyNodes,
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

/// The text on one line and of a length to read.
fn show_text(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// A cause and its place, on the way to the caller.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) place: Place,
    pub(super) cause: Cause,
}

impl From<Fault> for ParseError {
    fn from(Fault { place, cause }: Fault) -> Self {
        Self::Syntax { place, cause }
    }
}
