//! Reads a speedscope file, and adds its events while it is parsed.
//!
//! Events refer to frames by index, and contexts need the names of frames. So if `profiles`
//! precedes `shared`, it is buffered as text, in as much memory as it has bytes. The same applies
//! to events that precede the unit of their profile.

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
use super::frames::{self, FrameObject};
use super::sampled::{Samples, Weights};
use super::{ACTIVE_KEY, END_KEY, FRAMES_KEY, SCHEMA, START_KEY, Unit};
use crate::shared::decimal;
use crate::shared::import::{Import, ReaderError};
use crate::shared::input::{Input, OffsetReader};

/// Reads a file into a run: one process, with a thread for each profile.
pub(crate) fn read(input: &mut Input, import: &mut Import) -> Result<(), ReaderError> {
    skip_byte_order_mark(input)?;
    let process_id = import.add_process(NewProcess { pid: -1, ..NewProcess::default() });
    let offset = Cell::new(0);
    let mut file = FileReader {
        import,
        process_id,
        offset: &offset,
        name_ids: None,
        base_nanos: 0,
        profile_count: 0,
        error: None,
    };
    let mut json = serde_json::Deserializer::from_reader(OffsetReader { input, offset: &offset });
    let result = json.deserialize_map(&mut file).and_then(|()| json.end());
    file.finish(result)
}

fn skip_byte_order_mark(input: &mut Input) -> io::Result<()> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    if input.head()?.starts_with(MARK) {
        io::Read::read_exact(input, &mut [0; MARK.len()])?;
    }
    Ok(())
}

/// A file that is being read.
pub(super) struct FileReader<'a> {
    pub(super) import: &'a mut Import,
    pub(super) process_id: u32,
    /// Number of bytes read.
    offset: &'a Cell<u64>,
    /// Name ids of the frames, once `shared` was read.
    name_ids: Option<Vec<u32>>,
    /// The number that the writer has subtracted from all times.
    pub(super) base_nanos: i64,
    profile_count: u32,
    /// The error that stopped reading, unless it is an error in the JSON.
    error: Option<ReaderError>,
}

