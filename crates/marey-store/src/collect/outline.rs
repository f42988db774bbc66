//! The first pass over a spool: collects everything except events, so that the second pass can
//! convert times and resolve names, threads and nodes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::memory::parse_reading_name;
use marey_model::profile::{Overhead, Process};
use marey_model::spool::{Device, IdMap, NodeDef, SpoolFrame};

use super::sessions::Sessions;
use super::threads::Threads;
use crate::names::{self, Names};
use crate::rollup::NO_NODE;

/// Name of the values of samples, as `marey record` writes it.
const SAMPLE_NAME: &str = "time (ns)";

/// The contents of a spool except events.
#[derive(Debug, Default)]
pub(super) struct Outline {
    pub(super) process: Option<Process>,
    /// Pairs of clock readings, `(monotonic, since 1970)`.
    pub(super) clocks: Vec<(i64, i64)>,
    /// Threads, by their numbers in the spool.
    pub(super) threads: Threads,
    /// The nodes of all threads.
    pub(super) nodes: Vec<OutlineNode>,
    /// The run's ids of the spool's texts.
    pub(super) texts: IdMap<u32>,
    /// The memories whose readings are recorded, by the spool's id of the name of the metric.
    pub(super) memories: HashMap<u32, MeasuredMemory>,
    pub(super) sessions: Sessions,
    pub(super) devices: BTreeMap<u32, Device>,
    /// Notes about the recording, as JSON.
    pub(super) notes: BTreeMap<String, String>,
    pub(super) losses: Vec<(LossCause, u64)>,
    /// The run's id of the name of samples, if there are any.
    pub(super) sample_name_id: Option<u32>,
    pub(super) overhead: Option<Overhead>,
    /// Number of events.
    pub(super) event_count: u64,
    /// The last timestamp in the spool, on the recorder's clock.
    pub(super) last_nanos: Option<i64>,
    /// Whether the spool has an end frame.
    pub(super) is_complete: bool,
}

/// The memory of a device, or of the process on the host.
#[derive(Debug)]
pub(super) struct MeasuredMemory {
    pub(super) device_type: Arc<str>,
    pub(super) device: Option<u32>,
}

/// A node of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutlineNode {
    /// The position of its thread.
    pub(super) thread: u32,
    /// The position of its parent, or [`NO_NODE`].
    pub(super) parent: u32,
    pub(super) context_id: u32,
    pub(super) name_id: u32,
    pub(super) kind: NodeKind,
}

impl Outline {
    /// Adds a frame.
    pub(super) fn add(&mut self, frame: &SpoolFrame, names: &mut Names) {
        match frame {
            SpoolFrame::Process(process) => self.process = Some(process.clone()),
            SpoolFrame::Clock { monotonic_nanos, unix_nanos } => {
                self.clocks.push((*monotonic_nanos, *unix_nanos));
                self.extend_to([*monotonic_nanos]);
            }
            SpoolFrame::Strings { first_id, texts } => {
                self.texts.extend(*first_id, texts.iter().map(|text| names.text_id(text)));
                let texts = texts.iter().zip(*first_id..=u32::MAX);
                self.memories.extend(
                    texts.filter_map(|(text, id)| Some((id, MeasuredMemory::from_name(text)?))),
                );
            }
            SpoolFrame::Thread { thread, os_id, name } => {
                self.threads.define(*thread, *os_id, name);
            }
            SpoolFrame::Nodes { thread, first_id, nodes } => {
                self.add_nodes(*thread, *first_id, nodes, names);
            }
            SpoolFrame::Spans { spans, .. } => {
                self.event_count += spans.len() as u64;
                let times = spans.iter().flat_map(|span| [span.start_nanos, span.end_nanos]);
                self.extend_to(times);
            }
            SpoolFrame::Values { values, .. } => {
                self.event_count += values.len() as u64;
                self.extend_to(values.iter().map(|value| value.time_nanos));
            }
            SpoolFrame::Counters(counters) => {
                self.event_count += counters.len() as u64;
                self.extend_to(counters.iter().map(|counter| counter.time_nanos));
            }
            SpoolFrame::Open { spans, .. } => self.extend_to(spans.iter().map(|&(_, start)| start)),
            SpoolFrame::Session { session, event, name, time_nanos } => {
                self.sessions.apply(*session, *event, name, *time_nanos);
                self.extend_to([*time_nanos]);
            }
            SpoolFrame::Activities { activities, .. } => {
                self.event_count += activities.len() as u64;
                self.extend_to(activities.iter().map(|activity| activity.start_nanos));
            }
            SpoolFrame::Samples { samples, .. } => {
                self.event_count += samples.len() as u64;
                self.sample_name_id = Some(names.text_id(SAMPLE_NAME));
                for sample in samples {
                    self.add_observed_thread(sample.os_id, sample.thread_name_id, names);
                    self.extend_to([sample.time_nanos]);
                }
            }
            SpoolFrame::Variables(variables) => {
                self.event_count += variables.len() as u64;
                for variable in variables {
                    self.add_observed_thread(variable.os_id, variable.thread_name_id, names);
                    self.extend_to([variable.time_nanos]);
                }
            }
            SpoolFrame::Collectives(collectives) => self.event_count += collectives.len() as u64,
            SpoolFrame::Device(device) => {
                self.devices.insert(device.number, device.clone());
            }
            SpoolFrame::Note { key, value } => {
                self.notes.insert(key.clone(), value.clone());
            }
            // The second pass reads them.
            SpoolFrame::Launches { .. }
            | SpoolFrame::Autograd { .. }
            | SpoolFrame::SpanArgs { .. }
            | SpoolFrame::ArgsOfSpans { .. }
            | SpoolFrame::Shapes { .. } => {}
            SpoolFrame::Losses(losses) => self.losses.clone_from(losses),
            SpoolFrame::Overhead(overhead) => self.overhead = Some(*overhead),
            SpoolFrame::End => self.is_complete = true,
        }
    }

