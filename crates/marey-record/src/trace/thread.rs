//! The writer of one thread: drains the thread's log, and turns spans, values, samples and open
//! scopes into frames of the spool, each after the names and nodes that it refers to.

use super::activities::{LaunchLocation, capture_site_node};
use super::clock::TraceClock;
use super::frame_buffer::FrameBuffer;
use super::log::{Log, LogDecoder, LogEntry, LoggedSpan};
use super::nodes::SpoolNodes;
use super::texts::SpoolTexts;
use crate::api::StackSample;
use crate::control::CONTROL;
use crate::device::Launch;
use crate::local;
use crate::losses;
use crate::thread::ThreadTree;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::spool::{AutogradCall, RecordedValue, Sample, SampleCause, Span, SpoolFrame};
use std::sync::atomic::Ordering;

/// The parts of a spool that the writers of all threads share.
#[derive(Debug)]
pub(super) struct SpoolOutput {
    pub(super) clock: TraceClock,
    pub(super) texts: SpoolTexts,
    pub(super) buffer: FrameBuffer,
}

/// A thread of the spool.
#[derive(Debug)]
pub(super) struct ThreadWriter {
    number: u32,
    definition: SpoolFrame,
    decoder: LogDecoder,
    nodes: SpoolNodes,
    batch: FrameBatch,
    /// The arguments of scopes that are still open, outermost first.
    open_args: Vec<OpenArgs>,
    /// The open scopes that were written last.
    written_open_spans: Vec<(u32, i64)>,
}

/// The entries to be written in the next frames.
#[derive(Debug, Default)]
struct FrameBatch {
    spans: Vec<Span>,
    /// The launches among the spans: the index of the span and the correlation id.
    launches: Vec<(u32, u32)>,
    /// The calls among the spans that take part in a backward pass.
    autograd: Vec<AutogradCall>,
    /// The spans with arguments: the index of the span and the number of the arguments in the
    /// spool.
    args: Vec<(u32, u32)>,
    span_sessions: u64,
    values: Vec<RecordedValue>,
    value_sessions: u64,
    /// The approximate size in memory, in bytes.
    bytes: usize,
}

/// The arguments of an open scope. The node and the start identify the scope.
#[derive(Clone, Copy, Debug)]
struct OpenArgs {
    node: u32,
    start_ticks: u64,
    /// The interned id of the arguments' text.
    text_id: u32,
}

/// The maximum number of open scopes whose arguments a thread keeps. Arguments stay behind when
/// their span is lost. A list of this length is assumed to consist of such remains and is cleared.
const MAX_OPEN_ARGS: usize = 256;

/// An open scope: its node in the thread's tree, its start, and the sessions that see it.
pub(super) struct VisibleScope {
    pub(super) node: u32,
    pub(super) start_ticks: u64,
    pub(super) sessions: u64,
}

impl ThreadWriter {
    /// Writes the definition of a thread to the spool.
    pub(super) fn new(number: u32, tree: &ThreadTree, buffer: &mut FrameBuffer) -> Self {
        let (os_id, name) = (tree.os_id, tree.name.clone());
        let definition = SpoolFrame::Thread { thread: number, os_id, name };
        buffer.push(&definition);
        Self {
            number,
            definition,
            decoder: LogDecoder::default(),
            nodes: SpoolNodes::default(),
            batch: FrameBatch::default(),
            open_args: Vec::new(),
            written_open_spans: Vec::new(),
        }
    }

    /// Writes the definition of the thread again, into the next segment of a ring.
    pub(super) fn begin_segment(&mut self, buffer: &mut FrameBuffer) {
        buffer.push(&self.definition);
        self.nodes = SpoolNodes::default();
        self.written_open_spans.clear();
    }

    /// Drains the log and writes its entries.
    pub(super) fn drain(&mut self, tree: &ThreadTree, log: &Log, output: &mut SpoolOutput) {
        let mut decoder = std::mem::take(&mut self.decoder);
        log.drain(&mut decoder, |entry| self.add_entry(tree, entry, output));
        self.decoder = decoder;
        self.write_batch(output);
    }

