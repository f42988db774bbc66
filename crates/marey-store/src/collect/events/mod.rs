//! The second pass over a spool: collects spans, marks, values, activities and counters. The clock,
//! names and threads come from the first pass ([`Outline`]).

mod records;
mod sorted;

use std::collections::BTreeMap;
use std::iter::Peekable;

use marey_model::context::NodeKind;
use marey_model::spool::{AutogradCall, IdMap, SessionEvent, Span, SpoolFrame};

use self::sorted::SortedRows;
pub(super) use self::sorted::SpoolRows;
use super::Sources;
use super::activities::shape_row;
use super::child_time::ChildTime;
use super::clock::Clock;
use super::interned::Interned;
use super::native_stacks::NativeStacks;
use super::outline::{Outline, OutlineNode};
use super::rows::{SpanRow, Stamp};
use super::sessions::{Sessions, session_bit};
use super::windows::{AddedSpan, SpanChange, SpanDetail, Windows};
use crate::StoreError;
use crate::rollup::{NO_NODE, Rollup, SpanTimes, Totals};
use crate::row::{Args, GpuActivity};
use crate::sort::SpillFile;

/// Collects the events of a spool, frame by frame.
#[derive(Debug)]
pub(super) struct Events<'a> {
    outline: &'a Outline,
    clock: &'a Clock,
    process_id: u32,
    windows: Windows,
    /// The line of the clock that contained the last timestamp, as a cache.
    clock_line: usize,
    sessions: Sessions,
    stamps: Interned<Stamp>,
    /// The scopes that are open on each thread as of the last frame, outermost first, as node and
    /// start.
    open_scopes: BTreeMap<u32, Vec<(u32, i64)>>,
    /// The time of ended spans whose parent has not ended yet, by node.
    child_time: Vec<ChildTime>,
    /// The training step below each node, or `NO_NODE`.
    step_nodes: Vec<u32>,
    /// The number of frames at which spans may have been lost: session events and losses.
    epoch: u64,
    totals: Vec<Totals>,
    rollup: Rollup,
    rows: SortedRows,
    /// Facts about the spans in the next frame of each thread.
    announcements: BTreeMap<u32, SpanAnnouncement>,
    /// The [`SpanDetail`] of each text of arguments: its number, by the number of the text in the
    /// spool.
    args_details: IdMap<u32>,
    native_stacks: NativeStacks<'a>,
    /// The shapes of activities, as rows.
    shapes: IdMap<GpuActivity>,
}

/// Facts about the next spans of a thread, from frames that precede the frame of these spans.
#[derive(Debug, Default)]
struct SpanAnnouncement {
    /// The spans that are launches, as position in the frame and correlation id.
    launches: Vec<(u32, u32)>,
    /// The spans that have arguments, as position in the frame and number of the arguments.
    args: Vec<(u32, u32)>,
    /// The operators that take part in a backward pass.
    autograd_calls: Vec<AutogradCall>,
}

impl<'a> Events<'a> {
    /// Creates a collector of the events of a process's spool.
    pub(super) fn new(
        outline: &'a Outline,
        clock: &'a Clock,
        process_id: u32,
        windows: Windows,
        spill_file: &SpillFile,
        sources: &'a dyn Sources,
    ) -> Self {
        let nodes = outline.nodes.len();
        Self {
            outline,
            clock,
            process_id,
            windows,
            clock_line: 0,
            sessions: Sessions::default(),
            stamps: Interned::default(),
            open_scopes: BTreeMap::new(),
            child_time: vec![ChildTime::default(); nodes],
            step_nodes: steps_below(&outline.nodes),
            epoch: 0,
            totals: vec![Totals::default(); nodes],
            rollup: Rollup::new(nodes, outline.event_count),
            rows: SortedRows::new(spill_file),
            announcements: BTreeMap::new(),
            args_details: IdMap::default(),
            native_stacks: NativeStacks::new(sources),
            shapes: IdMap::default(),
        }
    }

