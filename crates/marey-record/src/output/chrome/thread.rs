//! What is kept of a thread while its events go by.

use super::event::{Event, Events};
use super::lanes::Lanes;
use super::metrics::{Waiting, add_up};
use super::outline::Outline;
use crate::names;
use marey_model::context::NodeKind;
use marey_model::spool::{NodeDef, Numbered, Span, Value};
use std::io;

/// A thread of the trace.
#[derive(Debug)]
pub(super) struct Thread {
    number: u32,
    os_id: u64,
    name: String,
    pub(super) nodes: Numbered<NodeDef>,
    /// Scopes that are open as far as the spool has told, outermost first.
    pub(super) open: Vec<(u32, i64)>,
    waiting: Waiting,
    lanes: Lanes,
    /// The trace's numbers of the lanes that have a name.
    named: Vec<u64>,
}

impl Thread {
    pub(super) fn new(number: u32) -> Self {
        Self {
            number,
            os_id: 0,
            name: String::new(),
            nodes: Numbered::default(),
            open: Vec::new(),
            waiting: Waiting::default(),
            lanes: Lanes::default(),
            named: Vec::new(),
        }
    }

    /// Takes note of the thread's name; the lanes that it has already are named again.
    pub(super) fn introduce(
        &mut self,
        os_id: u64,
        name: String,
        events: Option<&mut Events>,
    ) -> io::Result<()> {
        (self.os_id, self.name) = (os_id, name);
        let Some(events) = events else { return Ok(()) };
        (0..self.named.len()).try_for_each(|at| self.name_lane(at, events))
    }

    /// Another trace begins, to which nothing belongs that has gone by.
    pub(super) fn begin_trace(&mut self) {
        self.waiting = Waiting::default();
        self.lanes = Lanes::default();
        self.named.clear();
    }

    /// A scope that has ended is open no more.
    pub(super) fn forget_open(&mut self, span: &Span) {
        // Those on a stack began in this order.
        if self.open.last().is_some_and(|&(_, start_nanos)| start_nanos >= span.start_nanos) {
            self.open.retain(|&scope| scope != (span.node, span.start_nanos));
        }
    }

    /// Writes a scope that has ended, or that is open at the end of the trace. Returns its lane.
    pub(super) fn write_scope(
        &mut self,
        span: &Span,
        is_open: bool,
        texts: &Numbered<String>,
        events: &mut Events,
    ) -> io::Result<u64> {
        if self.kind(span.node) == NodeKind::Mark {
            return self.write_mark(span, texts, events);
        }
        let at = self.lanes.place(span.start_nanos, span.end_nanos.max(span.start_nanos));
        let lane = self.lane(at, events)?;
        let metrics = add_up(self.waiting.take(span), texts);
        let event = Event { path: &self.path(span.node, texts), metrics: &metrics, lane };
        events.scope(&event, self.kind(span.node), span, is_open)?;
        Ok(lane)
    }

    fn write_mark(
        &mut self,
        mark: &Span,
        texts: &Numbered<String>,
        events: &mut Events,
    ) -> io::Result<u64> {
        let lane = self.lane(0, events)?;
        let metrics = add_up(self.waiting.take(mark), texts);
        let event = Event { path: &self.path(mark.node, texts), metrics: &metrics, lane };
        events.instant(&event, NodeKind::Mark.as_str(), mark.start_nanos)?;
        Ok(lane)
    }

    /// Keeps a value for its scope, or writes it if it has none.
    pub(super) fn add_value(
        &mut self,
        value: Value,
        texts: &Numbered<String>,
        events: &mut Events,
    ) -> io::Result<()> {
        let scope = self.scope_of(value.node);
        if self.kind(scope) == NodeKind::Root {
            return self.write_value(value, texts, events);
        }
        self.waiting.push(scope, value);
        let excess = self.waiting.take_excess();
        excess.into_iter().try_for_each(|value| self.write_value(value, texts, events))
    }

    /// Writes the scopes that never ended.
    pub(super) fn write_open(
        &mut self,
        outline: &Outline,
        texts: &Numbered<String>,
        events: &mut Events,
    ) -> io::Result<()> {
        // Innermost first, as they would have ended.
        for (node, start_nanos) in std::mem::take(&mut self.open).into_iter().rev() {
            if outline.was_recording(start_nanos) {
                let end_nanos = outline.last_nanos().max(start_nanos);
                let span = Span { node, start_nanos, end_nanos };
                self.write_scope(&span, true, texts, events)?;
            }
        }
        Ok(())
    }

    /// Writes the values that have found no scope.
    pub(super) fn write_homeless(
        &mut self,
        texts: &Numbered<String>,
        events: &mut Events,
    ) -> io::Result<()> {
        let homeless = self.waiting.take_all();
        homeless.into_iter().try_for_each(|value| self.write_value(value, texts, events))
    }

    fn write_value(
        &mut self,
        value: Value,
        texts: &Numbered<String>,
        events: &mut Events,
    ) -> io::Result<()> {
        let lane = self.lane(0, events)?;
        let (node, time_nanos) = (value.node, value.time_nanos);
        let metrics = add_up(vec![value], texts);
        let event = Event { path: &self.path(node, texts), metrics: &metrics, lane };
        events.instant(&event, "metric", time_nanos)
    }

    /// The scope that a node's metrics belong to: itself, or for a state the scope that it qualifies.
    fn scope_of(&self, node: u32) -> u32 {
        let parent = self.nodes.get(node).map_or(node, |node| node.parent);
        let is_state_of_scope =
            self.kind(node) == NodeKind::State && self.kind(parent) != NodeKind::Root;
        if is_state_of_scope { parent } else { node }
    }

    pub(super) fn kind(&self, node: u32) -> NodeKind {
        self.nodes.get(node).map_or(NodeKind::Root, |node| node.kind)
    }

    /// The names from below the root down to the node.
    pub(super) fn path<'t>(&self, mut node: u32, texts: &'t Numbered<String>) -> Vec<&'t str> {
        let mut path = Vec::new();
        while let Some(at) = self.nodes.get(node).filter(|at| at.kind != NodeKind::Root) {
            path.push(texts.get(at.name).map_or(names::LOST_NAME, String::as_str));
            if at.parent >= node {
                break;
            }
            node = at.parent;
        }
        path.reverse();
        path
    }

    /// The trace's number of a lane, which gets its name with the first event.
    fn lane(&mut self, at: usize, events: &mut Events) -> io::Result<u64> {
        while self.named.len() <= at {
            let is_first = self.named.is_empty();
            self.named.push(if is_first { self.number.into() } else { events.new_lane() });
            self.name_lane(self.named.len() - 1, events)?;
        }
        Ok(self.named[at])
    }

    fn name_lane(&self, at: usize, events: &mut Events) -> io::Result<()> {
        let mut name = self.name.clone();
        if name.is_empty() {
            name = format!("CPU Thread {}", self.number);
        }
        if at > 0 {
            name = format!("{name} ({})", at + 1);
        }
        events.name_lane(self.named[at], &name, (self.number, self.os_id, at))
    }
}
