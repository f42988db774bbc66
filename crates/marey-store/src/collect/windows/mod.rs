//! Adds windows to a spool's rows. A window is a section of a recording in which torch.profiler ran
//! too.
//!
//! The program leaves the profiler's trace beside the spool (`<pid>-<number>.window.json`). It is
//! imported as a run of its own ([`trace`]), and its clock is aligned with the recorder's
//! ([`alignment`]). Spans that both have recorded are found ([`twins`]), and all others are placed
//! among the recorder's spans ([`placement`]). The result is a list of changes that the second pass
//! over the spool makes ([`Windows`]), so sums and nesting are computed as for any other span.
//!
//! Memory grows with the longest window, not with the recording.

mod alignment;
mod launch_contexts;
mod placement;
mod recorded;
mod trace;
mod trace_ids;
mod twins;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};

use marey_model::loss::LossCause;
use serde_json::json;

use self::alignment::Alignment;
use self::placement::Placement;
use self::recorded::{Recorded, RecordedSpan};
use self::trace::ProfilerTrace;
use super::Sources;
use super::clock::Clock;
use super::interned::Interned;
use super::outline::Outline;
use super::spool::SpoolFile;
use super::uncollected::WindowFile;
use crate::names::Names;
use crate::row::{Args, Flow, GpuActivity, MemoryEvent};
use crate::{Reader, StoreError};

/// The key of the note about a window. The number of the window follows it.
const NOTE_KEY: &str = "torch_window";

/// The changes that windows make to the rows of a spool.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// Changes of recorded spans, by node and start on the recorder's clock.
    changes: HashMap<(u32, i64), SpanChange>,
    /// The spans that only the profiler has, by thread, in the order of their ends, children first.
    added: BTreeMap<u32, VecDeque<AddedSpan>>,
    /// The columns that only some spans have: those of windows, and operators with arguments.
    pub(super) details: Vec<SpanDetail>,
    /// Templates of arguments, to which rows refer by position.
    pub(super) arg_texts: Interned<String>,
    /// Memory events, whose threads are positions.
    pub(super) memory_events: Vec<MemoryEvent>,
    pub(super) activities: Vec<GpuActivity>,
    /// Points of flows, whose threads are positions.
    pub(super) flows: Vec<Flow>,
    /// The traces that were read.
    pub(super) files: Vec<SpoolFile>,
}

/// The change of a recorded span.
#[derive(Clone, Copy, Debug)]
pub(super) enum SpanChange {
    /// The span is dropped, because it only served to align clocks.
    Drop,
    /// The span gets this node and the detail of this number, or no detail if it is 0.
    Replace { node: u32, detail: u32 },
}

/// A span that only the profiler has. Times are on the clock of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddedSpan {
    pub(super) start_nanos: i64,
    pub(super) end_nanos: i64,
    pub(super) node: u32,
    /// The number of its detail.
    pub(super) detail: u32,
    pub(super) correlation_id: u32,
}

/// Columns that only some spans have.
#[derive(Clone, Debug)]
pub(super) struct SpanDetail {
    pub(super) category_id: Option<u32>,
    pub(super) external_id: Option<u64>,
    pub(super) args: Args,
}

impl Windows {
    /// Reads the windows of a spool. Adds their threads and nodes to the outline.
    pub(super) fn read(
        files: &[WindowFile],
        spool: (&SpoolFile, &std::fs::File),
        outline: &mut Outline,
        clock: &Clock,
        names: &mut Names,
        sources: &dyn Sources,
    ) -> Result<Self, StoreError> {
        let mut windows = Self::default();
        if files.is_empty() {
            return Ok(windows);
        }
        let anchors = recorded::anchors(spool, outline, clock, names)?;
        for &anchor in &anchors.spans {
            windows.changes.insert(anchor, SpanChange::Drop);
        }
        for WindowFile { number, file } in files {
            // Without anchors, the trace belongs to another process that had the same id.
            let Some(window_anchors) = anchors.by_window.get(number) else { continue };
            windows.files.push(file.clone());
            let key = format!("{NOTE_KEY}.{}", windows.files.len());
            let run = match sources.read_trace(&file.path) {
                Ok(run) => run,
                Err(reason) => {
                    outline.losses.push((LossCause::Window, 1));
                    outline.notes.insert(key, json!({ "unreadable": reason }).to_string());
                    continue;
                }
            };
            let reader = Reader::new(&run, crate::Selection::default())?;
            let pid = outline.process.as_ref().map_or(0, |process| process.pid);
            let mut trace = ProfilerTrace::read(&reader, pid, names, &mut windows.arg_texts)?;
            let alignment = Alignment::new(window_anchors, &trace.anchors);
            trace.shift(&alignment);
            let extent = alignment.extent_nanos.unwrap_or(trace.extent_nanos);
            trace.retain_spans(extent);
            let recorded = recorded::overlapping(spool, outline, clock, names, extent)?;
            let counts = windows.add(recorded, trace, outline, names);
            let note = json!({
                "start_nanos": extent.0,
                "end_nanos": extent.1,
                "clock_offset_nanos": alignment.offset_nanos(),
                "recorded_by_both": counts.twins,
                "added_spans": counts.added,
            });
            outline.notes.insert(key, note.to_string());
        }
        for spans in windows.added.values_mut() {
            let by_end = |span: &AddedSpan| (span.end_nanos, Reverse(span.start_nanos));
            // If two have equal times, the inner one was placed later and must come first.
            spans.make_contiguous().reverse();
            spans.make_contiguous().sort_by_key(by_end);
        }
        Ok(windows)
    }

