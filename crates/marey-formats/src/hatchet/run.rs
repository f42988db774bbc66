//! Imports profiles into runs, and exports runs as profiles.
//!
//! A node becomes a context, and each of its metrics a sample. One row of metadata keeps the data
//! for which a run has no column. It is the file without its tree, called the header.

use std::collections::HashSet;
use std::io::{self, Read, Write};

use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::json::quoted;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::profile::{Device, Node, NodeId, Profile};
use marey_model::table::Table;
use marey_model::table::stored::{DEVICES, GPU_ACTIVITIES, METRICS, SAMPLES, SPANS};
use marey_model::wall;
use marey_store::row::{Device as DeviceRow, Metadata, Metric, Sample};
use marey_store::{Assembler, NewProcess, Reader, Sampled, StoreError};

use super::profile::{is_from_program, profile_from_run};
use super::source::{self, WINDOW_BYTES};
use super::{Format, ParseError, parse, read_checked, write};
use crate::shared::export::{ExportError, LeftOut, leave_out_tables_except};
use crate::shared::import::{Import, ReaderError};
use crate::shared::input::Input;

/// The key of the row of metadata with the header.
const HEADER_KEY: &str = "hatchet";

/// The name of the samples with sketches. The value is the number of entries, and `buckets` is an
/// argument.
pub(super) const SKETCH_NAME: &str = "wall_sketch";
/// The argument with the buckets of a sketch.
pub(super) const BUCKETS_ARG: &str = "buckets";
/// The argument with a list of integers, which the column stores as floats.
pub(super) const INTEGERS_ARG: &str = "integers";

/// The keys of kernel times and counts in Proton's files.
const KERNEL_KEYS: [&str; 2] = ["time (ns)", "count"];

/// The tables that a tree of sums can hold.
const WRITTEN_TABLES: [&Table; 5] = [&SPANS, &METRICS, &GPU_ACTIVITIES, &SAMPLES, &DEVICES];

/// Imports a profile into a run.
pub(crate) fn import(input: &mut Input, import: &mut Import) -> Result<(), ReaderError> {
    let profile = read_profile(input)?;
    let process_id = import.add_process(new_process(&profile));
    if let Some(recorded) = &profile.meta.process {
        let start_nanos = recorded.start_unix_nanos.try_into().unwrap_or(i64::MAX);
        let duration_nanos = recorded.duration_nanos.try_into().unwrap_or(i64::MAX);
        import.run.extend(process_id, start_nanos, duration_nanos);
    }
    for (cause, count) in &profile.meta.losses {
        if let Some(loss_cause) =
            LossCause::ALL.into_iter().find(|loss_cause| loss_cause.as_str() == cause)
        {
            import.run.lose(process_id, loss_cause, *count);
        }
    }
    for (key, note) in &profile.meta.notes {
        import.run.add_metadata(&Metadata::new(process_id, key, &quoted(note)))?;
    }
    add_header(&profile, process_id, import)?;
    add_devices(&profile.devices, process_id, import)?;
    add_metrics(&profile, process_id, import)
}

fn read_profile(input: &mut Input) -> Result<Profile, ReaderError> {
    let mut input = ForeignFile { input, error: None };
    let result = read_checked(&mut input, WINDOW_BYTES);
    match (input.error, result) {
        (Some(error), _) => Err(error.into()),
        (None, Ok(profile)) => Ok(profile),
        (None, Err(ParseError::Syntax { position, cause })) => {
            Err(ReaderError::content(position.byte_offset, cause))
        }
        (None, Err(ParseError::Invalid(violation))) => Err(ReaderError::content(0, violation)),
    }
}

/// The content of a foreign file. An error of a read ends the content, and is kept in `error`.
struct ForeignFile<'a> {
    input: &'a mut Input,
    error: Option<io::Error>,
}

impl source::ByteInput for ForeignFile<'_> {
    fn fill(&mut self, buffer: &mut [u8]) -> usize {
        self.input.read(buffer).unwrap_or_else(|error| {
            self.error = Some(error);
            0
        })
    }
}

