//! Writes the samples of a run, or else the times of its spans, as a pprof profile.
//!
//! Readers merge concatenated parts of a profile. So sums are written whenever there are many,
//! together with the entries that they refer to, and memory stays bounded.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use marey_model::table::stored::{GPU_ACTIVITIES, METADATA, SAMPLES, SPANS};
use marey_store::Reader;
use marey_store::row::{self, Args, Metadata};
use prost::Message;
use serde_json::Value;

use super::message::{Label, Sample};
use super::symbols::Symbols;
use super::{LOCATIONS_ARG, metadata};
use crate::shared::export::{ExportError, LeftOut, leave_out_tables_except};
use crate::shared::format::Format;
use crate::shared::json::replace_lone_surrogates;
use crate::shared::weights::{
    Stack, StackKey, StackTimes, Sum, numeric_sample_names, split_unit, times_by_stack,
};

/// The maximum number of sums in memory.
const MAX_SUMS: usize = 1 << 16;

/// 2⁶³, the first integer beyond `i64`.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// The maximum number of value types. A sample has one value of each type, even if it is zero.
const MAX_VALUE_TYPES: usize = 64;

/// A type of values of a run with spans.
#[derive(Clone, Copy)]
struct ValueColumn {
    kind: &'static str,
    unit: &'static str,
    value: fn(&StackTimes) -> i64,
}

const VALUE_COLUMNS: [ValueColumn; 3] = [
    ValueColumn { kind: "spans", unit: "count", value: |times| times.count },
    ValueColumn { kind: "time", unit: "nanoseconds", value: |times| times.self_nanos },
    ValueColumn { kind: "gpu_time", unit: "nanoseconds", value: |times| times.device_nanos },
];

/// Writes a profile, gzip-compressed as pprof requires.
pub(crate) fn write(
    reader: &Reader,
    out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let out = GzEncoder::new(out, Compression::default());
    let has_several_processes = reader.processes().nth(1).is_some();
    let mut writer =
        Writer { reader, out, left_out, symbols: Symbols::new(), has_several_processes };
    for row in reader.rows::<Metadata>()? {
        if !writer.symbols.add_imported(&row?) {
            writer.leave_out("metadata entries");
        }
    }
    let names = numeric_sample_names(reader)?;
    if names.is_empty() {
        writer.write_spans()?;
        *writer.left_out.entry("values that are not numbers").or_default() +=
            reader.count(&SAMPLES)?;
        let written = [&SAMPLES, &METADATA, &SPANS, &GPU_ACTIVITIES];
        leave_out_tables_except(&written, reader, writer.left_out)?;
    } else {
        writer.write_sampled(&names)?;
        leave_out_tables_except(&[&SAMPLES, &METADATA], reader, writer.left_out)?;
    }
    writer.out.finish()?;
    Ok(())
}

struct Writer<'a, 'r, 'o> {
    reader: &'a Reader<'r>,
    out: GzEncoder<&'o mut dyn Write>,
    left_out: &'a mut LeftOut,
    symbols: Symbols,
    /// Whether samples need a label with their process.
    has_several_processes: bool,
}

/// The key of a sum. Samples with the same key are added up.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SumKey {
    stack_key: StackKey,
    args: Args,
}