impl FileReader<'_> {
    /// Returns the name id of a frame, if it exists.
    pub(super) fn name_id(&self, frame: u32) -> Option<u32> {
        self.name_ids.as_ref()?.get(frame as usize).copied()
    }

    pub(super) fn lose(&mut self, loss: LossCause, count: u64, cause: impl Display) {
        self.import.lose(loss, count, self.offset.get(), cause);
    }

    /// Converts a time of a profile to the clock of the run.
    pub(super) fn nanos(&self, number: &str, power: i32) -> Option<i64> {
        self.base_nanos.checked_add(decimal::parse_scaled(number, power)?)
    }

    /// Adds the thread of the next profile.
    fn add_thread(&mut self) -> u32 {
        self.profile_count += 1;
        self.import.run.add_thread(self.process_id, -i64::from(self.profile_count), "")
    }

    fn add_metadata(
        &mut self,
        thread_id: Option<u32>,
        key: &str,
        value: &str,
    ) -> Result<(), ReaderError> {
        let Self { process_id, .. } = *self;
        let row = Metadata { process_id, thread_id, key: key.into(), value: value.into() };
        Ok(self.import.run.add_metadata(&row)?)
    }

    /// Parses a value, or counts it as lost.
    fn parse_or_lose<'v, V: Deserialize<'v>>(
        &mut self,
        value: &'v RawValue,
        name: &str,
    ) -> Option<V> {
        let value = serde_json::from_str(value.get());
        if value.is_err() {
            self.lose(LossCause::Unreadable, 1, format_args!("{name} is malformed"));
        }
        value.ok()
    }

    fn read_field(&mut self, key: &str, value: &RawValue) -> Result<(), ReaderError> {
        #[derive(Deserialize)]
        struct Base {
            base_nanos: i64,
        }
        match key {
            "$schema" if value.get().trim_matches('"') == SCHEMA => {}
            "name" => {
                let name = self.parse_or_lose(value, "the name of the file");
                self.import.run.process_mut(self.process_id).name = name;
            }
            "marey" if self.profile_count == 0 => {
                let base: Option<Base> = self.parse_or_lose(value, "`marey`");
                self.base_nanos = base.map_or(0, |base| base.base_nanos);
            }
            ACTIVE_KEY if value.get() == "null" => {}
            _ => self.add_metadata(None, key, value.get())?,
        }
        Ok(())
    }

    fn read_shared(&mut self, value: &RawValue) -> Result<(), ReaderError> {
        #[derive(Deserialize)]
        struct Shared<'v> {
            #[serde(borrow)]
            frames: Vec<&'v RawValue>,
        }
        let shared: Option<Shared> = self.parse_or_lose(value, "`shared`");
        let Some(Shared { frames }) = shared else {
            return Ok(());
        };
        let mut valid_frames: Vec<FrameObject> = Vec::with_capacity(frames.len());
        for frame in frames {
            let frame: Option<FrameObject> = self.parse_or_lose(frame, "a frame");
            let normalised = frames::normalise(frame.clone().unwrap_or_default());
            if frame.is_some_and(|frame| frame != normalised) {
                self.lose(
                    LossCause::Unreadable,
                    1,
                    "a frame has no name, or an invalid file, line or column",
                );
            }
            valid_frames.push(normalised);
        }
        if valid_frames.iter().any(|frame| frame.len() > 1) {
            let text = serde_json::to_string(&valid_frames).expect("it was JSON before");
            self.add_metadata(None, FRAMES_KEY, &text)?;
        }
        let run = &mut self.import.run;
        self.name_ids =
            Some(frames::labels(&valid_frames).iter().map(|label| run.text_id(label)).collect());
        Ok(())
    }

    fn finish(mut self, result: Result<(), serde_json::Error>) -> Result<(), ReaderError> {
        let Err(error) = result else { return Ok(()) };
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if error.is_io() {
            return Err(io::Error::from(error).into());
        }
        let cause = error.to_string();
        let cause = cause.rsplit_once(" at line ").map_or(&*cause, |(cause, _)| cause);
        Err(ReaderError::content(self.offset.get(), cause))
    }

    /// Stores an error of the reader, and returns an error of the JSON parser in its place.
    fn stash_error<T, E: de::Error>(&mut self, result: Result<T, ReaderError>) -> Result<T, E> {
        result.map_err(|error| {
            self.error = Some(error);
            E::custom("stopped")
        })
    }
}

/// The outermost object.
impl<'de> Visitor<'de> for &mut FileReader<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("an object with profiles")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut buffered: Vec<Box<RawValue>> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "profiles" if self.name_ids.is_some() => {
                    map.next_value_seed(ProfileListReader(self))?;
                }
                "profiles" => buffered.push(map.next_value()?),
                "shared" => {
                    let shared: Box<RawValue> = map.next_value()?;
                    let shared = self.read_shared(&shared);
                    self.stash_error(shared)?;
                }
                _ => {
                    let value: Box<RawValue> = map.next_value()?;
                    let field = self.read_field(&key, &value);
                    self.stash_error(field)?;
                }
            }
        }
        for list in buffered {
            ProfileListReader(self).deserialize(&*list).map_err(de::Error::custom)?;
        }
        Ok(())
    }
}

/// The list of profiles.
struct ProfileListReader<'f, 'a>(&'f mut FileReader<'a>);

impl<'de> DeserializeSeed<'de> for ProfileListReader<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ProfileListReader<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a list of profiles")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(ProfileReader::new(self.0))?.is_some() {}
        Ok(())
    }
}

/// A profile that is being read.
struct ProfileReader<'f, 'a> {
    file: &'f mut FileReader<'a>,
    thread_id: u32,
    unit: Option<Unit>,
    /// Start and end as the file has them.
    start: Option<String>,
    end: Option<String>,
    samples: Samples,
}

impl<'f, 'a> ProfileReader<'f, 'a> {
    fn new(file: &'f mut FileReader<'a>) -> Self {
        Self { file, thread_id: 0, unit: None, start: None, end: None, samples: Samples::default() }
    }

