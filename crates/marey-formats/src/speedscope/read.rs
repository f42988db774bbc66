//! Reader, which processes a file while it is parsed.
//!
//! Events refer to frames by index, and contexts need frame names. So if `profiles` precedes
//! `shared`, it is buffered as text, in as much memory as it has bytes. The same applies to events
//! that precede the unit of their profile.

use std::cell::Cell;
use std::fmt::{self, Display};
use std::io;

use marey_model::loss::LossCause;
use marey_store::NewProcess;
use marey_store::row::Metadata;
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::evented::Evented;
use super::frames::{self, Frame};
use super::sampled::{Samples, Weights};
use super::{ACTIVE, END, FRAMES, SCHEMA, START, Unit};
use crate::shared::decimal;
use crate::shared::import::{Import, ReaderError};
use crate::shared::input::{Input, OffsetReader};

/// Reads a file into a run: one process, with a thread for each profile.
pub(crate) fn read(input: &mut Input, import: &mut Import) -> Result<(), ReaderError> {
    skip_byte_order_mark(input)?;
    let process = import.process(NewProcess { pid: -1, ..NewProcess::default() });
    let offset = Cell::new(0);
    let mut file = File {
        import,
        process,
        offset: &offset,
        names: None,
        base_nanos: 0,
        profile_count: 0,
        error: None,
    };
    let mut json = serde_json::Deserializer::from_reader(OffsetReader { input, offset: &offset });
    let read = json.deserialize_map(&mut file).and_then(|()| json.end());
    file.end(read)
}

fn skip_byte_order_mark(input: &mut Input) -> io::Result<()> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    if input.head()?.starts_with(MARK) {
        io::Read::read_exact(input, &mut [0; MARK.len()])?;
    }
    Ok(())
}

/// A file that is being read.
pub(super) struct File<'a> {
    pub(super) import: &'a mut Import,
    pub(super) process: u32,
    /// Number of bytes read.
    offset: &'a Cell<u64>,
    /// Name ids of the frames, once `shared` has been read.
    names: Option<Vec<u32>>,
    /// Subtracted from all times when the file was written.
    pub(super) base_nanos: i64,
    profile_count: u32,
    /// The error that stopped reading, unless it is one of the JSON.
    error: Option<ReaderError>,
}

