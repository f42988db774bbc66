//! The second pass of [`super::ring`]: writes the records of a ring's segments as one spool, and
//! renumbers all definitions.

use std::collections::HashMap;
use std::io::{self, Write};

use super::ring::{RingSurvey, record_times};
use super::{AutogradCall, IdMap, NodeDef, SessionEvent, SpoolFrame, Writer};
use crate::context::NodeKind;
use crate::loss::LossCause;

/// Writes a spool with the last records of a ring.
#[derive(Debug)]
pub(super) struct RingJoin<W> {
    out: Writer<W>,
    /// The records that are still to be left out because there are too many.
    excess: u64,
    /// The time before which records are left out.
    cutoff_nanos: i64,
    left_out: u64,
    ids: Ids,
    segment: SegmentIds,
    /// The frames about the next `Spans` frame of each thread.
    about_spans: HashMap<u32, AboutSpans>,
    /// The threads whose open scopes are known.
    open_threads: Vec<u32>,
    /// The sessions that are alive, by number.
    sessions: HashMap<u32, SessionState>,
    losses: Vec<(LossCause, u64)>,
    has_process: bool,
    has_ended: bool,
}

/// Parent, kind and name of a node; a root has no parent.
type NodeKey = (Option<u32>, NodeKind, u32);

/// The numbers of definitions in the spool that is written.
#[derive(Debug, Default)]
struct Ids {
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

/// The frames that come before the spans that they are about.
#[derive(Debug, Default)]
struct AboutSpans {
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
            out: Writer::new(out)?,
            excess: survey.excess(),
            cutoff_nanos: survey.cutoff_nanos(),
            left_out: 0,
            ids: Ids::default(),
            segment: SegmentIds::default(),
            about_spans: HashMap::new(),
            open_threads: Vec::new(),
            sessions: HashMap::new(),
            losses: Vec::new(),
            has_process: false,
            has_ended: false,
        })
    }

    /// Begins the next segment.
    pub(super) fn begin_segment(&mut self) -> io::Result<()> {
        self.segment = SegmentIds::default();
        self.about_spans.clear();
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
            SpoolFrame::Strings { texts, first } => self.add_texts(first, texts),
            SpoolFrame::Nodes { thread, first, nodes } => self.add_nodes(thread, first, &nodes),
            SpoolFrame::Shapes { first, mut shapes } => {
                for shape in &mut shapes {
                    shape.name = self.segment.text(shape.name);
                }
                let next = self.ids.shape_count;
                self.ids.shape_count += shapes.len() as u32;
                self.segment.shapes.extend(first, next..self.ids.shape_count);
                self.out.write_frame(&SpoolFrame::Shapes { first: next, shapes })
            }
            SpoolFrame::SpanArgs { first, texts } => {
                let next = self.ids.args_count;
                self.ids.args_count += texts.len() as u32;
                self.segment.args.extend(first, next..self.ids.args_count);
                self.out.write_frame(&SpoolFrame::SpanArgs { first: next, texts })
            }
            SpoolFrame::Launches { thread, launches } => {
                self.about_spans.entry(thread).or_default().launches = launches;
                Ok(())
            }
            SpoolFrame::Autograd { thread, calls } => {
                self.about_spans.entry(thread).or_default().calls = calls;
                Ok(())
            }
            SpoolFrame::ArgsOfSpans { thread, args } => {
                self.about_spans.entry(thread).or_default().args = args;
                Ok(())
            }
            SpoolFrame::Open { thread, mut spans } => {
                for span in &mut spans {
                    span.0 = self.segment.node(thread, span.0);
                }
                self.open_threads.retain(|&known| known != thread);
                self.open_threads.extend((!spans.is_empty()).then_some(thread));
                self.out.write_frame(&SpoolFrame::Open { thread, spans })
            }
            SpoolFrame::Session { session, event, time_nanos, .. } => {
                if self.is_news(session, event, time_nanos) {
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

    fn add_texts(&mut self, first: u32, texts: Vec<String>) -> io::Result<()> {
        let next = self.ids.texts.len() as u32;
        let mut new = Vec::new();
        let numbers: Vec<_> = texts
            .into_iter()
            .map(|text| {
                let next = self.ids.texts.len() as u32;
                *self.ids.texts.entry(text).or_insert_with_key(|text| {
                    new.push(text.clone());
                    next
                })
            })
            .collect();
        self.segment.texts.extend(first, numbers);
        if new.is_empty() {
            return Ok(());
        }
        self.out.write_frame(&SpoolFrame::Strings { first: next, texts: new })
    }

    fn add_nodes(&mut self, thread: u32, first: u32, nodes: &[NodeDef]) -> io::Result<()> {
        let known = self.ids.nodes.entry(thread).or_default();
        let next = known.len() as u32;
        let mut new = Vec::new();
        for (node, number_in_segment) in nodes.iter().zip(first..=u32::MAX) {
            let name = self.segment.text(node.name);
            let is_root = node.kind == NodeKind::Root;
            let parent = (!is_root).then(|| self.segment.node(thread, node.parent));
            let number = *known.entry((parent, node.kind, name)).or_insert_with(|| {
                let number = next + new.len() as u32;
                let parent = parent.unwrap_or(number);
                new.push(NodeDef { parent, kind: node.kind, name });
                number
            });
            self.segment.nodes.entry(thread).or_default().extend(number_in_segment, [number]);
        }
        if new.is_empty() {
            return Ok(());
        }
        self.out.write_frame(&SpoolFrame::Nodes { thread, first: next, nodes: new })
    }

    /// Adds the records of a frame that are within the limits.
    fn add_records(&mut self, mut frame: SpoolFrame) -> io::Result<()> {
        let is_kept: Vec<bool> = record_times(&frame)
            .into_iter()
            .map(|time_nanos| {
                let is_excess = self.excess > 0;
                self.excess = self.excess.saturating_sub(1);
                !is_excess && time_nanos.is_none_or(|time| time >= self.cutoff_nanos)
            })
            .collect();
        self.left_out += is_kept.iter().filter(|kept| !**kept).count() as u64;
        if let SpoolFrame::Spans { thread, .. } = frame {
            self.write_about_spans(thread, &is_kept)?;
        }
        if !is_kept.contains(&true) {
            return Ok(());
        }
        let mut is_kept = is_kept.into_iter();
        let mut keep = || is_kept.next().unwrap_or_default();
        let ids = &self.segment;
        match &mut frame {
            SpoolFrame::Spans { thread, spans, .. } => {
                spans.retain(|_| keep());
                for span in spans {
                    span.node = ids.node(*thread, span.node);
                }
            }
            SpoolFrame::Values { thread, values, .. } => {
                values.retain(|_| keep());
                for value in values {
                    value.node = ids.node(*thread, value.node);
                    value.metric = ids.text(value.metric);
                }
            }
            SpoolFrame::Counters(counters) => {
                counters.retain(|_| keep());
                for counter in counters {
                    counter.name = ids.text(counter.name);
                }
            }
            SpoolFrame::Activities { activities, .. } => {
                activities.retain(|_| keep());
                for activity in activities {
                    activity.shape = ids.shapes.get(activity.shape).copied().unwrap_or_default();
                    let launch = activity.launch;
                    activity.launch = launch.map(|(thread, node)| (thread, ids.node(thread, node)));
                }
            }
            SpoolFrame::Samples { thread, samples } => {
                samples.retain(|_| keep());
                for sample in samples {
                    sample.node = ids.node(*thread, sample.node);
                    sample.thread_name = ids.text(sample.thread_name);
                }
            }
            SpoolFrame::Variables(variables) => {
                variables.retain(|_| keep());
                for variable in variables {
                    variable.map_texts(|text| ids.text(text));
                }
            }
            SpoolFrame::Collectives(collectives) => {
                collectives.retain(|_| keep());
                for row in collectives {
                    *row = row.clone().with_texts(|text| ids.text(text));
                }
            }
            _ => {}
        }
        self.out.write_frame(&frame)
    }

    /// Writes the frames that precede a `Spans` frame, reduced to the spans that are kept.
    fn write_about_spans(&mut self, thread: u32, is_kept: &[bool]) -> io::Result<()> {
        let Some(about) = self.about_spans.remove(&thread) else { return Ok(()) };
        let mut kept = 0;
        let positions: Vec<_> = is_kept
            .iter()
            .map(|&is_kept| {
                kept += u32::from(is_kept);
                is_kept.then(|| kept - 1)
            })
            .collect();
        let position = |index: u32| positions.get(index as usize).copied().flatten();
        let args_ids = &self.segment.args;
        let launches = about.launches.into_iter();
        let launches: Vec<_> =
            launches.filter_map(|(index, number)| Some((position(index)?, number))).collect();
        let calls = about.calls.into_iter();
        let calls: Vec<_> = calls
            .filter_map(|call| Some(AutogradCall { index: position(call.index)?, ..call }))
            .collect();
        let args = about.args.into_iter();
        let args: Vec<_> = args
            .filter_map(|(index, number)| Some((position(index)?, *args_ids.get(number)?)))
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
    fn is_news(&mut self, session: u32, event: SessionEvent, time_nanos: i64) -> bool {
        if event == SessionEvent::Started {
            let known = self.sessions.get(&session);
            if known.is_some_and(|known| known.start_nanos == time_nanos) {
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
        if self.left_out > 0 {
            match losses.iter_mut().find(|(cause, _)| *cause == LossCause::Ring) {
                Some((_, count)) => *count += self.left_out,
                None => losses.push((LossCause::Ring, self.left_out)),
            }
        }
        self.out.write_frame(&SpoolFrame::Losses(losses))
    }
}

impl SegmentIds {
    // Each lookup finds its id, because the reader has rejected frames that use an undefined id.

    fn text(&self, number: u32) -> u32 {
        self.texts.get(number).copied().unwrap_or_default()
    }

    fn node(&self, thread: u32, number: u32) -> u32 {
        self.nodes.get(&thread).and_then(|nodes| nodes.get(number)).copied().unwrap_or_default()
    }
}