fn new_process(profile: &Profile) -> NewProcess {
    let Some(process) = &profile.meta.process else {
        return NewProcess { pid: -1, is_complete: true, ..NewProcess::default() };
    };
    NewProcess {
        pid: i64::try_from(process.pid).unwrap_or(-1),
        rank: process.rank.and_then(|rank| rank.try_into().ok()),
        host: process.host.clone(),
        argv: process.argv.clone(),
        name: None,
        is_complete: process.is_complete,
    }
}

/// Adds the header of a file: the devices and, in marey's own files, the extras of the root.
fn add_header(profile: &Profile, process_id: u32, import: &mut Import) -> Result<(), ReaderError> {
    let mut header = Profile {
        nodes: profile.nodes[..1].to_vec(),
        devices: profile.devices.clone(),
        meta: profile.meta.clone(),
        ..Profile::default()
    };
    if let Some(overhead) = &mut header.meta.overhead
        && !overhead.scope_nanos.is_finite()
    {
        overhead.scope_nanos = f64::NAN; // JSON has no infinity
    }
    let mut file = Vec::new();
    write(&header, Format::Json, &mut file)?;
    let file = String::from_utf8_lossy(&file);
    let value: String = file.lines().map(str::trim_start).collect();
    Ok(import.run.add_metadata(&Metadata::new(process_id, HEADER_KEY, &value))?)
}

/// Returns the headers of the selected imported profiles of a run.
pub(super) fn read_headers(reader: &Reader) -> Result<Vec<Profile>, StoreError> {
    let mut headers = Vec::new();
    for row in reader.rows::<Metadata>()? {
        let row = row?;
        if &*row.key == HEADER_KEY {
            headers.extend(parse(row.value.as_bytes()));
        }
    }
    Ok(headers)
}

fn add_devices(
    devices: &[Device],
    process_id: u32,
    import: &mut Import,
) -> Result<(), ReaderError> {
    for device in devices {
        // A device whose id is no number is kept only in the header.
        let Ok(number) = device.id.parse() else { continue };
        let row = DeviceRow {
            process_id,
            device: number,
            device_type: device.family.as_str().into(),
            name: "".into(),
            properties: properties_json(device).into(),
        };
        import.run.add_device(&row)?;
    }
    Ok(())
}

/// Returns the properties of a device as a JSON object, with the keys of the file.
fn properties_json(device: &Device) -> String {
    let mut object = serde_json::Map::new();
    if let Some(arch) = &device.arch {
        object.insert("arch".into(), arch.as_str().into());
    }
    for (key, value) in [
        ("bus_width", device.bus_width_bits),
        ("clock_rate", device.clock_rate_khz),
        ("memory_clock_rate", device.memory_clock_rate_khz),
        ("num_sms", device.num_sms),
    ] {
        object.extend(value.map(|value| (key.to_owned(), value.into())));
    }
    serde_json::Value::from(object).to_string()
}

/// Adds the metrics as samples, node by node, which keeps the order of the file.
fn add_metrics(profile: &Profile, process_id: u32, import: &mut Import) -> Result<(), ReaderError> {
    let contexts = add_contexts(profile, import);
    select_shown_samples(profile, import);
    let name_ids: Vec<u32> =
        profile.metrics.iter().map(|metric| import.run.text_id(&metric.key)).collect();
    let sketch_name = import.run.text_id(SKETCH_NAME);
    let mut next_indices = vec![0; profile.metrics.len()];
    let mut sketches = profile.sketches.iter().peekable();
    let mut args = NewArgs::default();
    for (index, &context_id) in contexts.iter().enumerate() {
        let node = NodeId(index as u32);
        let mut add_sample = |name_id, value, args: &mut NewArgs| -> Result<(), ReaderError> {
            let args = import.run.args(args)?;
            let row = Sample::new(process_id, context_id, name_id, value);
            Ok(import.run.add_sample(&Sample { args, ..row })?)
        };
        for ((metric, next_index), &name) in
            profile.metrics.iter().zip(&mut next_indices).zip(&name_ids)
        {
            if metric.nodes.get(*next_index) != Some(&node) {
                continue;
            }
            let value = metric.values.get(*next_index);
            *next_index += 1;
            args.clear();
            if let MetricValue::Ints(values) = &value {
                args.json(INTEGERS_ARG, &to_json(values));
            }
            add_sample(name, value, &mut args)?;
        }
        while let Some((_, sketch)) = sketches.next_if(|(sketch_node, _)| *sketch_node == node) {
            args.clear();
            args.json(BUCKETS_ARG, &to_json(sketch));
            let entries = sketch.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
            let entries = i64::try_from(entries).unwrap_or(i64::MAX);
            add_sample(sketch_name, MetricValue::Int(entries), &mut args)?;
        }
    }
    Ok(())
}

