//! The second pass of [`super::ring`]: writes the records of a ring's segments as one spool, and
//! renumbers all definitions.

use std::collections::HashMap;
use std::io::{self, Write};

use super::ring::{RingSurvey, record_times};
use super::{AutogradCall, IdMap, NodeDef, SessionEvent, SpoolFrame, SpoolWriter};
use crate::context::NodeKind;
use crate::loss::LossCause;

/// Writes a spool with the last records of a ring.
#[derive(Debug)]
pub(super) struct RingJoin<W> {
    out: SpoolWriter<W>,
    /// The records that are still to be left out because there are too many.
    excess_records: u64,
    /// The time before which records are left out.
    cutoff_nanos: i64,
    left_out_records: u64,
    ids: JoinedIds,
    segment_ids: SegmentIds,
    /// The frames that annotate the next `Spans` frame of each thread.
    span_annotations: HashMap<u32, SpanAnnotations>,
    /// The threads whose open scopes are known.
    open_threads: Vec<u32>,
    /// The sessions that are alive, by number.
    sessions: HashMap<u32, SessionState>,
    losses: Vec<(LossCause, u64)>,
    has_process: bool,
    has_ended: bool,
}

/// Parent id, kind and name id of a node; a root has no parent.
type NodeKey = (Option<u32>, NodeKind, u32);

/// The numbers of definitions in the spool that is written.
#[derive(Debug, Default)]
struct JoinedIds {
    texts: HashMap<String, u32>,
    /// By thread.
    nodes: HashMap<u32, HashMap<NodeKey, u32>>,
    shape_count: u32,
    args_count: u32,
}

/// The new ids of a segment's definitions, by their ids in the segment.
#[derive(Debug, Default)]
struct SegmentIds {
    texts: IdMap<u32>,
    nodes: HashMap<u32, IdMap<u32>>,
    shapes: IdMap<u32>,
    args: IdMap<u32>,
}

/// The frames that precede the spans which they annotate.
#[derive(Debug, Default)]
struct SpanAnnotations {
    launches: Vec<(u32, u32)>,
    calls: Vec<AutogradCall>,
    args: Vec<(u32, u32)>,
}

/// The state of a live session, which each segment repeats at its beginning.
#[derive(Clone, Copy, Debug)]
struct SessionState {
    start_nanos: i64,
    phase: u32,
    is_active: bool,
}

impl<W: Write> RingJoin<W> {
    /// Creates a writer for the segments of a survey.
    pub(super) fn new(survey: &RingSurvey, out: W) -> io::Result<Self> {
        Ok(Self {
            out: SpoolWriter::new(out)?,
            excess_records: survey.excess_records(),
            cutoff_nanos: survey.cutoff_nanos(),
            left_out_records: 0,
            ids: JoinedIds::default(),
            segment_ids: SegmentIds::default(),
            span_annotations: HashMap::new(),
            open_threads: Vec::new(),
            sessions: HashMap::new(),
            losses: Vec::new(),
            has_process: false,
            has_ended: false,
        })
    }

    /// Begins the next segment.
    pub(super) fn begin_segment(&mut self) -> io::Result<()> {
        self.segment_ids = SegmentIds::default();
        self.span_annotations.clear();
        self.has_ended = false;
        for thread in std::mem::take(&mut self.open_threads) {
            self.out.write_frame(&SpoolFrame::Open { thread, spans: Vec::new() })?;
        }
        Ok(())
    }