    fn read_field(&mut self, key: &str, value: &RawValue) -> Result<(), ReaderError> {
        match key {
            "type" if matches!(value.get(), r#""evented""# | r#""sampled""#) => {}
            "name" => {
                let name: Option<String> = self.file.parse_or_lose(value, "the name of a profile");
                self.file.import.run.rename_thread(self.thread_id, &name.unwrap_or_default());
            }
            "unit" => {
                self.unit = Unit::from_name(value.get().trim_matches('"'));
                if self.unit.is_none() {
                    self.unit = Some(Unit::None);
                    self.file.add_metadata(Some(self.thread_id), key, value.get())?;
                }
            }
            START_KEY => self.start = Some(value.get().to_owned()),
            END_KEY => self.end = Some(value.get().to_owned()),
            _ => self.file.add_metadata(Some(self.thread_id), key, value.get())?,
        }
        Ok(())
    }

    fn unit(&self) -> Unit {
        self.unit.unwrap_or(Unit::None)
    }

    fn events_seed(&mut self) -> ListSeed<'_, 'a, Evented> {
        let evented = Evented::new(self.thread_id, self.unit(), self.start.as_deref());
        ListSeed { file: self.file, elements: evented }
    }

    fn weights_seed(&mut self) -> ListSeed<'_, 'a, Weights> {
        let unit = self.unit();
        let samples = &mut self.samples;
        let weights = Weights::new(self.file, self.thread_id, unit, self.start.as_deref(), samples);
        ListSeed { file: self.file, elements: weights }
    }

    /// Keeps start and end as metadata.
    fn add_extent_metadata(&mut self) -> Result<(), ReaderError> {
        for (key, number) in [(START_KEY, self.start.take()), (END_KEY, self.end.take())] {
            let Some(number) = number else { continue };
            let value = match self.unit() {
                Unit::Time(power) => self.file.nanos(&number, power).map(|nanos| nanos.to_string()),
                _ => number.parse::<f64>().is_ok().then(|| number.clone()),
            };
            if let Some(value) = value {
                self.file.add_metadata(Some(self.thread_id), key, &value)?;
            } else {
                let cause = format_args!("`{key}` of a profile is not a valid number of its unit");
                self.file.lose(LossCause::Unreadable, 1, cause);
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for ProfileReader<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ProfileReader<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a profile")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.thread_id = self.file.add_thread();
        let mut events: Vec<Box<RawValue>> = Vec::new();
        let mut weights: Vec<Box<RawValue>> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            let has_unit_and_start = self.unit.is_some() && self.start.is_some();
            match &*key {
                "events" if has_unit_and_start => map.next_value_seed(self.events_seed())?,
                "events" => events.push(map.next_value()?),
                "samples" => {
                    let elements = &mut self.samples;
                    map.next_value_seed(ListSeed { file: self.file, elements })?;
                }
                "weights" if has_unit_and_start && !self.samples.is_empty() => {
                    map.next_value_seed(self.weights_seed())?;
                }
                "weights" => weights.push(map.next_value()?),
                _ => {
                    let value: Box<RawValue> = map.next_value()?;
                    let field = self.read_field(&key, &value);
                    self.file.stash_error(field)?;
                }
            }
        }
        for list in events {
            self.events_seed().deserialize(&*list).map_err(de::Error::custom)?;
        }
        for list in weights {
            self.weights_seed().deserialize(&*list).map_err(de::Error::custom)?;
        }
        self.samples.lose_unweighted(self.file);
        let extent = self.add_extent_metadata();
        self.file.stash_error(extent)
    }
}

/// Receives the elements of a list one by one.
pub(super) trait ListVisitor {
    fn add(&mut self, file: &mut FileReader, element: &RawValue) -> Result<(), ReaderError>;

    /// Called at the end of the list, or when it cannot be read further.
    fn end(&mut self, file: &mut FileReader) -> Result<(), ReaderError>;
}

/// A list whose elements are processed while it is parsed.
struct ListSeed<'f, 'a, E> {
    file: &'f mut FileReader<'a>,
    elements: E,
}

impl<'de, E: ListVisitor> DeserializeSeed<'de> for ListSeed<'_, '_, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de, E: ListVisitor> Visitor<'de> for ListSeed<'_, '_, E> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let result = loop {
            match list.next_element::<Box<RawValue>>() {
                Ok(Some(element)) => {
                    let added = self.elements.add(self.file, &element);
                    self.file.stash_error(added)?;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let end_result = self.elements.end(self.file);
        self.file.stash_error(end_result)?;
        result
    }
}