impl File<'_> {
    /// Returns the name id of a frame, if it exists.
    pub(super) fn name(&self, frame: u32) -> Option<u32> {
        self.names.as_ref()?.get(frame as usize).copied()
    }

    pub(super) fn lose(&mut self, loss: LossCause, count: u64, cause: impl Display) {
        self.import.lose(loss, count, self.offset.get(), cause);
    }

    /// Converts a time of a profile to the run's clock.
    pub(super) fn nanos(&self, number: &str, power: i32) -> Option<i64> {
        self.base_nanos.checked_add(decimal::scaled(number, power)?)
    }

    /// Adds the thread of the next profile.
    fn thread(&mut self) -> u32 {
        self.profile_count += 1;
        self.import.run.thread(self.process, -i64::from(self.profile_count), "")
    }

    fn metadata(
        &mut self,
        thread_id: Option<u32>,
        key: &str,
        value: &str,
    ) -> Result<(), ReaderError> {
        let Self { process: process_id, .. } = *self;
        let row = Metadata { process_id, thread_id, key: key.into(), value: value.into() };
        Ok(self.import.run.add_metadata(&row)?)
    }

    /// Parses a value, or counts it as lost.
    fn value<'v, V: Deserialize<'v>>(&mut self, value: &'v RawValue, name: &str) -> Option<V> {
        let value = serde_json::from_str(value.get());
        if value.is_err() {
            self.lose(LossCause::Unreadable, 1, format_args!("{name} is malformed"));
        }
        value.ok()
    }

    fn field(&mut self, key: &str, value: &RawValue) -> Result<(), ReaderError> {
        #[derive(Deserialize)]
        struct Base {
            base_nanos: i64,
        }
        match key {
            "$schema" if value.get().trim_matches('"') == SCHEMA => {}
            "name" => {
                let name = self.value(value, "the name of the file");
                self.import.run.process_mut(self.process).name = name;
            }
            "marey" if self.profile_count == 0 => {
                let base: Option<Base> = self.value(value, "`marey`");
                self.base_nanos = base.map_or(0, |base| base.base_nanos);
            }
            ACTIVE if value.get() == "null" => {}
            _ => self.metadata(None, key, value.get())?,
        }
        Ok(())
    }

    fn shared(&mut self, value: &RawValue) -> Result<(), ReaderError> {
        #[derive(Deserialize)]
        struct Shared<'v> {
            #[serde(borrow)]
            frames: Vec<&'v RawValue>,
        }
        let shared: Option<Shared> = self.value(value, "`shared`");
        let Some(Shared { frames }) = shared else {
            return Ok(());
        };
        let mut read: Vec<Frame> = Vec::with_capacity(frames.len());
        for frame in frames {
            let frame: Option<Frame> = self.value(frame, "a frame");
            let valid = frames::valid(frame.clone().unwrap_or_default());
            if frame.is_some_and(|frame| frame != valid) {
                self.lose(
                    LossCause::Unreadable,
                    1,
                    "a frame has no name, or an invalid file, line or column",
                );
            }
            read.push(valid);
        }
        if read.iter().any(|frame| frame.len() > 1) {
            let text = serde_json::to_string(&read).expect("it was JSON before");
            self.metadata(None, FRAMES, &text)?;
        }
        let run = &mut self.import.run;
        self.names = Some(frames::labels(&read).iter().map(|label| run.text(label)).collect());
        Ok(())
    }

    fn end(mut self, read: Result<(), serde_json::Error>) -> Result<(), ReaderError> {
        let Err(error) = read else { return Ok(()) };
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if error.is_io() {
            return Err(io::Error::from(error).into());
        }
        let cause = error.to_string();
        let cause = cause.rsplit_once(" at line ").map_or(&*cause, |(cause, _)| cause);
        Err(ReaderError::at(self.offset.get(), cause))
    }

    /// Stores our error while the JSON parser returns one of its own.
    fn stash_error<T, E: de::Error>(&mut self, result: Result<T, ReaderError>) -> Result<T, E> {
        result.map_err(|error| {
            self.error = Some(error);
            E::custom("stopped")
        })
    }
}

/// The outermost object.
impl<'de> Visitor<'de> for &mut File<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("an object with profiles")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut buffered: Vec<Box<RawValue>> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "profiles" if self.names.is_some() => map.next_value_seed(Profiles(self))?,
                "profiles" => buffered.push(map.next_value()?),
                "shared" => {
                    let shared: Box<RawValue> = map.next_value()?;
                    let shared = self.shared(&shared);
                    self.stash_error(shared)?;
                }
                _ => {
                    let value: Box<RawValue> = map.next_value()?;
                    let field = self.field(&key, &value);
                    self.stash_error(field)?;
                }
            }
        }
        for list in buffered {
            Profiles(self).deserialize(&mut from_str(&list)).map_err(de::Error::custom)?;
        }
        Ok(())
    }
}

/// The list of profiles.
struct Profiles<'f, 'a>(&'f mut File<'a>);

impl<'de> DeserializeSeed<'de> for Profiles<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Profiles<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a list of profiles")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Profile::new(self.0))?.is_some() {}
        Ok(())
    }
}

/// A profile that is being read.
struct Profile<'f, 'a> {
    file: &'f mut File<'a>,
    thread: u32,
    unit: Option<Unit>,
    /// Start and end as the file has them.
    start: Option<String>,
    end: Option<String>,
    samples: Samples,
}

impl<'f, 'a> Profile<'f, 'a> {
    fn new(file: &'f mut File<'a>) -> Self {
        Self { file, thread: 0, unit: None, start: None, end: None, samples: Samples::default() }
    }

