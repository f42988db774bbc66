//! Why a value cannot be read.

use thiserror::Error;

use crate::AttachError;
use crate::object::ReadError;

/// Why a value cannot be read.
#[derive(Debug, Error)]
pub enum InspectError {
    /// The process cannot be read at all.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The value changed in each attempt to read it.
    #[error("the value changed while it was read")]
    Changed,
    /// The value has too many parts.
    #[error("the value is too large to be read from outside")]
    TooLarge,
    /// The thread has no Python frames, or does not exist.
    #[error("the process has no thread {0} that runs Python")]
    NoThread(u64),
    /// The stack has fewer frames.
    #[error("the thread has no frame {frame}: it has {frames}, and the innermost one is 0")]
    NoFrame {
        /// The number asked for.
        frame: usize,
        /// Number of frames.
        frames: usize,
    },
    /// No stack has a frame of the function.
    #[error("no thread is in a function `{name}`")]
    NoFunction {
        /// The name asked for.
        name: String,
        /// Functions on the stacks.
        names: Vec<String>,
    },
    /// Several threads are in the function.
    #[error("several threads are in `{name}`: {}", thread_list(threads))]
    SeveralThreads {
        /// The function.
        name: String,
        /// The threads.
        threads: Vec<u64>,
    },
    /// There is no such name.
    #[error("there is no {place} `{name}`")]
    NoName {
        /// The kind of the names.
        place: &'static str,
        /// The name.
        name: String,
        /// The names that exist.
        names: Vec<String>,
    },
    /// The object has no such attribute.
    #[error("`{path}` ({class}) stores no attribute `{name}`{}", computed_hint(*is_computed))]
    NoAttribute {
        /// The expression of the object.
        path: String,
        /// Class of the object.
        class: String,
        /// The attribute.
        name: String,
        /// Whether the class computes attributes by `__getattr__`.
        is_computed: bool,
        /// The attributes that exist.
        names: Vec<String>,
    },
    /// The attribute is computed by code of the program.
    #[error(
        "`{path}.{name}` is not stored: it is computed by a `{descriptor}`, which would run code"
    )]
    Computed {
        /// The expression of the object.
        path: String,
        /// The attribute.
        name: String,
        /// Class of the descriptor.
        descriptor: String,
    },
    /// The object is no built-in container, or has a method of its own for indexes.
    #[error(
        "`{path}` ({class}) cannot be indexed: only lists, tuples and dictionaries can without \
         running code"
    )]
    NotIndexable {
        /// The expression of the object.
        path: String,
        /// Class of the object.
        class: String,
    },
    /// The sequence is shorter.
    #[error("`{path}` has no item {index}: its length is {length}")]
    OutOfRange {
        /// The expression of the sequence.
        path: String,
        /// The index.
        index: i64,
        /// Length of the sequence.
        length: u64,
    },
    /// The dictionary has no such key.
    #[error("`{path}` has no key {key}")]
    NoKey {
        /// The expression of the dictionary.
        path: String,
        /// The key in the form of Python.
        key: String,
        /// Keys that exist.
        names: Vec<String>,
    },
}

impl From<ReadError> for InspectError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Changed => Self::Changed,
            ReadError::TooLarge => Self::TooLarge,
        }
    }
}

impl InspectError {
    /// Returns the unknown name and the names that exist, for a suggestion.
    pub fn unknown_name(&self) -> Option<(&str, &[String])> {
        match self {
            Self::NoFunction { name, names }
            | Self::NoName { name, names, .. }
            | Self::NoAttribute { name, names, .. } => Some((name, names)),
            Self::NoKey { key, names, .. } => Some((key.trim_matches(['\'', '"']), names)),
            _ => None,
        }
    }
}

const fn computed_hint(is_computed: bool) -> &'static str {
    if is_computed {
        "; its class may compute it by `__getattr__`, which would run code"
    } else {
        ""
    }
}

fn thread_list(threads: &[u64]) -> String {
    threads.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