    /// Adds a frame.
    pub(super) fn add(&mut self, frame: SpoolFrame) -> Result<(), StoreError> {
        match frame {
            SpoolFrame::Spans { thread, sessions, spans } => {
                self.add_spans(thread, sessions, &spans)
            }
            SpoolFrame::Values { thread, sessions, values } => {
                self.add_values(thread, sessions, values)
            }
            SpoolFrame::Counters(counters) => self.add_counters(&counters),
            SpoolFrame::Collectives(collectives) => self.add_collectives(&collectives),
            SpoolFrame::Variables(variables) => self.add_variables(variables),
            SpoolFrame::Samples { thread, samples } => self.add_samples(thread, &samples),
            SpoolFrame::Launches { thread, launches } => {
                self.announcements.entry(thread).or_default().launches = launches;
                Ok(())
            }
            SpoolFrame::Autograd { thread, calls } => {
                self.announcements.entry(thread).or_default().autograd_calls = calls;
                Ok(())
            }
            SpoolFrame::SpanArgs { first_id, texts } => {
                self.add_span_args(first_id, texts);
                Ok(())
            }
            SpoolFrame::ArgsOfSpans { thread, args } => {
                self.announcements.entry(thread).or_default().args = args;
                Ok(())
            }
            SpoolFrame::Shapes { first_id, shapes } => {
                let Self { outline, process_id, windows, .. } = self;
                let row = |shape| shape_row(shape, outline, *process_id, &mut windows.arg_texts);
                self.shapes.extend(first_id, shapes.iter().map(row));
                Ok(())
            }
            SpoolFrame::Activities { activities, .. } => self.add_activities(&activities),
            SpoolFrame::Open { thread, spans } => {
                self.open_scopes.insert(thread, spans);
                Ok(())
            }
            SpoolFrame::Session { session, event, name, time_nanos } => {
                if event == SessionEvent::Finalized {
                    self.add_open(session_bit(session), time_nanos)?;
                }
                self.sessions.apply(session, event, &name, time_nanos);
                self.epoch += 1;
                Ok(())
            }
            SpoolFrame::Losses(_) => {
                self.epoch += 1;
                Ok(())
            }
            // The first pass has read these.
            SpoolFrame::Process(_)
            | SpoolFrame::Clock { .. }
            | SpoolFrame::Strings { .. }
            | SpoolFrame::Thread { .. }
            | SpoolFrame::Nodes { .. }
            | SpoolFrame::Device(_)
            | SpoolFrame::Note { .. }
            | SpoolFrame::Overhead(_)
            | SpoolFrame::End => Ok(()),
        }
    }

    /// Ends the pass. Spans that are still open end at the spool's last timestamp.
    pub(super) fn finish(mut self) -> Result<SpoolRows, StoreError> {
        self.add_remaining_profiler_spans()?;
        if let Some(last_nanos) = self.outline.last_nanos {
            self.add_open(u64::MAX, last_nanos)?;
        }
        for mut activity in std::mem::take(&mut self.windows.activities) {
            activity.process_id = self.process_id;
            self.rows.activities.push(&activity)?;
        }
        let Windows { flows, memory_events, details, arg_texts, .. } = self.windows;
        Ok(SpoolRows {
            stamps: self.stamps.into_vec(),
            totals: self.totals,
            rollup: self.rollup,
            sorted: self.rows,
            flows,
            memory_events,
            details,
            arg_texts: arg_texts.into_vec(),
        })
    }