    fn field(&mut self, key: &str, value: &RawValue) -> Result<(), ReaderError> {
        match key {
            "type" if matches!(value.get(), r#""evented""# | r#""sampled""#) => {}
            "name" => {
                let name: Option<String> = self.file.value(value, "the name of a profile");
                self.file.import.run.rename_thread(self.thread, &name.unwrap_or_default());
            }
            "unit" => {
                self.unit = Unit::of(value.get().trim_matches('"'));
                if self.unit.is_none() {
                    self.unit = Some(Unit::None);
                    self.file.metadata(Some(self.thread), key, value.get())?;
                }
            }
            START => self.start = Some(value.get().to_owned()),
            END => self.end = Some(value.get().to_owned()),
            _ => self.file.metadata(Some(self.thread), key, value.get())?,
        }
        Ok(())
    }

    fn unit(&self) -> Unit {
        self.unit.unwrap_or(Unit::None)
    }

    fn events(&mut self) -> List<'_, 'a, Evented> {
        let evented = Evented::new(self.thread, self.unit(), self.start.as_deref());
        List { file: self.file, elements: evented }
    }

    fn weights(&mut self) -> List<'_, 'a, Weights> {
        let unit = self.unit();
        let samples = &mut self.samples;
        let weights = Weights::new(self.file, self.thread, unit, self.start.as_deref(), samples);
        List { file: self.file, elements: weights }
    }

    /// Keeps start and end as metadata.
    fn extent(&mut self) -> Result<(), ReaderError> {
        for (key, number) in [(START, self.start.take()), (END, self.end.take())] {
            let Some(number) = number else { continue };
            let value = match self.unit() {
                Unit::Time(power) => self.file.nanos(&number, power).map(|nanos| nanos.to_string()),
                _ => number.parse::<f64>().is_ok().then(|| number.clone()),
            };
            if let Some(value) = value {
                self.file.metadata(Some(self.thread), key, &value)?;
            } else {
                let cause = format_args!("`{key}` of a profile is not a valid number of its unit");
                self.file.lose(LossCause::Unreadable, 1, cause);
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Profile<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Profile<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a profile")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.thread = self.file.thread();
        let mut events: Vec<Box<RawValue>> = Vec::new();
        let mut weights: Vec<Box<RawValue>> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            let is_ready = self.unit.is_some() && self.start.is_some();
            match &*key {
                "events" if is_ready => map.next_value_seed(self.events())?,
                "events" => events.push(map.next_value()?),
                "samples" => {
                    let elements = &mut self.samples;
                    map.next_value_seed(List { file: self.file, elements })?;
                }
                "weights" if is_ready && !self.samples.is_empty() => {
                    map.next_value_seed(self.weights())?;
                }
                "weights" => weights.push(map.next_value()?),
                _ => {
                    let value: Box<RawValue> = map.next_value()?;
                    let field = self.field(&key, &value);
                    self.file.stash_error(field)?;
                }
            }
        }
        for list in events {
            self.events().deserialize(&mut from_str(&list)).map_err(de::Error::custom)?;
        }
        for list in weights {
            self.weights().deserialize(&mut from_str(&list)).map_err(de::Error::custom)?;
        }
        self.samples.lose_unweighted(self.file);
        let extent = self.extent();
        self.file.stash_error(extent)
    }
}

fn from_str(text: &RawValue) -> serde_json::Deserializer<serde_json::de::StrRead<'_>> {
    serde_json::Deserializer::from_str(text.get())
}

/// Receives the elements of a list one by one.
pub(super) trait Elements {
    fn add(&mut self, file: &mut File, element: &RawValue) -> Result<(), ReaderError>;

    /// Called at the end of the list, or when it cannot be read further.
    fn end(&mut self, file: &mut File) -> Result<(), ReaderError>;
}

/// A list whose elements are processed while it is parsed.
struct List<'f, 'a, E> {
    file: &'f mut File<'a>,
    elements: E,
}

impl<'de, E: Elements> DeserializeSeed<'de> for List<'_, '_, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de, E: Elements> Visitor<'de> for List<'_, '_, E> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let all = loop {
            match list.next_element::<Box<RawValue>>() {
                Ok(Some(element)) => {
                    let added = self.elements.add(self.file, &element);
                    self.file.stash_error(added)?;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let ended = self.elements.end(self.file);
        self.file.stash_error(ended)?;
        all
    }
}
