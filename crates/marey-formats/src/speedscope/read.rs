//! Reading: a file is taken apart as it comes.
//!
//! Events have the numbers of frames, and contexts need their names. So where `profiles` come before
//! `shared`, they wait as text, which takes as much memory as they have bytes; and so do the events
//! of a profile that come before its unit.

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
use crate::shared::input::Input;

/// Reads a file into a run: one process, and a thread for each profile.
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
        failed: None,
    };
    let mut json = serde_json::Deserializer::from_reader(Counted { input, offset: &offset });
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

/// A reader that says how far it is.
struct Counted<'a> {
    input: &'a mut Input,
    offset: &'a Cell<u64>,
}

impl io::Read for Counted<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(out);
        self.offset.set(self.input.offset());
        read
    }
}

/// A file that is being read.
pub(super) struct File<'a> {
    pub(super) import: &'a mut Import,
    pub(super) process: u32,
    /// Bytes that were read.
    offset: &'a Cell<u64>,
    /// The names of the frames, once they are known.
    names: Option<Vec<u32>>,
    /// What was taken from all times.
    pub(super) base_nanos: i64,
    profile_count: u32,
    /// Why reading stopped, if it is not for the JSON.
    failed: Option<ReaderError>,
}

impl File<'_> {
    /// The name of a frame, if there is that frame.
    pub(super) fn name(&self, frame: u32) -> Option<u32> {
        self.names.as_ref()?.get(frame as usize).copied()
    }

    pub(super) fn lose(&mut self, loss: LossCause, count: u64, cause: impl Display) {
        self.import.lose(loss, count, self.offset.get(), cause);
    }

    /// A time of a profile on the clock of the run.
    pub(super) fn nanos(&self, number: &str, power: i32) -> Option<i64> {
        self.base_nanos.checked_add(decimal::scaled(number, power)?)
    }

    /// The thread of the next profile.
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

    /// What a value is, or nothing and a loss.
    fn value<'v, V: Deserialize<'v>>(&mut self, value: &'v RawValue, what: &str) -> Option<V> {
        let value = serde_json::from_str(value.get());
        if value.is_err() {
            self.lose(LossCause::Unreadable, 1, format_args!("{what} is not as it should be"));
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
                self.lose(LossCause::Unreadable, 1, "a frame has no name, or a place that is none");
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
        if let Some(broken) = self.failed.take() {
            return Err(broken);
        }
        if error.is_io() {
            return Err(io::Error::from(error).into());
        }
        let cause = error.to_string();
        let cause = cause.rsplit_once(" at line ").map_or(&*cause, |(cause, _)| cause);
        Err(ReaderError::at(self.offset.get(), cause))
    }

    /// Has an error of ours wait while the parser ends with one of its own.
    fn pass<T, E: de::Error>(&mut self, result: Result<T, ReaderError>) -> Result<T, E> {
        result.map_err(|broken| {
            self.failed = Some(broken);
            E::custom("stopped")
        })
    }
}

/// The file.
impl<'de> Visitor<'de> for &mut File<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("an object with profiles")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut waiting: Vec<Box<RawValue>> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "profiles" if self.names.is_some() => map.next_value_seed(Profiles(self))?,
                "profiles" => waiting.push(map.next_value()?),
                "shared" => {
                    let shared: Box<RawValue> = map.next_value()?;
                    let shared = self.shared(&shared);
                    self.pass(shared)?;
                }
                _ => {
                    let value: Box<RawValue> = map.next_value()?;
                    let field = self.field(&key, &value);
                    self.pass(field)?;
                }
            }
        }
        for list in waiting {
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
    /// Where it starts and ends, as the file has it.
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

    /// Keeps from where to where it goes.
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
                let cause = format_args!("`{key}` of a profile is no number of its unit");
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
                    self.file.pass(field)?;
                }
            }
        }
        for list in events {
            self.events().deserialize(&mut from_str(&list)).map_err(de::Error::custom)?;
        }
        for list in weights {
            self.weights().deserialize(&mut from_str(&list)).map_err(de::Error::custom)?;
        }
        self.samples.give_up(self.file);
        let extent = self.extent();
        self.file.pass(extent)
    }
}

fn from_str(text: &RawValue) -> serde_json::Deserializer<serde_json::de::StrRead<'_>> {
    serde_json::Deserializer::from_str(text.get())
}

/// What takes the elements of a list one by one.
pub(super) trait Elements {
    fn add(&mut self, file: &mut File, element: &RawValue) -> Result<(), ReaderError>;

    /// There are no more, or they cannot be read.
    fn end(&mut self, file: &mut File) -> Result<(), ReaderError>;
}

/// A list that is taken apart as it comes.
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
                    self.file.pass(added)?;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let ended = self.elements.end(self.file);
        self.file.pass(ended)?;
        all
    }
}