    fn add_spans(&mut self, thread: u32, sessions: u64, spans: &[Span]) -> Result<(), StoreError> {
        let Some(nodes) = self.outline.threads.get(thread).map(|thread| &thread.nodes) else {
            return Ok(());
        };
        let stamp = self.stamp(sessions, false);
        if let Some(scopes) = self.open_scopes.get_mut(&thread) {
            for span in spans {
                remove_scope(scopes, span);
            }
        }
        let SpanAnnouncement { launches, args, autograd_calls } =
            self.announcements.remove(&thread).unwrap_or_default();
        self.add_autograd_calls(thread, autograd_calls, spans)?;
        let mut launches = launches.into_iter().peekable();
        let mut args = args.into_iter().peekable();
        for (position, span) in (0..).zip(spans) {
            let correlation_id = take_at(&mut launches, position).unwrap_or(0);
            let detail = take_at(&mut args, position)
                .and_then(|number| self.args_details.get(number).copied())
                .unwrap_or(0);
            let Some(&node) = nodes.get(span.node_id) else { continue };
            let (start_nanos, duration_nanos) =
                self.convert_extent(span.start_nanos, span.end_nanos);
            let end_nanos = start_nanos.saturating_add(duration_nanos);
            while let Some(earlier) = self.windows.next_before(thread, (start_nanos, end_nanos)) {
                self.add_profiler_span(&earlier, stamp)?;
            }
            let (node, detail) = match self.windows.change(node, span.start_nanos) {
                Some(SpanChange::Drop) => continue,
                Some(SpanChange::Replace { node, detail: 0 }) => (node, detail),
                Some(SpanChange::Replace { node, detail: profiler_detail }) => {
                    (node, profiler_detail)
                }
                None => (node, detail),
            };
            let children_nanos = 0; // `add_span` fills it in
            let row = SpanRow {
                start_nanos,
                duration_nanos,
                children_nanos,
                node,
                stamp,
                correlation_id,
                detail,
            };
            if self.outline.nodes[node as usize].kind == NodeKind::Mark {
                self.rows.marks.push(&row)?;
            } else {
                self.add_span(row)?;
            }
        }
        Ok(())
    }

    /// Adds arguments of spans. The first text has the id `first_id`.
    fn add_span_args(&mut self, first_id: u32, texts: Vec<String>) {
        let Self { windows, args_details, native_stacks, .. } = self;
        let details = texts.into_iter().map(|text| {
            let text_id = Some(windows.arg_texts.position(native_stacks.named(text)));
            let args = Args { text_id, ..Args::default() };
            windows.detail(SpanDetail { category_id: None, external_id: None, args })
        });
        args_details.extend(first_id, details);
    }

    /// Adds a span that has ended, and fills in the time of its children, which must have been
    /// added before.
    fn add_span(&mut self, mut row: SpanRow) -> Result<(), StoreError> {
        let SpanRow { start_nanos, duration_nanos, node, .. } = row;
        let mut inner_nanos = self.child_time[node as usize].take_nanos_since(start_nanos);
        // A step that no optimizer has ended has no span. The time of its children belongs to the
        // scope around it.
        if let Some(step) = self.child_time.get_mut(self.step_nodes[node as usize] as usize) {
            inner_nanos = inner_nanos.saturating_add(step.take_nanos_since(start_nanos));
        }
        row.children_nanos = inner_nanos.min(duration_nanos);
        let parent = self.outline.nodes[node as usize].parent;
        if parent != NO_NODE {
            self.child_time[parent as usize].add(self.epoch, start_nanos, duration_nanos);
        }
        self.add_to_sums(&row);
        self.rows.spans.push(&row)
    }

    /// Adds a span that only torch.profiler has recorded.
    fn add_profiler_span(&mut self, span: &AddedSpan, stamp: u32) -> Result<(), StoreError> {
        let &AddedSpan { start_nanos, end_nanos, node, detail, correlation_id } = span;
        let duration_nanos = end_nanos.saturating_sub(start_nanos).max(0);
        let children_nanos = 0;
        self.add_span(SpanRow {
            start_nanos,
            duration_nanos,
            children_nanos,
            node,
            stamp,
            correlation_id,
            detail,
        })
    }

    /// Adds the spans of torch.profiler that are later than all recorded spans of their thread.
    fn add_remaining_profiler_spans(&mut self) -> Result<(), StoreError> {
        let stamp = self.stamp(0, false);
        for span in self.windows.remaining() {
            self.add_profiler_span(&span, stamp)?;
        }
        Ok(())
    }

    fn add_autograd_calls(
        &mut self,
        thread: u32,
        calls: Vec<AutogradCall>,
        spans: &[Span],
    ) -> Result<(), StoreError> {
        let threads = &self.outline.threads;
        let Some(thread) = threads.get(thread) else { return Ok(()) };
        for call in calls {
            let forward_thread = match call.forward_os_id {
                0 => Some(thread),
                os_id if os_id == thread.os_id => Some(thread),
                os_id => threads.newest(os_id),
            };
            let (Some(span), Some(forward_thread)) =
                (spans.get(call.span_index as usize), forward_thread)
            else {
                continue;
            };
            let start_nanos = self.clock.unix_nanos(span.start_nanos, &mut self.clock_line);
            self.rows.autograd.add(call, start_nanos, thread, forward_thread)?;
        }
        Ok(())
    }