    fn add_entry(&mut self, tree: &ThreadTree, entry: LogEntry, output: &mut SpoolOutput) {
        const BATCH_BYTES: usize = 1 << 16;
        match entry {
            LogEntry::Span(span) => {
                let LoggedSpan { node, start_ticks, end_ticks, sessions, .. } = span;
                let start_nanos = output.clock.nanos_at(start_ticks);
                let end_nanos = output.clock.nanos_at(end_ticks);
                let args_id =
                    self.take_args(node, start_ticks).map(|text_id| output.texts.args_id(text_id));
                for group in 0..self.nodes.map_node(&tree.nodes, node, sessions, &mut output.texts)
                {
                    let Some((sessions, node_id)) = self.nodes.group(node, group) else { continue };
                    if sessions != self.batch.span_sessions {
                        self.write_batch(output);
                        self.batch.span_sessions = sessions;
                    }
                    let written = Span { node_id, start_nanos, end_nanos };
                    self.batch.add_span(written, args_id, span.correlation_id, span.autograd);
                }
            }
            LogEntry::Args { node, start_ticks, args_text_id } => {
                if self.open_args.len() == MAX_OPEN_ARGS {
                    self.open_args.clear();
                }
                self.open_args.push(OpenArgs { node, start_ticks, text_id: args_text_id });
            }
            LogEntry::Value { node, time_ticks, metric_id, value, sessions } => {
                let time_nanos = output.clock.nanos_at(time_ticks);
                let name_id = output.texts.metric_name_id(metric_id);
                for group in 0..self.nodes.map_node(&tree.nodes, node, sessions, &mut output.texts)
                {
                    let Some((sessions, node_id)) = self.nodes.group(node, group) else { continue };
                    if sessions != self.batch.value_sessions {
                        self.write_batch(output);
                        self.batch.value_sessions = sessions;
                    }
                    self.batch.bytes += value_bytes(&value);
                    self.batch.values.push(RecordedValue {
                        node_id,
                        time_nanos,
                        name_id,
                        value: value.clone(),
                    });
                }
            }
        }
        if self.batch.bytes + output.texts.unwritten_bytes() >= BATCH_BYTES {
            self.write_batch(output);
        }
    }

    /// Takes the arguments of a scope that has ended. Also drops those of scopes inside it, whose
    /// spans were lost.
    fn take_args(&mut self, node: u32, start_ticks: u64) -> Option<u32> {
        let is_of_scope = |args: &OpenArgs| (args.node, args.start_ticks) == (node, start_ticks);
        let position = self.open_args.iter().rposition(is_of_scope)?;
        let text_id = self.open_args.get(position).map(|args| args.text_id);
        self.open_args.truncate(position);
        text_id
    }

    /// Writes the frames of the batch after the definitions that they use. Values come before
    /// spans, so that a value precedes the scope in which it was added.
    fn write_batch(&mut self, output: &mut SpoolOutput) {
        let entry_count = (self.batch.spans.len() + self.batch.values.len()) as u64;
        if entry_count == 0 {
            return;
        }
        self.batch.bytes = 0;
        if !output.buffer.has_room() {
            losses::add(LossCause::Spool, entry_count);
            self.batch.clear();
            return;
        }
        self.write_definitions(output);
        self.write_values(output);
        self.write_spans(output);
    }

    fn write_values(&mut self, output: &mut SpoolOutput) {
        let FrameBatch { values, value_sessions, .. } = &mut self.batch;
        if values.is_empty() {
            return;
        }
        let count = values.len() as u64;
        let frame = SpoolFrame::Values {
            thread: self.number,
            sessions: *value_sessions,
            values: std::mem::take(values),
        };
        output.buffer.push_entries(&frame, count);
    }

    /// Writes the spans of the batch after the frames that refer to them.
    fn write_spans(&mut self, output: &mut SpoolOutput) {
        let FrameBatch { spans, launches, autograd, args, span_sessions, .. } = &mut self.batch;
        if spans.is_empty() {
            return;
        }
        let thread = self.number;
        let count = spans.len() as u64;
        if !launches.is_empty() {
            let launches = std::mem::take(launches);
            output.buffer.push(&SpoolFrame::Launches { thread, launches });
        }
        if !autograd.is_empty() {
            let calls = std::mem::take(autograd);
            output.buffer.push(&SpoolFrame::Autograd { thread, calls });
        }
        if !args.is_empty() {
            let args = std::mem::take(args);
            output.buffer.push(&SpoolFrame::ArgsOfSpans { thread, args });
        }
        let frame =
            SpoolFrame::Spans { thread, sessions: *span_sessions, spans: std::mem::take(spans) };
        output.buffer.push_entries(&frame, count);
        // Reuse the allocation of the list.
        if let SpoolFrame::Spans { spans: written_spans, .. } = frame {
            *spans = written_spans;
            spans.clear();
        }
    }

