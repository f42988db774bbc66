//! Writes a run as a speedscope file. The spans of each thread, the activities of each stream and
//! the samples of each thread are a profile.
//!
//! The frames come first, so all rows are read twice. Each profile is buffered until its start and
//! end are known. Streams and samples are mixed in the run, so they are grouped ([`RowsByKey`]).

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

use marey_model::json::quoted;
use marey_model::table::Table;
use marey_model::table::stored::{GPU_ACTIVITIES, METADATA, SAMPLES, SPANS};
use marey_store::row::{GpuActivity, Metadata, Sample, Span};
use marey_store::{Reader, StoreError};

use super::by_key::RowsByKey;
use super::frame_list::FrameList;
use super::lane::{Lane, Lanes};
use super::stacks::Stacks;
use super::{ACTIVE_KEY, END_KEY, FRAMES_KEY, SCHEMA, START_KEY, Unit};
use crate::shared::export::{ExportError, LeftOut, leave_out_tables_except};
use crate::shared::format::Format;

/// The tables that the format can hold. [`Survey::read_metadata`] counts the metadata that it
/// cannot.
const WRITTEN_TABLES: [&Table; 4] = [&SPANS, &GPU_ACTIVITIES, &SAMPLES, &METADATA];

/// `Number.MAX_SAFE_INTEGER` of JavaScript.
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// The process, device and stream of activities.
type StreamKey = (u32, u32, u32);

/// The process, thread and name of sampled values.
type ValueKey = (u32, Option<u32>, u32);