    /// Adds the spans that are still open when some sessions end.
    ///
    /// A span that other sessions still record is added neither to the sums nor to the time of its
    /// parent's children. That happens once, when the last of its sessions ends. A parent that is
    /// open too contains the span in any case.
    fn add_open(&mut self, sessions: u64, until_nanos: i64) -> Result<(), StoreError> {
        for (thread, scopes) in self.open_scopes.clone() {
            let Some(thread) = self.outline.threads.get(thread) else { continue };
            let mut open_child = (NO_NODE, 0);
            for (node, start_nanos) in scopes.into_iter().rev() {
                let recording_sessions = self.sessions.recording_at(sessions, start_nanos);
                let Some(&node) = thread.nodes.get(node).filter(|_| recording_sessions != 0) else {
                    continue;
                };
                let is_last = self.sessions.recording_at(!sessions, start_nanos) == 0;
                let (start_nanos, duration_nanos) = self.convert_extent(start_nanos, until_nanos);
                let open_inner_nanos = if open_child.0 == node { open_child.1 } else { 0 };
                let inner_nanos = self.child_time[node as usize]
                    .nanos_since(start_nanos)
                    .saturating_add(open_inner_nanos);
                let children_nanos = inner_nanos.min(duration_nanos);
                let stamp = self.stamp(recording_sessions, true);
                let row = SpanRow {
                    start_nanos,
                    duration_nanos,
                    children_nanos,
                    node,
                    stamp,
                    correlation_id: 0,
                    detail: 0,
                };
                if is_last {
                    self.add_to_sums(&row);
                }
                self.rows.spans.push(&row)?;
                open_child = (self.outline.nodes[node as usize].parent, duration_nanos);
            }
        }
        Ok(())
    }

    fn add_to_sums(&mut self, row: &SpanRow) {
        let SpanRow { start_nanos, duration_nanos, children_nanos, node, .. } = *row;
        let parent = self.outline.nodes[node as usize].parent;
        self.totals[node as usize].add(duration_nanos, children_nanos);
        self.rollup.add(&SpanTimes { node, parent, start_nanos, duration_nanos, children_nanos });
    }

    fn stamp(&mut self, sessions: u64, is_open: bool) -> u32 {
        let phase = self.sessions.phase(sessions);
        self.stamps.position(Stamp { sessions, phase, is_open })
    }

    /// Returns the start and the duration on the clock of the tables.
    fn convert_extent(&mut self, start_nanos: i64, end_nanos: i64) -> (i64, i64) {
        let start_nanos = self.clock.unix_nanos(start_nanos, &mut self.clock_line);
        let end_nanos = self.clock.unix_nanos(end_nanos, &mut self.clock_line);
        (start_nanos, end_nanos.saturating_sub(start_nanos).max(0))
    }
}

/// Returns the training step below each node, or [`NO_NODE`].
fn steps_below(nodes: &[OutlineNode]) -> Vec<u32> {
    let mut steps = vec![NO_NODE; nodes.len()];
    for (number, node) in (0..).zip(nodes).filter(|(_, node)| node.kind == NodeKind::Step) {
        if let Some(step) = steps.get_mut(node.parent as usize) {
            *step = number;
        }
    }
    steps
}

/// Removes an ended span from the open scopes.
fn remove_scope(scopes: &mut Vec<(u32, i64)>, span: &Span) {
    // Scopes on a stack are ordered by start, so most spans need no search.
    if scopes.last().is_some_and(|&(_, start_nanos)| start_nanos >= span.start_nanos) {
        scopes.retain(|&scope| scope != (span.node_id, span.start_nanos));
    }
}

/// Returns the value at a position and advances. `values` are pairs of position and value, in the
/// order of positions.
fn take_at(values: &mut Peekable<impl Iterator<Item = (u32, u32)>>, position: u32) -> Option<u32> {
    values.next_if(|&(value_position, _)| value_position == position).map(|(_, value)| value)
}
