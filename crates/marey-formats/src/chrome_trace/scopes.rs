//! Writes spans with the metric values that were added in them.
//!
//! Spans arrive in the order of their starts, and values in the order of their times. So only open
//! spans are kept in memory.

use std::collections::{BTreeMap, HashMap};

use marey_model::context::{NodeKind, ROOT_NAME};
use marey_model::json::Object;
use marey_model::metric::MetricValue;
use marey_model::proton_trace::{self, LAUNCH_FLOW, Metrics};
use marey_store::Reader;
use marey_store::row::{Metric, Span};

use super::header::add_lane;
use super::lanes::free_tid;
use super::thread::{OpenSpan, Thread};
use crate::shared::export::ExportError;
use crate::shared::trace_json::activity::{LaunchFlows, write_span_ids};
use crate::shared::trace_json::rows::is_counter;
use crate::shared::trace_json::{
    Event, PROTON_CATEGORIES, Steps, TraceWriter, Track, has_args, write_args,
};

/// The first thread id of the additional lanes of threads. Lanes of streams have smaller ids.
const FIRST_ADDED_TID: i64 = 1_000_000;

/// Writes all spans with the values that were added in them, and the values outside of spans.
pub(super) fn write(
    launch_flows: &mut LaunchFlows,
    writer: &mut TraceWriter,
) -> Result<(), ExportError> {
    let reader = writer.reader;
    let mut scopes = ScopeWriter {
        steps: Steps::read(reader)?,
        first_context_by_path: first_contexts_by_path(reader),
        threads: BTreeMap::new(),
        free_tid: free_tid(FIRST_ADDED_TID, reader),
        written_count: 0,
        args: String::new(),
        launch_flows,
        writer,
    };
    let mut values = reader.rows::<Metric>()?.filter(|row| !row.as_ref().is_ok_and(is_counter));
    let mut next_value = values.next().transpose()?;
    for span in reader.rows::<Span>()? {
        let span = span?;
        while let Some(earlier_value) =
            next_value.take_if(|next_value| next_value.time_nanos < span.start_nanos)
        {
            scopes.add(&earlier_value)?;
            next_value = values.next().transpose()?;
        }
        scopes.begin(span)?;
    }
    while let Some(remaining_value) = next_value {
        scopes.add(&remaining_value)?;
        next_value = values.next().transpose()?;
    }
    scopes.end()
}

struct ScopeWriter<'t, 'r, 'o> {
    writer: &'t mut TraceWriter<'r, 'o>,
    launch_flows: &'t mut LaunchFlows,
    steps: Steps,
    /// For each context, the first one with the same names on its path. It is compared in place of
    /// the context, because the context of a value may lack the kinds that the span's has.
    first_context_by_path: Vec<u32>,
    threads: BTreeMap<u32, Thread>,
    free_tid: i64,
    written_count: u64,
    args: String,
}