    /// Adds the locations of a launch: for each path that sessions see, those sessions and the
    /// path's node. The path of a graph launch continues to the capture site.
    pub(super) fn launch_locations(
        &mut self,
        tree: &ThreadTree,
        launch: &Launch,
        site_number: u32,
        output: &mut SpoolOutput,
        locations: &mut Vec<LaunchLocation>,
    ) {
        let Launch { sessions, shadow_node, python_node, .. } = *launch;
        let trace_sessions = sessions & CONTROL.trace_sessions.load(Ordering::Relaxed);
        let python_sessions = trace_sessions & CONTROL.python_sessions.load(Ordering::Relaxed);
        for (node, sessions) in
            [(shadow_node, trace_sessions & !python_sessions), (python_node, python_sessions)]
        {
            if sessions == 0 {
                continue;
            }
            for group in 0..self.nodes.map_node(&tree.nodes, node, sessions, &mut output.texts) {
                let Some((sessions, mut node_id)) = self.nodes.group(node, group) else {
                    continue;
                };
                if site_number != 0 {
                    node_id = capture_site_node(
                        &mut self.nodes,
                        node_id,
                        site_number,
                        sessions,
                        &mut output.texts,
                    );
                }
                locations.push(LaunchLocation { sessions, node: Some((self.number, node_id)) });
            }
        }
        self.write_definitions(output);
    }

    /// Writes the samples that this thread has taken of other threads' stacks.
    pub(super) fn write_samples(
        &mut self,
        tree: &ThreadTree,
        samples: &[StackSample],
        cause: SampleCause,
        time_ticks: u64,
        output: &mut SpoolOutput,
    ) {
        let count = samples.len() as u64;
        if !output.buffer.has_room() {
            losses::add(LossCause::Spool, count);
            return;
        }
        let time_nanos = output.clock.nanos_at(time_ticks);
        let sessions = CONTROL.trace_sessions.load(Ordering::Relaxed);
        let samples = samples.iter().filter_map(|sample| {
            self.nodes.map_node(&tree.nodes, sample.node, sessions, &mut output.texts);
            let (_, node_id) = self.nodes.group(sample.node, 0)?;
            Some(Sample {
                time_nanos,
                duration_nanos: sample.duration_nanos,
                os_id: sample.os_id,
                thread_name_id: output.texts.scope_name_id(sample.thread_name),
                node_id,
                cause,
            })
        });
        let frame = SpoolFrame::Samples { thread: self.number, samples: samples.collect() };
        self.write_definitions(output);
        output.buffer.push_entries(&frame, count);
    }

    fn write_definitions(&mut self, output: &mut SpoolOutput) {
        let texts = output.texts.take_unwritten();
        let nodes = self.nodes.take_unwritten(self.number);
        texts.chain(nodes).for_each(|frame| output.buffer.push(&frame));
    }

    /// Writes the open scopes, unless they have not changed since the last call.
    pub(super) fn write_open(
        &mut self,
        tree: &ThreadTree,
        scopes: &[VisibleScope],
        output: &mut SpoolOutput,
    ) {
        let mut open_spans = Vec::with_capacity(scopes.len());
        for scope in scopes {
            self.nodes.map_node(&tree.nodes, scope.node, scope.sessions, &mut output.texts);
            if let Some((_, node_id)) = self.nodes.group(scope.node, 0) {
                open_spans.push((node_id, output.clock.nanos_at(scope.start_ticks)));
            }
        }
        if open_spans == self.written_open_spans || !output.buffer.has_room() {
            return;
        }
        self.write_definitions(output);
        output.buffer.push(&SpoolFrame::Open { thread: self.number, spans: open_spans.clone() });
        self.written_open_spans = open_spans;
    }
}

impl FrameBatch {
    /// Adds a span, with the id of its arguments, its correlation id unless that is 0, and its part
    /// in a backward pass.
    fn add_span(
        &mut self,
        span: Span,
        args_id: Option<u32>,
        correlation_id: u32,
        autograd: Option<local::AutogradCall>,
    ) {
        let span_index = self.spans.len() as u32;
        if correlation_id != 0 {
            self.launches.push((span_index, correlation_id));
        }
        if let Some(call) = autograd {
            self.autograd.push(AutogradCall {
                span_index,
                sequence: call.sequence,
                forward_os_id: call.forward_os_id,
            });
        }
        if let Some(args_id) = args_id {
            self.args.push((span_index, args_id));
        }
        self.spans.push(span);
        self.bytes += size_of::<Span>();
    }

    /// Drops what was not written.
    fn clear(&mut self) {
        self.spans.clear();
        self.values.clear();
        self.launches.clear();
        self.autograd.clear();
        self.args.clear();
    }
}

fn value_bytes(value: &MetricValue) -> usize {
    let element_bytes = match value {
        MetricValue::Int(_) | MetricValue::Float(_) => 0,
        MetricValue::Text(text) => text.len(),
        MetricValue::Ints(values) => size_of_val(values.as_slice()),
        MetricValue::Floats(values) => size_of_val(values.as_slice()),
    };
    size_of::<RecordedValue>() + element_bytes
}
