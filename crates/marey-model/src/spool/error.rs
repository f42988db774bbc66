//! The errors of reading and writing a spool.

use std::io;

use thiserror::Error;

use super::{MAX_FRAME_BYTES, VERSION};

/// An error that ends reading. A torn tail is not an error: see [`super::SpoolReader::torn`].
#[derive(Debug, Error)]
pub enum SpoolError {
    /// Reading the input failed.
    #[error("cannot read the spool: {0}")]
    Io(#[from] io::Error),
    /// The file does not start with the magic bytes.
    #[error("not a spool: it does not start with `MAREYSPL`")]
    NotASpool,
    /// The version is not supported.
    #[error("unsupported spool version {found}; this program reads version {VERSION}")]
    Version {
        /// Version of the file.
        found: u32,
    },
    /// The CRC of the frame is valid, but its payload cannot be decoded.
    #[error("the frame at byte {offset} cannot be decoded: {reason}")]
    Malformed {
        /// Offset of the frame in the file.
        offset: u64,
        /// Cause.
        reason: Malformed,
    },
    /// The frame contradicts earlier ones.
    #[error("the frame at byte {offset} is inconsistent: {reason}")]
    Inconsistent {
        /// Offset of the frame in the file.
        offset: u64,
        /// Cause.
        reason: Inconsistency,
    },
}

/// The reason why the payload of a frame cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The frame kind is unknown.
    #[error("unknown frame kind {0}")]
    UnknownKind(u8),
    /// The payload ends too early.
    #[error("it ends within a field")]
    UnexpectedEnd,
    /// Bytes follow the last field.
    #[error("bytes follow its last field")]
    TrailingBytes,
    /// A number does not fit into its field.
    #[error("a number is too large for its field")]
    TooLarge,
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    NotUtf8,
    /// A number is not a valid value of its field.
    #[error("invalid {field}: {number}")]
    InvalidValue {
        /// Name of the field.
        field: &'static str,
        /// The number.
        number: u64,
    },
}

/// A contradiction between a frame and earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Inconsistency {
    /// A text id that no frame has defined.
    #[error("text {0} is not defined")]
    NoSuchText(u32),
    /// A thread that no frame has defined.
    #[error("thread {0} is not defined")]
    NoSuchThread(u32),
    /// A node id that no frame has defined.
    #[error("node {node} of thread {thread} is not defined")]
    NoSuchNode {
        /// The thread.
        thread: u32,
        /// The node.
        node: u32,
    },
    /// A shape id that no frame has defined.
    #[error("shape {0} is not defined")]
    NoSuchShape(u32),
    /// Shape ids, from this one on, that are already defined or exceed `u32::MAX`.
    #[error("the shape ids from {0} on are out of range or already defined")]
    DuplicateShapes(u32),
    /// An id of span arguments that no frame has defined.
    #[error("the span arguments {0} are not defined")]
    NoSuchSpanArgs(u32),
    /// Ids of span arguments, from this one on, that are already defined or exceed `u32::MAX`.
    #[error("the ids of span arguments from {0} on are out of range or already defined")]
    DuplicateSpanArgs(u32),
    /// Text ids, from this one on, that are already defined or exceed `u32::MAX`.
    #[error("the text ids from {0} on are out of range or already defined")]
    DuplicateTexts(u32),
    /// Node ids, from this one on, that are already defined or exceed `u32::MAX`.
    #[error("the node ids of thread {thread} from {first} on are out of range or already defined")]
    DuplicateNodes {
        /// The thread.
        thread: u32,
        /// First id that the frame defines.
        first: u32,
    },
    /// A node does not have a larger id than its parent, or a root has a parent.
    #[error("node {node} of thread {thread} cannot have the parent {parent}")]
    Parent {
        /// The thread.
        thread: u32,
        /// The node.
        node: u32,
        /// The invalid parent.
        parent: u32,
    },
    /// A frame after [`super::SpoolFrame::End`].
    #[error("it follows the end frame")]
    AfterEnd,
}

/// A frame that is too long to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a frame of {bytes} bytes is longer than {MAX_FRAME_BYTES}")]
pub struct FrameTooLong {
    /// Size of the frame.
    pub bytes: usize,
}

impl From<FrameTooLong> for io::Error {
    fn from(error: FrameTooLong) -> Self {
        Self::new(io::ErrorKind::InvalidInput, error)
    }
}
