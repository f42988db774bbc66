//! The first pass over a spool: everything but its spans, values and counters.

use std::collections::BTreeMap;

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::profile::{Overhead, Process};
use marey_model::spool::{Device, Frame, NodeDef, Numbered};

use super::sessions::Sessions;
use crate::names::{self, Names};
use crate::rollup::NO_PLACE;

/// What a spool says beside its spans, values and counters.
#[derive(Debug, Default)]
pub(super) struct Outline {
    pub(super) process: Option<Process>,
    /// Readings of both clocks, `(monotonic, since 1970)`.
    pub(super) clocks: Vec<(i64, i64)>,
    /// By their numbers in the spool.
    pub(super) threads: BTreeMap<u32, Thread>,
    /// The nodes of all threads.
    pub(super) places: Vec<Place>,
    /// Ids in the run of the texts of the spool.
    pub(super) texts: Numbered<u32>,
    pub(super) sessions: Sessions,
    pub(super) devices: BTreeMap<u32, Device>,
    /// What was said of the recording, as JSON.
    pub(super) notes: BTreeMap<String, String>,
    pub(super) losses: Vec<(LossCause, u64)>,
    pub(super) overhead: Option<Overhead>,
    /// Spans, values and counters.
    pub(super) events: u64,
    /// The last moment of which the spool tells, on the recorder's clock.
    pub(super) last_nanos: Option<i64>,
    /// Whether the spool was ended properly.
    pub(super) is_complete: bool,
}

/// A thread of a spool.
#[derive(Debug)]
pub(super) struct Thread {
    /// Its position among the threads of the spool, in the order in which they came.
    pub(super) position: u32,
    pub(super) os_id: u64,
    pub(super) name: String,
    /// Position of each node in [`Outline::places`].
    pub(super) places: Numbered<u32>,
}

/// A node of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Position of its thread.
    pub(super) thread: u32,
    /// The node around it, or [`NO_PLACE`].
    pub(super) parent: u32,
    pub(super) context: u32,
    pub(super) name: u32,
    pub(super) kind: NodeKind,
}

impl Outline {
    /// Takes a frame in.
    pub(super) fn add(&mut self, frame: &Frame, names: &mut Names) {
        match frame {
            Frame::Process(process) => self.process = Some(process.clone()),
            Frame::Clock { monotonic_nanos, unix_nanos } => {
                self.clocks.push((*monotonic_nanos, *unix_nanos));
                self.reach([*monotonic_nanos]);
            }
            Frame::Strings { first, texts } => {
                self.texts.extend(*first, texts.iter().map(|text| names.text(text)));
            }
            Frame::Thread { thread, os_id, name } => {
                let position = self.threads.len() as u32;
                let thread = self.threads.entry(*thread).or_insert_with(|| Thread::new(position));
                (thread.os_id, thread.name) = (*os_id, name.clone());
            }
            Frame::Nodes { thread, first, nodes } => self.add_nodes(*thread, *first, nodes, names),
            Frame::Spans { spans, .. } => {
                self.events += spans.len() as u64;
                let times = spans.iter().flat_map(|span| [span.start_nanos, span.end_nanos]);
                self.reach(times);
            }
            Frame::Values { values, .. } => {
                self.events += values.len() as u64;
                self.reach(values.iter().map(|value| value.time_nanos));
            }
            Frame::Counters(counters) => {
                self.events += counters.len() as u64;
                self.reach(counters.iter().map(|counter| counter.time_nanos));
            }
            Frame::Open { spans, .. } => self.reach(spans.iter().map(|&(_, start)| start)),
            Frame::Session { session, event, name, time_nanos } => {
                self.sessions.turn(*session, *event, name, *time_nanos);
                self.reach([*time_nanos]);
            }
            Frame::Activities { activities, .. } => {
                self.events += activities.len() as u64;
                self.reach(activities.iter().map(|activity| activity.start_nanos));
            }
            Frame::Device(device) => {
                self.devices.insert(device.number, device.clone());
            }
            Frame::Note { key, value } => {
                self.notes.insert(key.clone(), value.clone());
            }
            // What they say is of the events.
            Frame::Launches { .. } | Frame::Shapes { .. } => {}
            Frame::Losses(losses) => self.losses.clone_from(losses),
            Frame::Overhead(overhead) => self.overhead = Some(*overhead),
            Frame::End => self.is_complete = true,
        }
    }

    fn add_nodes(&mut self, thread: u32, first: u32, nodes: &[NodeDef], names: &mut Names) {
        let Some(thread) = self.threads.get_mut(&thread) else { return };
        for (node, number) in nodes.iter().zip(first..=u32::MAX) {
            // The reader lets no frame by that uses a text or a node which is not defined.
            let name = self.texts.get(node.name).copied().unwrap_or_default();
            let is_root = node.kind == NodeKind::Root;
            let parent = if is_root { None } else { thread.places.get(node.parent).copied() };
            let context = match parent.and_then(|parent| self.places.get(parent as usize)) {
                Some(parent) => names.context(parent.context, node.kind, name),
                None => names::ROOT,
            };
            thread.places.extend(number, std::iter::once(self.places.len() as u32));
            self.places.push(Place {
                thread: thread.position,
                parent: parent.unwrap_or(NO_PLACE),
                context,
                name,
                kind: node.kind,
            });
        }
    }

    fn reach(&mut self, times_nanos: impl IntoIterator<Item = i64>) {
        self.last_nanos = self.last_nanos.max(times_nanos.into_iter().max());
    }
}

impl Thread {
    fn new(position: u32) -> Self {
        Self { position, os_id: 0, name: String::new(), places: Numbered::default() }
    }
}