impl ScopeWriter<'_, '_, '_> {
    fn begin(&mut self, span: Span) -> Result<(), ExportError> {
        self.end_before(span.thread_id, span.start_nanos)?;
        let depth = self.writer.reader.context(span.context_id).depth;
        let scope = self.path(span.context_id);
        self.threads.entry(span.thread_id).or_default().begin(span, depth, scope);
        Ok(())
    }

    /// Adds a value to its scope, or writes it if the scope is not open.
    fn add(&mut self, row: &Metric) -> Result<(), ExportError> {
        self.end_before(row.thread_id, row.time_nanos)?;
        let name = self.writer.reader.text(row.name_id);
        let scope = self.path(self.scope_of(row.context_id));
        let thread = self.threads.entry(row.thread_id).or_default();
        if let Some(value) = thread.add(scope, name, row.value.clone()) {
            self.write_value(row, name, value)?;
        }
        Ok(())
    }

    fn end(mut self) -> Result<(), ExportError> {
        for (thread_id, mut thread) in std::mem::take(&mut self.threads) {
            while let Some(open_span) = thread.end() {
                self.write(thread_id, &mut thread.lane_tids, &open_span)?;
            }
        }
        Ok(())
    }

    fn end_before(&mut self, thread_id: u32, nanos: i64) -> Result<(), ExportError> {
        let Some(mut thread) = self.threads.remove(&thread_id) else { return Ok(()) };
        while let Some(open_span) = thread.end_before(nanos) {
            self.write(thread_id, &mut thread.lane_tids, &open_span)?;
        }
        self.threads.insert(thread_id, thread);
        Ok(())
    }

    /// Returns the scope that values of a context belong to. This is the context itself, or for a
    /// state the enclosing scope.
    fn scope_of(&self, context_id: u32) -> u32 {
        let reader = self.writer.reader;
        let row = reader.context(context_id);
        let parent = row.parent.filter(|&parent| reader.context(parent).kind != NodeKind::Root);
        if row.kind == NodeKind::State { parent.unwrap_or(context_id) } else { context_id }
    }

    fn path(&self, context_id: u32) -> u32 {
        self.first_context_by_path.get(context_id as usize).copied().unwrap_or(context_id)
    }

    fn write(
        &mut self,
        thread_id: u32,
        lane_tids: &mut Vec<i64>,
        open_span: &OpenSpan,
    ) -> Result<(), ExportError> {
        let OpenSpan { span, metrics, .. } = open_span;
        let reader = self.writer.reader;
        let track = self.lane(thread_id, open_span.lane, lane_tids)?;
        self.written_count += 1;
        self.args.clear();
        reader.args(&span.args, &mut self.args);
        let kind = reader.context(span.context_id).kind;
        let foreign_category = span.category_id.map(|id| reader.text(id));
        let foreign_category = foreign_category.filter(|foreign_category| {
            metrics.is_empty() && !PROTON_CATEGORIES.contains(foreign_category)
        });
        let step_name =
            foreign_category.and_then(|_| self.steps.name(span).filter(|_| kind == NodeKind::Step));
        let name = step_name.as_deref().unwrap_or(reader.text(span.name_id));
        let title = if metrics.is_empty() { name.into() } else { metrics.title(name) };
        let event = Event {
            phase: "X",
            category: foreign_category.or(Some(if metrics.is_empty() {
                "scope"
            } else {
                "metric"
            })),
            name: &title,
            track,
            time_nanos: span.start_nanos,
            duration_nanos: Some(span.duration_nanos),
        };
        let (scope_id, args, tracks) = (self.written_count, &self.args, self.writer.tracks);
        self.writer.add(&event, |event| {
            if foreign_category.is_some() && !has_args(span) {
                return;
            }
            write_args(event, args, |args| {
                // Foreign events keep their own arguments, because their readers know these.
                if foreign_category.is_none() {
                    write_call_stack(reader, span.context_id, None, args);
                    if kind != NodeKind::Scope {
                        args.text("kind", kind.as_str());
                    }
                    metrics.write(args);
                    if span.is_open {
                        args.value("open", true);
                    }
                    args.value("scope_id", scope_id);
                } else if span.is_open {
                    args.text("finished", "false");
                }
                write_span_ids(span, reader, tracks, args);
            });
        })?;
        Ok(self.writer.start_launch_flow(span, track, LAUNCH_FLOW, self.launch_flows)?)
    }

    fn write_value(
        &mut self,
        row: &Metric,
        name: &str,
        value: MetricValue,
    ) -> Result<(), ExportError> {
        let reader = self.writer.reader;
        let mut metrics = Metrics::<String>::default();
        metrics.add(name, value);
        let context = reader.context(row.context_id);
        let scope = if context.parent.is_some() { reader.text(context.name_id) } else { ROOT_NAME };
        let event = Event {
            phase: "i",
            category: Some("metric"),
            name: &metrics.title(scope),
            track: self.writer.tracks.thread(row.thread_id),
            time_nanos: row.time_nanos,
            duration_nanos: None,
        };
        self.writer.add(&event, |event| {
            event.text("s", "t");
            event.object("args", |args| {
                write_call_stack(reader, row.context_id, None, args);
                metrics.write(args);
            });
        })?;
        Ok(())
    }

    /// Returns the track of a thread's lane. A lane is named before its first event.
    fn lane(
        &mut self,
        thread_id: u32,
        lane: usize,
        lane_tids: &mut Vec<i64>,
    ) -> Result<Track, ExportError> {
        let main_track = self.writer.tracks.thread(thread_id);
        while lane_tids.len() < lane {
            lane_tids.push(self.free_tid);
            let track = Track { tid: Some(self.free_tid), ..main_track };
            add_lane(self.writer, thread_id, track, lane_tids.len() as u64)?;
            self.free_tid += 1;
        }
        let additional_tid = lane.checked_sub(1).and_then(|lane| lane_tids.get(lane));
        Ok(additional_tid.map_or(main_track, |&tid| Track { tid: Some(tid), ..main_track }))
    }
}

/// Adds the names from the root to a context, followed by `leaf`.
pub(super) fn write_call_stack(
    reader: &Reader,
    context_id: u32,
    leaf: Option<&str>,
    args: &mut Object,
) {
    let path = reader.path(context_id);
    let names = path.iter().map(|&id| reader.text(reader.context(id).name_id));
    proton_trace::write_call_stack(names.chain(leaf), args);
}

/// Returns for each context the first one with the same names up to the root.
fn first_contexts_by_path(reader: &Reader) -> Vec<u32> {
    let mut first_by_path = HashMap::new();
    let mut paths: Vec<u32> = Vec::with_capacity(reader.contexts().len());
    for (context, id) in reader.contexts().iter().zip(0..) {
        let parent_path = context.parent.and_then(|parent| paths.get(parent as usize).copied());
        paths.push(*first_by_path.entry((parent_path, context.name_id)).or_insert(id));
    }
    paths
}
