//! The recorder's output: profile documents, their formats, and their files.

mod chrome;
mod device_events;
mod file;
mod hatchet;

#[cfg(test)]
mod tests;

pub(crate) use self::chrome::{Extent, Playback};
pub use self::device_events::DeviceEvent;
pub(crate) use self::device_events::read as read_device_events;
pub(crate) use self::file::Outputs;

use crate::error::Error;
use crate::losses;
use crate::merged::MergedTree;
use marey_model::hatchet::{Format as Encoding, Producer, write};
use marey_model::profile::Meta;
use std::io::{self, Write};
use std::ops::Range;
use std::str::FromStr;

/// A file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Proton's JSON.
    #[default]
    Hatchet,
    /// Proton's document in MessagePack.
    HatchetMsgpack,
    /// Every event, in the format of Chrome and Perfetto. Only for trace sessions.
    ChromeTrace,
    /// The run directory with every event. Nothing is written: the spool of the session is in it.
    /// Only for trace sessions.
    Run,
}

impl Format {
    /// All formats, in the order of their numbers in the C interface.
    pub const ALL: [Self; 4] = [Self::Hatchet, Self::HatchetMsgpack, Self::ChromeTrace, Self::Run];

    /// Returns the name of the format, which is also the file's extension.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hatchet => "hatchet",
            Self::HatchetMsgpack => "hatchet_msgpack",
            Self::ChromeTrace => "chrome_trace",
            Self::Run => "marey",
        }
    }

    /// Whether the format consists of single events.
    pub const fn needs_trace(self) -> bool {
        matches!(self, Self::ChromeTrace | Self::Run)
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        let format = Self::ALL.into_iter().find(|format| format.as_str() == word);
        format.ok_or_else(|| Error::UnknownFormat(word.to_owned()))
    }
}

/// The contents of a file.
#[derive(Debug)]
pub(crate) enum Contents<'a> {
    /// A tree in Proton's JSON.
    Hatchet(TreeDocument<'a>),
    /// A tree in MessagePack.
    HatchetMsgpack(TreeDocument<'a>),
    /// The events of a phase, read from the spool.
    ChromeTrace(TraceRange<'a>),
}

/// A range of the spool to write as a Chrome trace.
#[derive(Debug)]
pub(crate) struct TraceRange<'a> {
    pub(crate) playback: &'a mut Playback,
    pub(crate) bytes: Range<u64>,
    pub(crate) extent: Extent,
}

impl Contents<'_> {
    pub(crate) const fn format(&self) -> Format {
        match self {
            Self::Hatchet(_) => Format::Hatchet,
            Self::HatchetMsgpack(_) => Format::HatchetMsgpack,
            Self::ChromeTrace(_) => Format::ChromeTrace,
        }
    }

    /// Writes the contents as a stream.
    pub(crate) fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Hatchet(document) => write(document, Encoding::Json, Producer::Recorder, out),
            Self::HatchetMsgpack(document) => {
                write(document, Encoding::Msgpack, Producer::Recorder, out)
            }
            Self::ChromeTrace(TraceRange { playback, bytes, extent }) => {
                // The losses in memory are newer than those in a spool whose disk is full.
                playback.write(bytes, *extent, &losses::snapshot(), out)
            }
        }
    }
}

/// A tree with its metadata, ready to be written.
#[derive(Debug)]
pub(crate) struct TreeDocument<'a> {
    pub(crate) tree: &'a MergedTree,
    pub(crate) meta: &'a Meta,
}