    /// Returns the change of a recorded span. Most recordings have no window, so that case is fast.
    #[inline]
    pub(super) fn change(&self, node: u32, start_nanos: i64) -> Option<SpanChange> {
        if self.changes.is_empty() {
            return None;
        }
        self.changes.get(&(node, start_nanos)).copied()
    }

    /// Returns the next added span of a thread, if it ends before a span with these times or lies
    /// inside it.
    pub(super) fn next_before(
        &mut self,
        thread: u32,
        (start_nanos, end_nanos): (i64, i64),
    ) -> Option<AddedSpan> {
        let spans = self.added.get_mut(&thread)?;
        let first = spans.front()?;
        let ends_first =
            (first.end_nanos, Reverse(first.start_nanos)) <= (end_nanos, Reverse(start_nanos));
        if ends_first { spans.pop_front() } else { None }
    }

    /// Returns all added spans that were not returned before.
    pub(super) fn remaining(&mut self) -> impl Iterator<Item = AddedSpan> + use<> {
        std::mem::take(&mut self.added).into_values().flatten()
    }

    fn add(
        &mut self,
        mut recorded: Recorded,
        mut trace: ProfilerTrace,
        outline: &mut Outline,
        names: &mut Names,
    ) -> WindowCounts {
        let mut counts = WindowCounts::default();
        let mut placement = Placement::new(outline, names);
        let os_ids: Vec<u64> = trace.threads.keys().copied().collect();
        for os_id in os_ids {
            let thread = placement.thread(os_id);
            let position = placement.position(thread);
            let spans = recorded.remove(&thread).unwrap_or_default();
            let Some(thread_trace) = trace.threads.get_mut(&os_id) else { continue };
            let twins = twins::find(&spans, &thread_trace.spans);
            counts.twins += twins.iter().flatten().count();
            let placed = placement.place(thread, &spans, thread_trace, &twins);
            self.add_changes(&spans, thread_trace, &twins, &placed);
            counts.added += self.add_spans(thread, thread_trace, &twins, &placed);
            for (event, &context) in thread_trace.memory_events.drain(..).zip(&placed.points) {
                let context_id = Some(context);
                self.memory_events.push(MemoryEvent {
                    thread_id: Some(position),
                    context_id,
                    ..event
                });
            }
            trace.launches.add(thread_trace, &twins, &placed, placement.nodes());
            for flow in thread_trace.flows.drain(..) {
                trace.flows.push(Flow { thread_id: position, ..flow });
            }
        }
        // If the recorder records operators, it links backward to forward itself.
        if counts.twins == 0 {
            self.flows.append(&mut trace.flows);
        }
        let launches = trace.launches;
        self.activities.extend(
            trace.activities.into_iter().map(|activity| GpuActivity {
                context_id: launches.context(&activity),
                ..activity
            }),
        );
        counts
    }

    /// Adds the changes of the recorded spans of a thread.
    fn add_changes(
        &mut self,
        spans: &[RecordedSpan],
        thread: &trace::ThreadTrace,
        twins: &[Option<usize>],
        placed: &placement::Placed,
    ) {
        let mut details = vec![0; spans.len()];
        for (traced, &twin) in thread.spans.iter().zip(twins) {
            if let Some(twin) = twin {
                let detail = SpanDetail { category_id: None, ..traced.detail.clone() };
                details[twin] = self.detail(detail);
            }
        }
        for ((span, &node), detail) in spans.iter().zip(&placed.recorded).zip(details) {
            if node != span.node || detail != 0 {
                let key = (span.node, span.recorder_start_nanos);
                self.changes.insert(key, SpanChange::Replace { node, detail });
            }
        }
    }

    /// Adds the spans of a thread that only the profiler has. Returns their number.
    fn add_spans(
        &mut self,
        thread: u32,
        thread_trace: &trace::ThreadTrace,
        twins: &[Option<usize>],
        placed: &placement::Placed,
    ) -> usize {
        let mut count = 0;
        for (index, traced) in thread_trace.spans.iter().enumerate() {
            if twins[index].is_some() {
                continue;
            }
            let (end_nanos, node) = placed.traced[index];
            let span = AddedSpan {
                start_nanos: traced.start_nanos,
                end_nanos,
                node,
                detail: self.detail(traced.detail.clone()),
                correlation_id: traced
                    .correlation_id
                    .and_then(|id| id.try_into().ok())
                    .unwrap_or(0),
            };
            self.added.entry(thread).or_default().push_back(span);
            count += 1;
        }
        count
    }

    /// Adds a detail. Returns its number, which is not 0.
    pub(super) fn detail(&mut self, detail: SpanDetail) -> u32 {
        self.details.push(detail);
        self.details.len() as u32
    }
}

/// Numbers of spans in a window.
#[derive(Clone, Copy, Debug, Default)]
struct WindowCounts {
    /// Spans that both have recorded.
    twins: usize,
    /// Spans that only the profiler has recorded.
    added: usize,
}