fn to_json(values: impl serde::Serialize) -> String {
    serde_json::json!(values).to_string()
}

/// Returns the context of each node. Siblings with equal names share one.
fn add_contexts(profile: &Profile, import: &mut Import) -> Vec<u32> {
    let mut contexts: Vec<u32> = Vec::with_capacity(profile.nodes.len());
    let mut used_contexts = HashSet::new();
    let mut merged_count = 0;
    for Node { name, kind, parent } in &profile.nodes {
        let context = match parent {
            Some(parent) => {
                let name = import.run.text_id(name);
                let kind = kind.unwrap_or(NodeKind::Scope);
                import.run.context_id(contexts[parent.index()], kind, name)
            }
            None => Assembler::ROOT,
        };
        merged_count += u64::from(!used_contexts.insert(context));
        contexts.push(context);
    }
    if merged_count > 0 {
        let cause = "siblings with the same name are merged into one node";
        import.lose(LossCause::Unsupported, merged_count, 0, cause);
    }
    contexts
}

/// Selects the samples that flame graphs show: wall times, or else kernel times.
fn select_shown_samples(profile: &Profile, import: &mut Import) {
    let has_wall = profile.metric(wall::SELF).is_some();
    let keys = if has_wall { [wall::SELF, wall::COUNT] } else { KERNEL_KEYS };
    let [nanos_name_id, count_name_id] =
        keys.map(|key| profile.metric(key).map(|_| import.run.text_id(key)));
    import.run.show_samples(Sampled { count_name_id, nanos_name_id, counts_calls: has_wall });
}

/// Exports a run as a profile.
pub(crate) fn export(
    reader: &Reader,
    format: Format,
    mut out: &mut dyn Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let mut profile = profile_from_run(reader)?;
    // An imported profile may consist of only its root, and is then no error.
    if profile.nodes.len() == 1 && profile.metrics.is_empty() && read_headers(reader)?.is_empty() {
        let format = match format {
            Format::Json => crate::shared::format::Format::Hatchet,
            Format::Msgpack => crate::shared::format::Format::HatchetMsgpack,
        };
        return Err(ExportError::NoData { format, missing: "no contexts" });
    }
    if format == Format::Json {
        left_out.insert("infinite values", remove_infinite(&mut profile));
    }
    write(&profile, format, &mut out)?;
    leave_out_tables_except(&WRITTEN_TABLES, reader, left_out)?;
    if !read_headers(reader)?.is_empty() {
        // The metadata of an imported file are its header, which is written again.
        left_out.remove("metadata entries");
    }
    let mut counters = 0;
    for row in reader.rows::<Metric>()? {
        counters += u64::from(!is_from_program(&row?));
    }
    *left_out.entry("counter values").or_default() += counters;
    Ok(())
}

/// Removes infinite values, which JSON cannot hold, and returns their number.
fn remove_infinite(profile: &mut Profile) -> u64 {
    let mut count = 0;
    for metric in &mut profile.metrics {
        let is_writable = |index: &usize| !has_infinity(&metric.values.get(*index));
        let writable: Vec<usize> = (0..metric.nodes.len()).filter(is_writable).collect();
        if writable.len() < metric.nodes.len() {
            count += (metric.nodes.len() - writable.len()) as u64;
            metric.nodes = writable.iter().map(|&index| metric.nodes[index]).collect();
            metric.values = metric.values.pick(&writable);
        }
    }
    profile.metrics.retain(|metric| !metric.nodes.is_empty());
    if let Some(overhead) = &mut profile.meta.overhead
        && overhead.scope_nanos.is_infinite()
    {
        overhead.scope_nanos = f64::NAN;
        count += 1;
    }
    count
}

fn has_infinity(value: &MetricValue) -> bool {
    match value {
        MetricValue::Float(value) => value.is_infinite(),
        MetricValue::Floats(values) => values.iter().any(|value| value.is_infinite()),
        MetricValue::Int(_) | MetricValue::Text(_) | MetricValue::Ints(_) => false,
    }
}
