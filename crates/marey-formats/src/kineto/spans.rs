//! What threads did, in Kineto's categories.

use std::borrow::Cow;

use marey_model::context::NodeKind;
use marey_store::row::Span;

use crate::export::ExportError;
use crate::trace_json::activity::{Arrows, arrow};
use crate::trace_json::{Event, PROTON_CATEGORIES, Steps, Trace, has_args};

/// What the names of modules begin with.
const MODULE_PREFIX: &str = "nn.Module: ";

/// Writes all spans, and the starts of arrows from those that launched something.
pub(super) fn write(arrows: &mut Arrows, trace: &mut Trace) -> Result<(), ExportError> {
    let spans = trace.reader.spans_by_thread()?;
    let steps = Steps::of(trace.reader)?;
    let mut writer = Spans { trace, arrows, steps, own: 0, args: String::new() };
    spans.for_each(|span| writer.write(span))
}

struct Spans<'t, 'r, 'o> {
    trace: &'t mut Trace<'r, 'o>,
    arrows: &'t mut Arrows,
    steps: Steps,
    /// How many spans were written so far that no profiler of `PyTorch` has numbered.
    own: u64,
    args: String,
}

impl<'r> Spans<'_, 'r, '_> {
    fn write(&mut self, span: &Span) -> Result<(), ExportError> {
        let reader = self.trace.reader;
        self.args.clear();
        reader.args(&span.args, &mut self.args);
        let kind = reader.context(span.context_id).kind;
        let known = span.category_id.map(|id| reader.text(id));
        let known = known.filter(|category| !PROTON_CATEGORIES.contains(category));
        let name = self.name(span, kind, known.is_none());
        let index = (known.is_none() && kind != NodeKind::Runtime).then_some(self.own);
        self.own += u64::from(index.is_some());
        let places = self.trace.places;
        let process_id = reader.thread(span.thread_id).map_or(u32::MAX, |thread| thread.process_id);
        let place = places.thread(span.thread_id);
        let event = Event {
            phase: "X",
            category: Some(known.unwrap_or(category(kind))),
            name: &name,
            place,
            time_nanos: span.start_nanos,
            duration_nanos: Some(span.duration_nanos),
        };
        self.trace.add(&event, |event| {
            if index.is_none() && !has_args(span) {
                return;
            }
            event.object_with("args", &self.args, |args| {
                if let Some(external) = span.external_id {
                    args.value("External id", places.launch_number(process_id, external));
                }
                if let Some(correlation) = span.correlation_id {
                    args.value("correlation", places.launch_number(process_id, correlation));
                }
                if let Some(index) = index {
                    args.value("Ev Idx", index);
                }
                if span.is_open {
                    args.text("finished", "false");
                }
            });
        })?;
        self.write_arrow(span)
    }

    /// The name by which Kineto's readers know what a span is.
    fn name(&self, span: &Span, kind: NodeKind, is_own: bool) -> Cow<'r, str> {
        let name = self.trace.reader.text(span.name_id);
        match kind {
            NodeKind::Step => self.steps.name(span).map_or(name.into(), Cow::Owned),
            NodeKind::Module if is_own && !name.starts_with(MODULE_PREFIX) => {
                format!("{MODULE_PREFIX}{name}").into()
            }
            _ => name.into(),
        }
    }

    fn write_arrow(&mut self, span: &Span) -> Result<(), ExportError> {
        let (Some(correlation), Some(thread)) =
            (span.correlation_id, self.trace.reader.thread(span.thread_id))
        else {
            return Ok(());
        };
        if self.arrows.start(thread.process_id, correlation) {
            let place = self.trace.places.thread(span.thread_id);
            let id = self.trace.places.arrow_id(thread.process_id, correlation);
            let start = arrow("s", super::LAUNCH, place, span.start_nanos);
            self.trace.add(&start, |event| event.value("id", id))?;
        }
        Ok(())
    }
}

/// Kineto's category for what marey records.
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