    /// Ends the spool. It is complete if the last segment was.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.write_losses()?;
        if self.has_ended { self.out.write_frame(&SpoolFrame::End) } else { Ok(()) }
    }

    /// Adds the next frame of a segment.
    pub(super) fn add(&mut self, frame: SpoolFrame) -> io::Result<()> {
        match frame {
            SpoolFrame::Process(_) if self.has_process => Ok(()),
            SpoolFrame::Process(_) => {
                self.has_process = true;
                self.out.write_frame(&frame)
            }
            SpoolFrame::Strings { texts, first_id } => self.add_texts(first_id, texts),
            SpoolFrame::Nodes { thread, first_id, nodes } => {
                self.add_nodes(thread, first_id, &nodes)
            }
            SpoolFrame::Shapes { first_id, mut shapes } => {
                for shape in &mut shapes {
                    shape.name_id = self.segment_ids.text(shape.name_id);
                }
                let new_first_id = self.ids.shape_count;
                self.ids.shape_count += shapes.len() as u32;
                self.segment_ids.shapes.extend(first_id, new_first_id..self.ids.shape_count);
                self.out.write_frame(&SpoolFrame::Shapes { first_id: new_first_id, shapes })
            }
            SpoolFrame::SpanArgs { first_id, texts } => {
                let new_first_id = self.ids.args_count;
                self.ids.args_count += texts.len() as u32;
                self.segment_ids.args.extend(first_id, new_first_id..self.ids.args_count);
                self.out.write_frame(&SpoolFrame::SpanArgs { first_id: new_first_id, texts })
            }
            SpoolFrame::Launches { thread, launches } => {
                self.span_annotations.entry(thread).or_default().launches = launches;
                Ok(())
            }
            SpoolFrame::Autograd { thread, calls } => {
                self.span_annotations.entry(thread).or_default().calls = calls;
                Ok(())
            }
            SpoolFrame::ArgsOfSpans { thread, args } => {
                self.span_annotations.entry(thread).or_default().args = args;
                Ok(())
            }
            SpoolFrame::Open { thread, mut spans } => {
                for span in &mut spans {
                    span.0 = self.segment_ids.node(thread, span.0);
                }
                self.open_threads.retain(|&open_thread| open_thread != thread);
                self.open_threads.extend((!spans.is_empty()).then_some(thread));
                self.out.write_frame(&SpoolFrame::Open { thread, spans })
            }
            SpoolFrame::Session { session, event, time_nanos, .. } => {
                if self.changes_session(session, event, time_nanos) {
                    self.out.write_frame(&frame)?;
                }
                Ok(())
            }
            SpoolFrame::Losses(losses) => {
                self.losses = losses;
                self.write_losses()
            }
            SpoolFrame::End => {
                self.has_ended = true;
                Ok(())
            }
            SpoolFrame::Thread { .. }
            | SpoolFrame::Clock { .. }
            | SpoolFrame::Device(_)
            | SpoolFrame::Note { .. }
            | SpoolFrame::Overhead(_) => self.out.write_frame(&frame),
            SpoolFrame::Spans { .. }
            | SpoolFrame::Values { .. }
            | SpoolFrame::Counters(_)
            | SpoolFrame::Activities { .. }
            | SpoolFrame::Samples { .. }
            | SpoolFrame::Variables(_)
            | SpoolFrame::Collectives(_) => self.add_records(frame),
        }
    }

    fn add_texts(&mut self, first_id: u32, texts: Vec<String>) -> io::Result<()> {
        let new_first_id = self.ids.texts.len() as u32;
        let mut new_texts = Vec::new();
        let new_ids: Vec<_> = texts
            .into_iter()
            .map(|text| {
                let next_id = self.ids.texts.len() as u32;
                *self.ids.texts.entry(text).or_insert_with_key(|text| {
                    new_texts.push(text.clone());
                    next_id
                })
            })
            .collect();
        self.segment_ids.texts.extend(first_id, new_ids);
        if new_texts.is_empty() {
            return Ok(());
        }
        self.out.write_frame(&SpoolFrame::Strings { first_id: new_first_id, texts: new_texts })
    }

    fn add_nodes(&mut self, thread: u32, first_id: u32, nodes: &[NodeDef]) -> io::Result<()> {
        let node_ids = self.ids.nodes.entry(thread).or_default();
        let new_first_id = node_ids.len() as u32;
        let mut new_nodes = Vec::new();
        for (node, id_in_segment) in nodes.iter().zip(first_id..=u32::MAX) {
            let name_id = self.segment_ids.text(node.name_id);
            let is_root = node.kind == NodeKind::Root;
            let parent_id = (!is_root).then(|| self.segment_ids.node(thread, node.parent_id));
            let id = *node_ids.entry((parent_id, node.kind, name_id)).or_insert_with(|| {
                let id = new_first_id + new_nodes.len() as u32;
                let parent_id = parent_id.unwrap_or(id);
                new_nodes.push(NodeDef { parent_id, kind: node.kind, name_id });
                id
            });
            self.segment_ids.nodes.entry(thread).or_default().extend(id_in_segment, [id]);
        }
        if new_nodes.is_empty() {
            return Ok(());
        }
        self.out.write_frame(&SpoolFrame::Nodes {
            thread,
            first_id: new_first_id,
            nodes: new_nodes,
        })
    }

    /// Adds the records of a frame that are within the limits.
    fn add_records(&mut self, mut frame: SpoolFrame) -> io::Result<()> {
        let is_kept: Vec<bool> = record_times(&frame)
            .into_iter()
            .map(|time_nanos| {
                let is_excess = self.excess_records > 0;
                self.excess_records = self.excess_records.saturating_sub(1);
                !is_excess && time_nanos.is_none_or(|time| time >= self.cutoff_nanos)
            })
            .collect();
        self.left_out_records += is_kept.iter().filter(|kept| !**kept).count() as u64;
        if let SpoolFrame::Spans { thread, .. } = frame {
            self.write_span_annotations(thread, &is_kept)?;
        }
        if !is_kept.contains(&true) {
            return Ok(());
        }
        let mut is_kept = is_kept.into_iter();
        let mut keep = || is_kept.next().unwrap_or_default();
        let ids = &self.segment_ids;
        match &mut frame {
            SpoolFrame::Spans { thread, spans, .. } => {
                spans.retain(|_| keep());
                for span in spans {
                    span.node_id = ids.node(*thread, span.node_id);
                }
            }
            SpoolFrame::Values { thread, values, .. } => {
                values.retain(|_| keep());
                for value in values {
                    value.node_id = ids.node(*thread, value.node_id);
                    value.name_id = ids.text(value.name_id);
                }
            }
            SpoolFrame::Counters(counters) => {
                counters.retain(|_| keep());
                for counter in counters {
                    counter.name_id = ids.text(counter.name_id);
                }
            }
            SpoolFrame::Activities { activities, .. } => {
                activities.retain(|_| keep());
                for activity in activities {
                    activity.shape_id =
                        ids.shapes.get(activity.shape_id).copied().unwrap_or_default();
                    let launch = activity.launch;
                    activity.launch = launch.map(|(thread, node)| (thread, ids.node(thread, node)));
                }
            }
            SpoolFrame::Samples { thread, samples } => {
                samples.retain(|_| keep());
                for sample in samples {
                    sample.node_id = ids.node(*thread, sample.node_id);
                    sample.thread_name_id = ids.text(sample.thread_name_id);
                }
            }
            SpoolFrame::Variables(variables) => {
                variables.retain(|_| keep());
                for variable in variables {
                    variable.map_text_ids(|id| ids.text(id));
                }
            }
            SpoolFrame::Collectives(collectives) => {
                collectives.retain(|_| keep());
                for collective in collectives {
                    *collective = collective.clone().with_text_ids(|id| ids.text(id));
                }
            }
            _ => {}
        }
        self.out.write_frame(&frame)
    }

    /// Writes the frames that precede a `Spans` frame, reduced to the spans that are kept.
    fn write_span_annotations(&mut self, thread: u32, is_kept: &[bool]) -> io::Result<()> {
        let Some(annotations) = self.span_annotations.remove(&thread) else { return Ok(()) };
        let mut kept_count = 0;
        let kept_positions: Vec<_> = is_kept
            .iter()
            .map(|&is_kept| {
                kept_count += u32::from(is_kept);
                is_kept.then(|| kept_count - 1)
            })
            .collect();
        let new_index = |index: u32| kept_positions.get(index as usize).copied().flatten();
        let args_ids = &self.segment_ids.args;
        let launches = annotations.launches.into_iter();
        let launches: Vec<_> = launches
            .filter_map(|(index, correlation_id)| Some((new_index(index)?, correlation_id)))
            .collect();
        let calls = annotations.calls.into_iter();
        let calls: Vec<_> = calls
            .filter_map(|call| {
                Some(AutogradCall { span_index: new_index(call.span_index)?, ..call })
            })
            .collect();
        let args = annotations.args.into_iter();
        let args: Vec<_> = args
            .filter_map(|(index, args_id)| Some((new_index(index)?, *args_ids.get(args_id)?)))
            .collect();
        if !launches.is_empty() {
            self.out.write_frame(&SpoolFrame::Launches { thread, launches })?;
        }
        if !calls.is_empty() {
            self.out.write_frame(&SpoolFrame::Autograd { thread, calls })?;
        }
        if !args.is_empty() {
            self.out.write_frame(&SpoolFrame::ArgsOfSpans { thread, args })?;
        }
        Ok(())
    }

    /// Whether a session's event is more than the repetition of its state at the start of a
    /// segment.
    fn changes_session(&mut self, session: u32, event: SessionEvent, time_nanos: i64) -> bool {
        if event == SessionEvent::Started {
            let known_state = self.sessions.get(&session);
            if known_state.is_some_and(|known| known.start_nanos == time_nanos) {
                return false;
            }
            let state = SessionState { start_nanos: time_nanos, phase: 0, is_active: true };
            self.sessions.insert(session, state);
            return true;
        }
        let Some(state) = self.sessions.get_mut(&session) else { return false };
        match event {
            SessionEvent::Started => false,
            SessionEvent::Activated => !std::mem::replace(&mut state.is_active, true),
            SessionEvent::Deactivated => std::mem::replace(&mut state.is_active, false),
            SessionEvent::Phase(phase) => std::mem::replace(&mut state.phase, phase) != phase,
            SessionEvent::Finalized => self.sessions.remove(&session).is_some(),
        }
    }

    /// Writes the losses, including the records that were left out so far.
    fn write_losses(&mut self) -> io::Result<()> {
        let mut losses = self.losses.clone();
        if self.left_out_records > 0 {
            match losses.iter_mut().find(|(cause, _)| *cause == LossCause::Ring) {
                Some((_, count)) => *count += self.left_out_records,
                None => losses.push((LossCause::Ring, self.left_out_records)),
            }
        }
        self.out.write_frame(&SpoolFrame::Losses(losses))
    }
}

impl SegmentIds {
    // Each lookup finds its id, because the reader has rejected frames that use an undefined id.

    fn text(&self, id: u32) -> u32 {
        self.texts.get(id).copied().unwrap_or_default()
    }

    fn node(&self, thread: u32, id: u32) -> u32 {
        self.nodes.get(&thread).and_then(|nodes| nodes.get(id)).copied().unwrap_or_default()
    }
}
