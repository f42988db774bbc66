//! Reads and writes the JSON of speedscope: evented and sampled profiles over a list of frames.
//!
//! A profile is a thread of the run. An evented profile in a unit of time becomes spans. Sampled
//! profiles, and evented ones in another unit, become samples with the name that
//! [`Unit::value_name`] returns. A context has the name of its frame. If frames of one name differ
//! in file, line or column, these are appended ([`frames::labels`]). The metadata
//! `speedscope.frames` keep the list of frames, from which [`write()`] restores files, lines and
//! columns.
//!
//! Times in a file have no epoch. Times since 1970 exceed the integers of JavaScript, so
//! [`write()`] subtracts the run's start and writes it to the key `marey`, which other readers
//! ignore.

mod by_key;
mod evented;
mod frame_list;
mod frames;
mod lane;
mod read;
mod sampled;
mod stacks;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;

/// The `$schema` of every file.
const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// The key of the metadata with the frames of a file.
const FRAMES_KEY: &str = "speedscope.frames";

/// The keys of the metadata with start and end of a profile, in nanoseconds if its unit is a time.
const START_KEY: &str = "startValue";
const END_KEY: &str = "endValue";

/// The key of the metadata with the profile that is shown first.
const ACTIVE_KEY: &str = "activeProfileIndex";

/// The unit of the values of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    None,
    Bytes,
    /// A time. The unit is 10 to this power nanoseconds.
    Time(i32),
}

impl Unit {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "none" => Self::None,
            "bytes" => Self::Bytes,
            "nanoseconds" => Self::Time(0),
            "microseconds" => Self::Time(3),
            "milliseconds" => Self::Time(6),
            "seconds" => Self::Time(9),
            _ => return None,
        })
    }

    /// Returns the unit at the end of the name of a value.
    fn from_value_name(name: &str) -> Self {
        let unit = name.strip_suffix(')').and_then(|name| name.rsplit_once('('));
        match unit.map_or("", |(_, unit)| unit) {
            "bytes" => Self::Bytes,
            "ns" => Self::Time(0),
            "us" => Self::Time(3),
            "ms" => Self::Time(6),
            "s" => Self::Time(9),
            _ => Self::None,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bytes => "bytes",
            Self::Time(0) => "nanoseconds",
            Self::Time(3) => "microseconds",
            Self::Time(6) => "milliseconds",
            Self::Time(_) => "seconds",
        }
    }

    /// Returns the name of the weights in a run, whose times are all in nanoseconds.
    const fn value_name(self) -> &'static str {
        match self {
            Self::None => "weight",
            Self::Bytes => "weight (bytes)",
            Self::Time(_) => "weight (ns)",
        }
    }
}
