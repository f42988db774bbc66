//! Writes spans in Kineto's categories, by which its readers recognise operators and steps.

use std::borrow::Cow;

use marey_model::context::NodeKind;
use marey_store::row::Span;

use crate::shared::export::ExportError;
use crate::shared::trace_json::activity::{LaunchFlows, write_span_ids};
use crate::shared::trace_json::{
    Event, PROTON_CATEGORIES, Steps, TraceWriter, has_args, write_args,
};

/// Prefix of the names of modules.
const MODULE_PREFIX: &str = "nn.Module: ";

/// Writes all spans, and the starts of the flows from launches.
pub(super) fn write(
    launch_flows: &mut LaunchFlows,
    writer: &mut TraceWriter,
) -> Result<(), ExportError> {
    let spans = writer.reader.spans_by_thread()?;
    let steps = Steps::read(writer.reader)?;
    let mut spans_writer =
        SpanWriter { writer, launch_flows, steps, next_event_index: 0, args: String::new() };
    spans.for_each(|span| spans_writer.write(span))
}

struct SpanWriter<'t, 'r, 'o> {
    writer: &'t mut TraceWriter<'r, 'o>,
    launch_flows: &'t mut LaunchFlows,
    steps: Steps,
    /// Number of spans without a number of `PyTorch`'s profiler that were written so far.
    next_event_index: u64,
    args: String,
}

impl<'r> SpanWriter<'_, 'r, '_> {
    fn write(&mut self, span: &Span) -> Result<(), ExportError> {
        let reader = self.writer.reader;
        self.args.clear();
        reader.args(&span.args, &mut self.args);
        let kind = reader.context(span.context_id).kind;
        let foreign_category = span.category_id.map(|id| reader.text(id));
        let foreign_category =
            foreign_category.filter(|category| !PROTON_CATEGORIES.contains(category));
        let name = self.name(span, kind, foreign_category.is_none());
        let event_index = (foreign_category.is_none() && kind != NodeKind::Runtime)
            .then_some(self.next_event_index);
        self.next_event_index += u64::from(event_index.is_some());
        let tracks = self.writer.tracks;
        let track = tracks.thread(span.thread_id);
        let event = Event {
            phase: "X",
            category: Some(foreign_category.unwrap_or(category(kind))),
            name: &name,
            track,
            time_nanos: span.start_nanos,
            duration_nanos: Some(span.duration_nanos),
        };
        self.writer.add(&event, |event| {
            if event_index.is_none() && !has_args(span) {
                return;
            }
            write_args(event, &self.args, |args| {
                write_span_ids(span, reader, tracks, args);
                if let Some(event_index) = event_index {
                    args.value("Ev Idx", event_index);
                }
                if span.is_open {
                    args.text("finished", "false");
                }
            });
        })?;
        Ok(self.writer.start_launch_flow(span, track, super::LAUNCH_FLOW, self.launch_flows)?)
    }

    /// Returns the name by which Kineto's readers recognise the kind of a span.
    fn name(&self, span: &Span, kind: NodeKind, is_recorded_by_marey: bool) -> Cow<'r, str> {
        let name = self.writer.reader.text(span.name_id);
        match kind {
            NodeKind::Step => self.steps.name(span).map_or(name.into(), Cow::Owned),
            NodeKind::Module if is_recorded_by_marey && !name.starts_with(MODULE_PREFIX) => {
                format!("{MODULE_PREFIX}{name}").into()
            }
            _ => name.into(),
        }
    }
}

/// Returns Kineto's category for a kind.
const fn category(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Operator => "cpu_op",
        NodeKind::Frame | NodeKind::Module => "python_function",
        NodeKind::Runtime => "cuda_runtime",
        NodeKind::Kernel => "kernel",
        NodeKind::Root | NodeKind::Scope | NodeKind::State | NodeKind::Step | NodeKind::Mark => {
            "user_annotation"
        }
    }
}