impl Writer<'_, '_, '_> {
    fn write_sampled(&mut self, names: &[u32]) -> Result<(), ExportError> {
        let names = &names[..names.len().min(MAX_VALUE_TYPES)];
        let columns: HashMap<u32, usize> = names.iter().copied().zip(0..).collect();
        let types = names.iter().map(|&name_id| split_unit(self.reader.text(name_id)));
        self.set_header(&types.collect::<Vec<_>>(), "");
        let mut sums: BTreeMap<SumKey, Vec<Sum>> = BTreeMap::new();
        for sample in self.reader.rows::<row::Sample>()? {
            let sample = sample?;
            if sample.time_nanos.is_some() {
                self.leave_out("sample times");
            }
            let value = Sum::from_metric(&sample.value).filter(|value| value.as_f64().is_finite());
            let Some(value) = value else {
                self.leave_out("values that are not numbers");
                continue;
            };
            let Some(&column) = columns.get(&sample.name_id) else {
                self.leave_out("values of further types");
                continue;
            };
            let values =
                sums.entry(sum_key(sample)).or_insert_with(|| vec![Sum::Int(0); names.len()]);
            values[column].add(value);
            if sums.len() == MAX_SUMS {
                self.flush_sums(&mut sums)?;
            }
        }
        self.flush_sums(&mut sums)
    }

    /// Writes the times of spans and devices, as far as the run has them.
    fn write_spans(&mut self) -> Result<(), ExportError> {
        let times = times_by_stack(self.reader)?;
        let mut columns = VALUE_COLUMNS.to_vec();
        columns.retain(|column| times.values().any(|times| (column.value)(times) != 0));
        if columns.is_empty() {
            let missing = "no samples, no spans and no device activities";
            return Err(ExportError::NoData { format: Format::Pprof, missing });
        }
        let types: Vec<_> = columns.iter().map(|column| (column.kind, column.unit)).collect();
        self.set_header(&types, "time");
        let mut sums = BTreeMap::new();
        for (stack_key, times) in times {
            let values = columns.iter().map(|column| Sum::Int((column.value)(&times)));
            let values = values.collect();
            let key = SumKey { stack_key, args: Args::default() };
            sums.insert(key, values);
        }
        self.flush_sums(&mut sums)
    }

    /// Sets the value types and the metadata of the file.
    fn set_header(&mut self, types: &[(&str, &str)], default_type: &str) {
        let default_file = || {
            let start_nanos = self.reader.processes().map(|process| process.start_nanos).min();
            let end_nanos = self.reader.processes().map(|process| process.end_nanos).max();
            let (start_nanos, end_nanos) = (start_nanos.unwrap_or(0), end_nanos.unwrap_or(0));
            metadata::File {
                time_nanos: start_nanos,
                duration_nanos: end_nanos.saturating_sub(start_nanos),
                default_sample_type: default_type.to_owned(),
                ..metadata::File::default()
            }
        };
        let file = self.symbols.file.take().unwrap_or_else(default_file);
        let symbols = &mut self.symbols;
        symbols.profile.sample_type =
            types.iter().map(|(kind, unit)| symbols.value_type(kind, unit)).collect();
        let period_type = file.period_type.map(|(kind, unit)| symbols.value_type(&kind, &unit));
        symbols.profile.period_type = period_type;
        symbols.profile.comment =
            file.comments.iter().map(|text| symbols.text_index(text)).collect();
        symbols.profile.drop_frames = symbols.text_index(&file.drop_frames);
        symbols.profile.keep_frames = symbols.text_index(&file.keep_frames);
        symbols.profile.default_sample_type = symbols.text_index(&file.default_sample_type);
        symbols.profile.doc_url = symbols.text_index(&file.doc_url);
        symbols.profile.time_nanos = file.time_nanos;
        symbols.profile.duration_nanos = file.duration_nanos;
        symbols.profile.period = file.period;
    }

    /// Writes sums and removes them, together with the entries that they refer to.
    fn flush_sums(&mut self, sums: &mut BTreeMap<SumKey, Vec<Sum>>) -> Result<(), ExportError> {
        for (key, values) in std::mem::take(sums) {
            let sample = self.build_sample(&key, &values);
            self.symbols.profile.sample.push(sample);
        }
        let profile = std::mem::take(&mut self.symbols.profile);
        self.out.write_all(&profile.encode_to_vec())?;
        Ok(())
    }

    fn build_sample(&mut self, key: &SumKey, values: &[Sum]) -> Sample {
        let mut args = self.sample_args(key);
        let locations =
            args.remove(LOCATIONS_ARG).and_then(|ids| self.imported_locations(&ids, key.stack_key));
        let location_id = locations.unwrap_or_else(|| self.stack_locations(key.stack_key.stack));
        let mut label = self.owner_labels(key.stack_key);
        for (name, value) in args {
            self.add_arg_labels(&name, value, &mut label);
        }
        let value = values.iter().map(|&sum| self.round_sum(sum)).collect();
        Sample { location_id, value, label }
    }

    fn sample_args(&mut self, key: &SumKey) -> serde_json::Map<String, Value> {
        if key.args.text_id.is_none() {
            return serde_json::Map::new();
        }
        let mut json = String::new();
        self.reader.args(&key.args, &mut json);
        serde_json::from_str(&replace_lone_surrogates(&json)).unwrap_or_else(|_deep_or_damaged| {
            self.leave_out("arguments that cannot be read");
            serde_json::Map::new()
        })
    }

    /// Returns the locations that an imported sample had, if they are known.
    fn imported_locations(&self, ids: &Value, stack_key: StackKey) -> Option<Vec<u64>> {
        let ids = ids.as_array()?.iter();
        ids.map(|id| self.symbols.imported_location(stack_key.process_id, id.as_u64()?)).collect()
    }

    /// Returns the locations of a stack, innermost first.
    fn stack_locations(&mut self, stack: Stack) -> Vec<u64> {
        let (reader, symbols) = (self.reader, &mut self.symbols);
        let kernel = stack.kernel_id.map(|name_id| symbols.kernel_location(name_id, reader));
        let contexts = reader.path(stack.context_id).into_iter().rev();
        let frames = contexts.map(|id| symbols.frame_location(reader.context(id), reader));
        kernel.into_iter().chain(frames).collect()
    }

    fn owner_labels(&mut self, stack_key: StackKey) -> Vec<Label> {
        let mut labels = Vec::new();
        if let Some(process) =
            self.reader.process(stack_key.process_id).filter(|_| self.has_several_processes)
        {
            labels.push(self.number_label("pid", process.pid));
            labels.extend(process.rank.map(|rank| self.number_label("rank", rank)));
        }
        if let Some(thread) = stack_key.thread_id.and_then(|id| self.reader.thread(id)) {
            if !thread.name.is_empty() {
                labels.push(self.text_label("thread", &thread.name));
            }
            if thread.os_id >= 0 {
                labels.push(self.number_label("tid", thread.os_id));
            }
        }
        labels
    }

    /// Adds an argument as labels. A list becomes repeated labels. A value that a label cannot hold
    /// is written as JSON.
    fn add_arg_labels(&mut self, name: &str, value: Value, labels: &mut Vec<Label>) {
        let values = match value {
            Value::Array(values) if values.iter().all(|value| !value.is_array()) => values,
            value => vec![value],
        };
        for value in values {
            labels.push(match &value {
                Value::String(text) => self.text_label(name, text),
                value => match parse_number_and_unit(value) {
                    Some((num, unit)) => {
                        let num_unit = self.symbols.text_index(unit);
                        Label { num_unit, ..self.number_label(name, num) }
                    }
                    None => self.text_label(name, &value.to_string()),
                },
            });
        }
    }

    fn number_label(&mut self, key: &str, num: i64) -> Label {
        Label { key: self.symbols.text_index(key), num, ..Label::default() }
    }

    fn text_label(&mut self, key: &str, text: &str) -> Label {
        if text.is_empty() {
            self.leave_out("empty label texts");
        }
        Label {
            key: self.symbols.text_index(key),
            text: self.symbols.text_index(text),
            ..Label::default()
        }
    }

    fn round_sum(&mut self, sum: Sum) -> i64 {
        match sum {
            Sum::Int(value) => value,
            Sum::Float(value) => {
                if !(-TWO_TO_63..TWO_TO_63).contains(&value) {
                    self.leave_out("values beyond 64 bits");
                } else if value.fract() != 0.0 {
                    self.leave_out("fractions of values");
                }
                value.round() as i64
            }
        }
    }

    fn leave_out(&mut self, name: &'static str) {
        *self.left_out.entry(name).or_default() += 1;
    }
}

fn sum_key(sample: row::Sample) -> SumKey {
    let stack = Stack { context_id: sample.context_id, kernel_id: None };
    let row::Sample { process_id, thread_id, args, .. } = sample;
    let stack_key = StackKey { process_id, thread_id, stack };
    SumKey { stack_key, args }
}

/// Returns an integer, alone or in an object with its unit.
fn parse_number_and_unit(value: &Value) -> Option<(i64, &str)> {
    if let Some(number) = value.as_i64() {
        return Some((number, ""));
    }
    let object = value.as_object().filter(|object| object.len() == 2)?;
    Some((object.get("num")?.as_i64()?, object.get("unit")?.as_str()?))
}
