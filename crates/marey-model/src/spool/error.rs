//! Why a spool cannot be read.

use std::io;

use thiserror::Error;

use super::{MAX_FRAME_BYTES, VERSION};

/// Why reading ended before the end. A torn tail is none of these: see [`super::Reader::torn`].
#[derive(Debug, Error)]
pub enum SpoolError {
    /// The input failed.
    #[error("cannot read the spool: {0}")]
    Io(#[from] io::Error),
    /// The first bytes are another file's.
    #[error("this is no spool: it does not start with `MAREYSPL`")]
    NotASpool,
    /// Another version.
    #[error("the spool is of version {found}; this program reads version {VERSION}")]
    Version {
        /// The file's version.
        found: u32,
    },
    /// The frame is intact, but its payload is not what its kind says.
    #[error("the frame at byte {offset} cannot be decoded: {reason}")]
    Malformed {
        /// Where the frame starts in the file.
        offset: u64,
        /// What is wrong.
        reason: Malformed,
    },
    /// The frame contradicts the ones before it.
    #[error("the frame at byte {offset} is not possible: {reason}")]
    Broken {
        /// Where the frame starts in the file.
        offset: u64,
        /// What is wrong.
        reason: Broken,
    },
}

/// What is wrong with the payload of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// No frame has this kind.
    #[error("{0} is no kind of frame")]
    Kind(u8),
    /// The payload ends too early.
    #[error("it ends within a field")]
    Short,
    /// The payload goes on after its last field.
    #[error("bytes follow its last field")]
    Long,
    /// A number does not fit into its field.
    #[error("a number is too large for its field")]
    TooLarge,
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// A number names nothing.
    #[error("{number} is no {what}")]
    Number {
        /// What it should name.
        what: &'static str,
        /// The number.
        number: u64,
    },
}

/// A contradiction between a frame and the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Broken {
    /// An id of a text that no frame has defined.
    #[error("it uses the text {0}, which is not defined")]
    NoSuchText(u32),
    /// A thread that no frame has introduced.
    #[error("it speaks of the thread {0}, which is not defined")]
    NoSuchThread(u32),
    /// An id of a node that no frame has defined.
    #[error("it uses the node {node} of the thread {thread}, which is not defined")]
    NoSuchNode {
        /// The thread.
        thread: u32,
        /// The node.
        node: u32,
    },
    /// An id of a shape that no frame has defined.
    #[error("it uses the shape {0}, which is not defined")]
    NoSuchShape(u32),
    /// A shape has its id already, or the ids of a frame go past the last one.
    #[error("it defines shapes from {0} on, of which one is defined already or has no id")]
    ShapeTwice(u32),
    /// A text has its id already, or the ids of a frame go past the last one.
    #[error("it defines texts from {0} on, of which one is defined already or has no id")]
    TextTwice(u32),
    /// A node has its id already, or the ids of a frame go past the last one.
    #[error(
        "it defines nodes of the thread {thread} from {first} on, of which one is defined already or has no id"
    )]
    NodeTwice {
        /// The thread.
        thread: u32,
        /// First id of the frame.
        first: u32,
    },
    /// A node does not come after its parent, or a root has one.
    #[error("the node {node} of the thread {thread} cannot have the parent {parent}")]
    Parent {
        /// The thread.
        thread: u32,
        /// The node.
        node: u32,
        /// The parent it names.
        parent: u32,
    },
    /// A frame after [`super::Frame::End`].
    #[error("it follows the end")]
    AfterEnd,
}

/// Why a frame cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a frame of {bytes} bytes is longer than {MAX_FRAME_BYTES}")]
pub struct TooLong {
    /// Its length.
    pub bytes: usize,
}

impl From<TooLong> for io::Error {
    fn from(error: TooLong) -> Self {
        Self::new(io::ErrorKind::InvalidInput, error)
    }
}
