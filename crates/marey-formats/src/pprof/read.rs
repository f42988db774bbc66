//! Reads a pprof profile, and converts it to samples by context.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;

use marey_model::args::NewArgs;
use marey_model::json::quoted;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_store::row;
use marey_store::{NewProcess, Sampled};
use prost::Message;

use super::LOCATIONS_ARG;
use super::describe::add_metadata;
use super::message::{Label, Sample, tag};
use super::stacks::Stacks;
use super::tables::Tables;
use crate::shared::import::{Import, ReaderError};
use crate::shared::input::Input;
use crate::shared::protobuf::{Field, Fields};
use crate::shared::weights::{is_nanosecond_unit, split_unit};

/// The maximum size of a profile without compression.
const MAX_PROFILE_BYTES: u64 = 4 << 30;

/// Reads a file. Loads it completely, because samples may precede the entries that they refer to.
pub(crate) fn read(input: &mut Input, import: &mut Import) -> Result<(), ReaderError> {
    let content = read_limited(input, MAX_PROFILE_BYTES)?;
    let name = Some(import.stem.clone());
    let process_id = import.add_process(NewProcess { pid: -1, name, ..NewProcess::default() });
    let (tables, result) = Tables::collect(&content, import);
    let mut stacks = Stacks::new(tables, content.len());
    add_metadata(&mut stacks, process_id, import)?;
    let mut reader =
        Reader { import, process_id, stacks, threads: HashMap::new(), synthetic_os_id: 0 };
    let name_ids = reader.value_names()?;
    for field in Fields::new(&content).map_while(Result::ok) {
        if field.number == tag::SAMPLE {
            reader.add_sample(&field, &name_ids)?;
        }
    }
    result
}

fn read_limited(input: impl Read, max_bytes: u64) -> Result<Vec<u8>, ReaderError> {
    let mut content = Vec::new();
    input.take(max_bytes.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > max_bytes {
        return Err(ReaderError::content(
            max_bytes,
            format!("the profile has more than {max_bytes} bytes"),
        ));
    }
    Ok(content)
}

struct Reader<'a, 'i> {
    import: &'i mut Import,
    process_id: u32,
    stacks: Stacks<'a>,
    threads: HashMap<ThreadLabels, u32>,
    /// The made-up id of the last thread without an id in the operating system.
    synthetic_os_id: i64,
}

/// A thread, identified by the labels of samples.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct ThreadLabels {
    os_id: Option<i64>,
    name: Option<String>,
}

impl Reader<'_, '_> {
    /// Returns the name ids of the values of each sample, `None` for a duplicate name.
    fn value_names(&mut self) -> Result<Vec<Option<u32>>, ReaderError> {
        let types = std::mem::take(&mut self.stacks.tables.file.sample_type);
        let default_type = self.stacks.tables.file.default_sample_type;
        let default_type = self.stacks.text(default_type, 0, self.import)?;
        let mut sampled = Sampled::default();
        let mut is_default_selected = false;
        let mut name_ids = Vec::new();
        let mut seen_name_ids = HashSet::new();
        for value_type in &types {
            let kind = self.stacks.text(value_type.kind, 0, self.import)?;
            let unit = self.stacks.text(value_type.unit, 0, self.import)?;
            let name_id = self.import.run.text_id(&name_with_unit(&kind, &unit));
            if !seen_name_ids.insert(name_id) {
                let cause = format!("two value types have the name `{kind}`");
                self.import.lose(LossCause::Unsupported, 1, 0, cause);
                name_ids.push(None);
                continue;
            }
            name_ids.push(Some(name_id));
            // pprof shows the last type if the file names no default.
            if is_nanosecond_unit(&unit) && !is_default_selected {
                sampled.nanos_name_id = Some(name_id);
                is_default_selected = kind == default_type;
            }
            if unit == "count" && sampled.count_name_id.is_none() {
                sampled.count_name_id = Some(name_id);
            }
        }
        self.import.run.show_samples(sampled);
        Ok(name_ids)
    }