/// Writes a run.
pub(crate) fn write(
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    leave_out_tables_except(&WRITTEN_TABLES, reader, left_out)?;
    let survey = Survey::collect(reader, left_out)?;
    if survey.is_empty() {
        let missing = "no spans, device activities or samples";
        return Err(ExportError::NoData { format: Format::Speedscope, missing });
    }
    let Survey { frames, .. } = &survey;
    write!(out, r#"{{"$schema":"{SCHEMA}","exporter":"marey {}""#, env!("CARGO_PKG_VERSION"))?;
    let mut processes = reader.processes();
    if let (Some(process), None) = (processes.next(), processes.next())
        && let Some(name) = &process.name
    {
        write!(out, r#","name":{}"#, quoted(name))?;
    }
    if survey.base_nanos != 0 {
        write!(out, r#","marey":{{"base_nanos":{}}}"#, survey.base_nanos)?;
    }
    write!(out, ",\n\"shared\":{{\"frames\":")?;
    frames.write(out)?;
    write!(out, "}},\n\"profiles\":[")?;
    let mut profiles = ProfileWriter {
        reader,
        survey,
        out,
        profile_count: 0,
        first_profile_by_thread: HashMap::new(),
    };
    profiles.write_spans(left_out)?;
    profiles.write_streams(left_out)?;
    profiles.write_samples(left_out)?;
    profiles.write_empty()?;
    let active = profiles.active_index();
    write!(out, "\n]")?;
    if let Some(active) = active {
        write!(out, ",\n\"{ACTIVE_KEY}\":{active}")?;
    }
    Ok(writeln!(out, "}}")?)
}

/// Facts about a run, which are collected before the first profile is written.
struct Survey<'r> {
    frames: FrameList<'r>,
    /// Whether the run has rows that become profiles.
    has_rows: bool,
    /// Start and end of imported profiles as JSON, by thread.
    extents_by_thread: HashMap<u32, [Option<String>; 2]>,
    /// The profile that is shown first, as JSON.
    active_index: Option<String>,
    /// The number that is subtracted from all times.
    base_nanos: i64,
}

impl<'r> Survey<'r> {
    fn collect(reader: &'r Reader<'r>, left_out: &mut LeftOut) -> Result<Self, StoreError> {
        let mut survey = Self {
            frames: FrameList::new(reader)?,
            has_rows: false,
            extents_by_thread: HashMap::new(),
            active_index: None,
            base_nanos: base_nanos(reader),
        };
        survey.read_metadata(reader, left_out)?;
        let mut argument_count = 0;
        for span in reader.rows::<Span>()? {
            let span = span?;
            survey.frames.frame_index(process_of_thread(reader, span.thread_id), span.name_id);
            survey.has_rows = true;
            argument_count += u64::from(span.args.text_id.is_some());
        }
        for activity in reader.rows::<GpuActivity>()? {
            let activity = activity?;
            survey.frames.frame_index(activity.process_id, activity.name_id);
            survey.has_rows = true;
            argument_count += u64::from(activity.args.text_id.is_some());
        }
        let mut stacks = BTreeSet::new();
        for sample in reader.rows::<Sample>()? {
            let sample = sample?;
            survey.has_rows = true;
            stacks.insert((sample.process_id, sample.context_id));
            argument_count += u64::from(sample.args.text_id.is_some());
        }
        for (process, context) in stacks {
            for context in reader.path(context) {
                survey.frames.frame_index(process, reader.context(context).name_id);
            }
        }
        left_out.insert("arguments", argument_count);
        Ok(survey)
    }

    fn read_metadata(&mut self, reader: &Reader, left_out: &mut LeftOut) -> Result<(), StoreError> {
        let is_unbounded =
            reader.selection().from_nanos == i64::MIN && reader.selection().until_nanos == i64::MAX;
        for row in reader.rows::<Metadata>()? {
            let Metadata { thread_id, key, value, .. } = row?;
            let is_number = value.parse::<f64>().is_ok_and(f64::is_finite);
            match (thread_id, &*key) {
                (Some(thread), START_KEY | END_KEY) if is_unbounded && is_number => {
                    let extent = self.extents_by_thread.entry(thread).or_default();
                    extent[usize::from(&*key == END_KEY)] = Some(value.as_ref().to_owned());
                }
                (None, ACTIVE_KEY) if is_number => {
                    self.active_index = Some(value.as_ref().to_owned());
                }
                (_, FRAMES_KEY) => {}
                _ => *left_out.entry("metadata entries").or_default() += 1,
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        !self.has_rows && self.extents_by_thread.is_empty()
    }

    /// Returns start and end of an imported profile of times.
    fn thread_extent_nanos(&self, thread_id: u32) -> [Option<i64>; 2] {
        let [start, end] = self.extents_by_thread.get(&thread_id).cloned().unwrap_or_default();
        [start, end].map(|nanos| nanos?.parse().ok())
    }
}

/// The profiles of a file that is being written.
struct ProfileWriter<'r, 'o> {
    reader: &'r Reader<'r>,
    survey: Survey<'r>,
    out: &'o mut dyn Write,
    profile_count: u32,
    /// The first profile of each thread.
    first_profile_by_thread: HashMap<u32, u32>,
}

impl ProfileWriter<'_, '_> {
    fn write_spans(&mut self, left_out: &mut LeftOut) -> Result<(), ExportError> {
        let mut thread = None;
        let mut lanes = Lanes::default();
        let reader = self.reader;
        reader.spans_by_thread()?.for_each(|span| -> Result<(), ExportError> {
            if thread.is_some_and(|thread| thread != span.thread_id) {
                self.write_thread(thread, std::mem::take(&mut lanes))?;
            }
            thread = Some(span.thread_id);
            let frame = self
                .survey
                .frames
                .frame_index(process_of_thread(reader, span.thread_id), span.name_id);
            let Span { start_nanos, duration_nanos, .. } = *span;
            self.add_to_lanes(&mut lanes, frame, (start_nanos, duration_nanos), left_out)
        })?;
        self.write_thread(thread, lanes)
    }

    /// Writes the spans of a thread.
    fn write_thread(&mut self, thread: Option<u32>, lanes: Lanes) -> Result<(), ExportError> {
        let Some(thread) = thread else { return Ok(()) };
        self.first_profile_by_thread.entry(thread).or_insert(self.profile_count);
        let extent = self.survey.thread_extent_nanos(thread);
        self.write_lanes(&thread_title(self.reader, thread), lanes, extent)
    }

    fn write_streams(&mut self, left_out: &mut LeftOut) -> Result<(), ExportError> {
        let reader = self.reader;
        let mut activities_by_stream = RowsByKey::new();
        for activity in reader.rows::<GpuActivity>()? {
            let activity = activity?;
            activities_by_stream.push(stream_key(&activity), &activity)?;
        }
        activities_by_stream.for_each(|(process, device, stream): StreamKey, activities| {
            let mut lanes = Lanes::default();
            for activity in activities {
                let GpuActivity { start_nanos, duration_nanos, name_id, .. } = activity?;
                let frame = self.survey.frames.frame_index(process, name_id);
                self.add_to_lanes(&mut lanes, frame, (start_nanos, duration_nanos), left_out)?;
            }
            let title = match stream {
                GpuActivity::NO_STREAM => format!("device {device}"),
                _ => format!("device {device} stream {stream}"),
            };
            self.write_lanes(&with_process_title(reader, process, title), lanes, [None; 2])
        })
    }

    fn add_to_lanes(
        &self,
        lanes: &mut Lanes,
        frame: u32,
        (start_nanos, duration_nanos): (i64, i64),
        left_out: &mut LeftOut,
    ) -> Result<(), ExportError> {
        let relative_nanos = start_nanos.saturating_sub(self.survey.base_nanos);
        if !lanes.add(
            frame,
            relative_nanos,
            relative_nanos.saturating_add(duration_nanos.max(0)),
        )? {
            *left_out.entry("overlapping spans").or_default() += 1;
        }
        Ok(())
    }

    fn write_lanes(
        &mut self,
        title: &str,
        lanes: Lanes,
        extent_nanos: [Option<i64>; 2],
    ) -> Result<(), ExportError> {
        let base_nanos = self.survey.base_nanos;
        let [start_nanos, end_nanos] =
            extent_nanos.map(|nanos| Some(nanos?.saturating_sub(base_nanos)));
        for (number, lane) in lanes.finish()?.into_iter().enumerate() {
            let Lane { events, first_nanos, last_nanos, .. } = lane;
            let name = match number {
                0 => title.to_owned(),
                _ => format!("{title} (overlap {number})"),
            };
            let start_nanos =
                start_nanos.map_or(first_nanos, |start_nanos| start_nanos.min(first_nanos));
            let end_nanos = end_nanos.map_or(last_nanos, |end_nanos| end_nanos.max(last_nanos));
            self.begin_profile(
                "evented",
                &name,
                Unit::Time(0),
                &start_nanos.to_string(),
                &end_nanos.to_string(),
            )?;
            write!(self.out, "\"events\":")?;
            events.write(self.out)?;
            write!(self.out, "}}")?;
        }
        Ok(())
    }

    fn write_samples(&mut self, left_out: &mut LeftOut) -> Result<(), ExportError> {
        let reader = self.reader;
        let mut samples_by_value = RowsByKey::new();
        for sample in reader.rows::<Sample>()? {
            let sample = sample?;
            samples_by_value.push(value_key(&sample), &sample)?;
        }
        samples_by_value.for_each(|value: ValueKey, samples| {
            let mut stacks = Stacks::default();
            for sample in samples {
                let sample: Sample = sample?;
                let frames = reader.path(sample.context_id).into_iter().map(|context| {
                    let name_id = reader.context(context).name_id;
                    self.survey.frames.frame_index(sample.process_id, name_id)
                });
                if !stacks.add(frames, sample.time_nanos, &sample.value)? {
                    *left_out.entry("values that are not weights").or_default() += 1;
                }
            }
            Ok(self.write_stacks(value, stacks)?)
        })
    }

    fn write_stacks(
        &mut self,
        (process_id, thread, name_id): ValueKey,
        stacks: Stacks,
    ) -> io::Result<()> {
        let value_name = self.reader.text(name_id);
        let unit = Unit::from_value_name(value_name);
        let mut title = match thread {
            Some(thread) => thread_title(self.reader, thread),
            None => process_title(self.reader, process_id),
        };
        if value_name != unit.value_name() {
            title = format!("{title}, {value_name}");
        }
        let [start, end] = match (unit, thread) {
            (Unit::Time(0), Some(thread)) => {
                let base_nanos = self.survey.base_nanos;
                let extent = self.survey.thread_extent_nanos(thread);
                extent.map(|nanos| Some(nanos?.saturating_sub(base_nanos).to_string()))
            }
            (_, Some(thread)) => {
                self.survey.extents_by_thread.get(&thread).cloned().unwrap_or_default()
            }
            (_, None) => [None, None],
        };
        let first_nanos = match (unit, stacks.first_nanos) {
            (Unit::Time(0), Some(first_nanos)) => {
                first_nanos.saturating_sub(self.survey.base_nanos)
            }
            _ => 0,
        };
        let start = start.unwrap_or_else(|| first_nanos.to_string());
        let end = end.unwrap_or_else(|| stacks.end_value(first_nanos));
        if let Some(thread) = thread {
            self.first_profile_by_thread.entry(thread).or_insert(self.profile_count);
        }
        self.begin_profile("sampled", &title, unit, &start, &end)?;
        write!(self.out, "\"samples\":")?;
        stacks.samples.write(self.out)?;
        write!(self.out, ",\n\"weights\":")?;
        stacks.weights.write(self.out)?;
        write!(self.out, "}}")
    }

    /// Writes imported profiles without content.
    fn write_empty(&mut self) -> Result<(), ExportError> {
        let mut threads: Vec<u32> = self.survey.extents_by_thread.keys().copied().collect();
        threads.retain(|thread| !self.first_profile_by_thread.contains_key(thread));
        threads.sort_unstable();
        for thread in threads {
            let extent = self.survey.extents_by_thread.get(&thread).cloned().unwrap_or_default();
            self.first_profile_by_thread.insert(thread, self.profile_count);
            let [start, end] = extent.map(|number| number.unwrap_or_else(|| "0".to_owned()));
            let title = thread_title(self.reader, thread);
            self.begin_profile("evented", &title, Unit::None, &start, &end)?;
            write!(self.out, "\"events\":[]}}")?;
        }
        Ok(())
    }

    /// Writes the common members of a profile.
    fn begin_profile(
        &mut self,
        kind: &str,
        name: &str,
        unit: Unit,
        start: &str,
        end: &str,
    ) -> io::Result<()> {
        let separator = if self.profile_count == 0 { "\n" } else { ",\n" };
        self.profile_count += 1;
        let (name, unit) = (quoted(name), unit.as_str());
        write!(
            self.out,
            r#"{separator}{{"type":"{kind}","name":{name},"unit":"{unit}","{START_KEY}":{start},"{END_KEY}":{end},"#
        )
    }

    /// Returns the new index of the profile that the imported file showed first.
    fn active_index(&self) -> Option<u32> {
        let index: usize = self.survey.active_index.as_ref()?.parse().ok()?;
        let mut processes = self.reader.processes();
        let (_, None) = (processes.next()?, processes.next()) else { return None };
        let thread = self.reader.threads().nth(index)?;
        self.first_profile_by_thread.get(&thread.id).copied()
    }
}

/// Returns the base of times, which is 0 if times are small enough without one.
fn base_nanos(reader: &Reader) -> i64 {
    let ends = reader.processes().map(|process| process.end_nanos);
    if ends.max().is_none_or(|end_nanos| end_nanos <= MAX_SAFE_INTEGER) {
        return 0;
    }
    reader.processes().map(|process| process.start_nanos).min().unwrap_or(0)
}

fn process_of_thread(reader: &Reader, thread: u32) -> u32 {
    reader.thread(thread).map_or(0, |thread| thread.process_id)
}

const fn stream_key(activity: &GpuActivity) -> StreamKey {
    (activity.process_id, activity.device, activity.stream)
}

const fn value_key(sample: &Sample) -> ValueKey {
    (sample.process_id, sample.thread_id, sample.name_id)
}

/// Returns the title of the profile of a thread, empty if an imported thread has no name.
fn thread_title(reader: &Reader, thread: u32) -> String {
    let Some(thread) = reader.thread(thread) else { return String::new() };
    let title = match &*thread.name {
        "" if thread.os_id >= 0 => format!("thread {}", thread.os_id),
        name => name.to_owned(),
    };
    with_process_title(reader, thread.process_id, title)
}

/// Adds the process to a title if there are several processes.
fn with_process_title(reader: &Reader, process_id: u32, title: String) -> String {
    if reader.processes().nth(1).is_none() {
        return title;
    }
    format!("{}, {title}", process_title(reader, process_id))
}

fn process_title(reader: &Reader, process: u32) -> String {
    let Some(process) = reader.process(process) else { return String::new() };
    match (process.rank, &process.name) {
        (Some(rank), _) => format!("rank {rank}"),
        (None, Some(name)) => name.clone(),
        (None, None) => format!("process {}", process.pid),
    }
}
