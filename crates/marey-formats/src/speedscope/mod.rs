//! speedscope's JSON: evented and sampled profiles over a list of frames.
//!
//! A profile is a thread of the run. Evented ones in a unit of time become spans; sampled ones, and
//! evented ones in another unit, become samples, whose weights are called as [`Unit::value_name`]
//! says. A context has the name of its frame; where frames of one name differ in file, line or
//! column, these stand behind the name ([`frames::labels`]). The list of frames is kept as metadata
//! `speedscope.frames`, by which [`write()`] gives files, lines and columns back.
//!
//! Times in a file are relative to nothing. Those of a run since 1970 are too long for the numbers
//! of JavaScript; [`write()`] takes the run's start from them and says it in the key `marey`, which
//! other readers ignore.

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

/// What every file names.
const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Key of the metadata with the frames of a file.
const FRAMES: &str = "speedscope.frames";

/// Keys of the metadata with the extent of a profile, in nanoseconds if it is one of time.
const START: &str = "startValue";
const END: &str = "endValue";

/// Key of the metadata with the profile that is shown first.
const ACTIVE: &str = "activeProfileIndex";

/// The unit of a profile's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    None,
    Bytes,
    /// Of time: it is 10 to this power nanoseconds.
    Time(i32),
}

impl Unit {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "none" => Self::None,
            "bytes" => Self::Bytes,
            "nanoseconds" => Self::Time(0),
            "microseconds" => Self::Time(3),
            "milliseconds" => Self::Time(6),
            "seconds" => Self::Time(9),
            _ => return None,
        })
    }

    /// The unit that is behind the name of a value.
    fn of_value(name: &str) -> Self {
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

    /// What the weights of samples are called in a run, where all times are in nanoseconds.
    const fn value_name(self) -> &'static str {
        match self {
            Self::None => "weight",
            Self::Bytes => "weight (bytes)",
            Self::Time(_) => "weight (ns)",
        }
    }
}