    fn add_sample(&mut self, field: &Field, name_ids: &[Option<u32>]) -> Result<(), ReaderError> {
        let offset = field.offset;
        let Ok(sample) = Sample::decode(field.value) else {
            self.import.lose(LossCause::Unreadable, 1, offset, "the sample is malformed");
            return Ok(());
        };
        let (value_count, type_count) = (sample.value.len(), name_ids.len());
        if value_count != type_count {
            let cause =
                format!("the sample has {value_count} values and the file {type_count} types");
            self.import.lose(LossCause::Unreadable, 1, offset, cause);
            return Ok(());
        }
        let context = self.stacks.stack_context(&sample.location_id, offset, self.import)?;
        let Some(context_id) = context else { return Ok(()) };
        let mut args = NewArgs::default();
        if !sample.location_id.is_empty() {
            let numbers = sample.location_id.iter().map(u64::to_string);
            let numbers: Vec<String> = numbers.collect();
            args.json(LOCATIONS_ARG, &format!("[{}]", numbers.join(",")));
        }
        let thread_labels = self.add_labels(&sample.label, offset, &mut args)?;
        let args = self.import.run.args(&mut args)?;
        let thread_id = self.thread_id(thread_labels);
        for (name_id, value) in name_ids.iter().zip(sample.value) {
            let Some(name_id) = *name_id else { continue };
            let value = MetricValue::Int(value);
            let row = row::Sample::new(self.process_id, context_id, name_id, value);
            self.import.run.add_sample(&row::Sample { thread_id, args: args.clone(), ..row })?;
        }
        Ok(())
    }

    /// Adds labels to arguments, and returns the thread that they describe. A repeated label
    /// becomes a list.
    fn add_labels(
        &mut self,
        labels: &[Label],
        offset: u64,
        args: &mut NewArgs,
    ) -> Result<ThreadLabels, ReaderError> {
        let (mut thread_labels, mut fallback_labels) =
            (ThreadLabels::default(), ThreadLabels::default());
        let mut values_by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for label in labels {
            let key = self.stacks.text(label.key, offset, self.import)?;
            let text = self.stacks.text(label.text, offset, self.import)?;
            let number = (label.text == 0 && label.num_unit == 0).then_some(label.num);
            let os_id = number.or_else(|| text.parse().ok()).filter(|id| *id >= 0);
            match &*key {
                "thread" if label.text != 0 && thread_labels.name.is_none() => {
                    thread_labels.name = Some(text.into_owned());
                    continue;
                }
                "tid" if number.is_some() && os_id.is_some() && thread_labels.os_id.is_none() => {
                    thread_labels.os_id = os_id;
                    continue;
                }
                "thread name" | "thread_name" => fallback_labels.name = Some(text.to_string()),
                "thread id" | "thread_id" | "tid" => fallback_labels.os_id = os_id,
                LOCATIONS_ARG => {
                    let cause = format!("a label has the reserved name `{LOCATIONS_ARG}`");
                    self.import.lose(LossCause::Unsupported, 1, offset, cause);
                    continue;
                }
                _ => {}
            }
            let value = if label.text != 0 {
                quoted(&text)
            } else if label.num_unit != 0 {
                let unit = self.stacks.text(label.num_unit, offset, self.import)?;
                format!("{{\"num\":{},\"unit\":{}}}", label.num, quoted(&unit))
            } else {
                label.num.to_string()
            };
            values_by_key.entry(key.into_owned()).or_default().push(value);
        }
        for (key, values) in &values_by_key {
            match values.as_slice() {
                [value] => args.json(key, value),
                values => args.json(key, &format!("[{}]", values.join(","))),
            }
        }
        thread_labels.os_id = thread_labels.os_id.or(fallback_labels.os_id);
        thread_labels.name = thread_labels.name.or(fallback_labels.name);
        Ok(thread_labels)
    }

    fn thread_id(&mut self, thread_labels: ThreadLabels) -> Option<u32> {
        if thread_labels == ThreadLabels::default() {
            return None;
        }
        let (run, process, synthetic_os_id) =
            (&mut self.import.run, self.process_id, &mut self.synthetic_os_id);
        Some(*self.threads.entry(thread_labels).or_insert_with_key(
            |ThreadLabels { os_id, name }| {
                let os_id = os_id.unwrap_or_else(|| {
                    *synthetic_os_id -= 1;
                    *synthetic_os_id
                });
                run.add_thread(process, os_id, name.as_deref().unwrap_or_default())
            },
        ))
    }
}

/// Returns a name such as `cpu (nanoseconds)`. A name without a unit gets no parentheses, unless it
/// already ends with a pair, which would read as a unit.
fn name_with_unit(kind: &str, unit: &str) -> String {
    let needs_unit = !unit.is_empty() || kind != split_unit(kind).0;
    if needs_unit { format!("{kind} ({unit})") } else { kind.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_beyond_the_size_limit_is_refused() {
        assert_eq!(read_limited(&b"1234"[..], 4).unwrap(), b"1234");
        let error = read_limited(std::io::repeat(0), 4).unwrap_err();
        assert_eq!(error.to_string(), "byte 4: the profile has more than 4 bytes");
    }
}