    /// Adds the thread of a sample or a variable, unless it is known. Such a thread may record
    /// nothing itself, so it gets the name in that record.
    fn add_observed_thread(&mut self, os_id: u64, thread_name_id: u32, names: &Names) {
        if self.threads.newest_number(os_id).is_none() {
            let name_id = self.texts.get(thread_name_id).copied().unwrap_or_default();
            let number = self.threads.find_or_add(os_id);
            if let Some(thread) = self.threads.get_mut(number) {
                names.text_of(name_id).clone_into(&mut thread.name);
            }
        }
    }

    fn add_nodes(&mut self, thread: u32, first_id: u32, nodes: &[NodeDef], names: &mut Names) {
        let Some(thread) = self.threads.get_mut(thread) else { return };
        for (node, id) in nodes.iter().zip(first_id..=u32::MAX) {
            // The spool reader has rejected frames with undefined texts or nodes.
            let name_id = self.texts.get(node.name_id).copied().unwrap_or_default();
            let is_root = node.kind == NodeKind::Root;
            let parent = if is_root { None } else { thread.nodes.get(node.parent_id).copied() };
            let context_id = match parent.and_then(|parent| self.nodes.get(parent as usize)) {
                Some(parent) => names.context_id(parent.context_id, node.kind, name_id),
                None => names::ROOT,
            };
            thread.nodes.extend(id, std::iter::once(self.nodes.len() as u32));
            self.nodes.push(OutlineNode {
                thread: thread.position,
                parent: parent.unwrap_or(NO_NODE),
                context_id,
                name_id,
                kind: node.kind,
            });
        }
    }

    fn extend_to(&mut self, times_nanos: impl IntoIterator<Item = i64>) {
        self.last_nanos = self.last_nanos.max(times_nanos.into_iter().max());
    }
}

impl MeasuredMemory {
    /// Returns the memory whose readings are recorded under this name.
    fn from_name(name: &str) -> Option<Self> {
        let (device_type, device) = parse_reading_name(name)?;
        Some(Self { device_type: device_type.into(), device })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use marey_model::metric::MetricValue;
    use marey_model::spool::{
        Activity, Collective, CollectiveState, Counter, RecordedValue, Sample, SampleCause, Span,
        Variable,
    };

    #[test]
    fn each_record_of_a_list_is_an_event() {
        let span = Span { node_id: 0, start_nanos: 1, end_nanos: 2 };
        let value =
            RecordedValue { node_id: 0, time_nanos: 3, name_id: 0, value: MetricValue::Int(1) };
        let counter = Counter { time_nanos: 4, name_id: 0, device: None, value: 1.0 };
        let activity = Activity {
            shape_id: 0,
            start_nanos: 5,
            duration_nanos: 1,
            bytes: 0,
            correlation_id: 0,
            launch: None,
        };
        let sample = Sample {
            time_nanos: 6,
            duration_nanos: 1,
            os_id: 7,
            thread_name_id: 0,
            node_id: 0,
            cause: SampleCause::Signal,
        };
        let variable = Variable {
            time_nanos: 7,
            os_id: 7,
            thread_name_id: 0,
            file_id: 0,
            function_id: 0,
            line: 1,
            name_id: 0,
            type_id: 0,
            value: MetricValue::Int(1),
        };
        let collective = Collective {
            name_id: 0,
            group_id: 0,
            group_ranks_id: None,
            group_size: None,
            sequence: None,
            dtype_id: None,
            in_elements: None,
            out_elements: None,
            created_unix_nanos: 8,
            started_unix_nanos: None,
            duration_nanos: None,
            state: CollectiveState::Scheduled,
            is_p2p: false,
        };
        let mut outline = Outline::default();
        for (frame, events, last_nanos) in [
            (SpoolFrame::Spans { thread: 0, sessions: 1, spans: vec![span; 2] }, 2, 2),
            (SpoolFrame::Values { thread: 0, sessions: 1, values: vec![value; 3] }, 5, 3),
            (SpoolFrame::Counters(vec![counter; 4]), 9, 4),
            (SpoolFrame::Activities { sessions: 1, activities: vec![activity; 5] }, 14, 5),
            (SpoolFrame::Open { thread: 0, spans: vec![(0, 3)] }, 14, 5),
            (SpoolFrame::Samples { thread: 0, samples: vec![sample; 2] }, 16, 6),
            (SpoolFrame::Variables(vec![variable; 3]), 19, 7),
            (SpoolFrame::Collectives(vec![collective; 4]), 23, 7),
        ] {
            outline.add(&frame, &mut Names::new());
            assert_eq!((outline.event_count, outline.last_nanos), (events, Some(last_nanos)));
        }
    }
}
