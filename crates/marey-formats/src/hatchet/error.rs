//! The errors of reading a `.hatchet` file, with their positions.

use std::fmt;
use std::io;
use std::path::PathBuf;

use marey_model::profile::InvalidProfile;
use thiserror::Error;

/// Why a file could not be read as a profile.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file was read, but its content is not a complete and valid profile.
    #[error("cannot read `{}`: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The error in the content.
        source: ParseError,
    },
}

/// Why a sequence of bytes is not a profile.
#[derive(Debug, PartialEq, Error)]
pub enum ParseError {
    /// The bytes cannot be parsed.
    #[error("{position}: {cause}")]
    Syntax {
        /// The position.
        position: Position,
        /// The cause.
        cause: SyntaxCause,
    },
    /// The bytes can be parsed, but the profile breaks an invariant.
    #[error(transparent)]
    Invalid(#[from] InvalidProfile),
}

/// A position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Byte offset.
    pub byte_offset: u64,
    /// Line and column, both from 1 and the column in bytes, if the format has lines.
    pub line_and_column: Option<(u64, u64)>,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line_and_column {
            Some((line, column)) => {
                write!(f, "line {line}, column {column} (byte {})", self.byte_offset)
            }
            None => write!(f, "byte {}", self.byte_offset),
        }
    }
}

/// The cause of a syntax error.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SyntaxCause {
    /// The file has no content.
    #[error("the file is empty")]
    Empty,
    /// The first byte starts neither format.
    #[error("the content is neither a JSON nor a MessagePack profile")]
    NotAProfile,
    /// A map with `traceEvents`, as Chrome, Kineto and Proton write it.
    #[error("this is a trace (it has `traceEvents`), not a `.hatchet` file")]
    Trace,
    /// The file ends inside the profile.
    #[error("the file ends in the middle of the profile")]
    UnexpectedEnd,
    /// The file continues after the profile.
    #[error("unexpected content after the end of the profile")]
    TrailingBytes,
    /// A byte that is not allowed here.
    #[error("expected {expected}, found byte {}", format_byte(*.found))]
    UnexpectedByte {
        /// The allowed bytes.
        expected: &'static str,
        /// The byte in the file.
        found: u8,
    },
    /// A value of another type than the schema has here.
    #[error("expected {expected}, found {found}")]
    UnexpectedValue {
        /// The allowed types.
        expected: &'static str,
        /// The type in the file.
        found: &'static str,
    },
    /// A key that appears twice in one map.
    #[error("`{}` appears twice in one map", shorten_text(.key))]
    Duplicate {
        /// The key.
        key: Box<str>,
    },
    /// A text with bytes that are not UTF-8.
    #[error("the text is not UTF-8")]
    NotUtf8,
    /// A text with a control character that is not escaped.
    #[error("the text contains the unescaped control character {}", format_byte(*.found))]
    ControlCharacter {
        /// The character.
        found: u8,
    },
    /// A backslash that begins no escape of JSON.
    #[error("the text contains an invalid escape")]
    BadEscape,
    /// Half of a pair of `\u` escapes.
    #[error("the text contains a lone surrogate")]
    LoneSurrogate,
    /// A word that begins like a number but is not one.
    #[error("the number is malformed")]
    BadNumber,
    /// A number beyond 64 bits.
    #[error("the number is out of range")]
    NumberOutOfRange,
    /// A tree, or a skipped value, deeper than [`MAX_DEPTH`](super::MAX_DEPTH).
    #[error("the nesting is more than {limit} levels deep")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// More nodes than there are ids.
    #[error("the tree has more than {} nodes", u32::MAX)]
    TooManyNodes,
    /// A node without `frame.name`.
    #[error("the node that ends here has no frame name")]
    Nameless,
    /// A file from a later version of marey.
    #[error("the file has version {found}, this marey reads versions up to {known}")]
    NewerVersion {
        /// The file's version.
        found: u64,
        /// The newest version that can be read.
        known: u64,
    },
}

fn format_byte(byte: u8) -> String {
    if byte.is_ascii_graphic() {
        format!("`{}`", char::from(byte))
    } else {
        format!("0x{byte:02x}")
    }
}

/// Escapes a text to one line and truncates it.
fn shorten_text(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    let mut shown: String = text.chars().take(MAX_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// An error with its position, inside the readers.
#[derive(Debug)]
pub(super) struct SyntaxFault {
    pub(super) position: Position,
    pub(super) cause: SyntaxCause,
}

impl From<SyntaxFault> for ParseError {
    fn from(SyntaxFault { position, cause }: SyntaxFault) -> Self {
        Self::Syntax { position, cause }
    }
}
