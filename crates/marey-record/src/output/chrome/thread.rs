//! The state of one thread while a Chrome trace is written: its open scopes, its pending values and
//! its lanes.

use super::event::{EventContext, Events};
use super::lanes::Lanes;
use super::metrics::{PendingValues, add_up};
use super::session_state::SessionState;
use crate::names;
use marey_model::context::NodeKind;
use marey_model::proton_trace::lane_title;
use marey_model::spool::{IdMap, NodeDef, RecordedValue, Span};
use std::io;

/// A thread of the trace.
#[derive(Debug)]
pub(super) struct ThreadPlayback {
    number: u32,
    os_id: u64,
    name: String,
    pub(super) nodes: IdMap<NodeDef>,
    /// Scopes that are open according to the spool so far, outermost first.
    pub(super) open_scopes: Vec<(u32, i64)>,
    pending_values: PendingValues,
    lanes: Lanes,
    /// The lanes of the thread in the trace, all named.
    lane_ids: Vec<u64>,
}

impl ThreadPlayback {
    pub(super) fn new(number: u32) -> Self {
        Self {
            number,
            os_id: 0,
            name: String::new(),
            nodes: IdMap::default(),
            open_scopes: Vec::new(),
            pending_values: PendingValues::default(),
            lanes: Lanes::default(),
            lane_ids: Vec::new(),
        }
    }

    /// Sets the thread's name, and renames its lanes.
    pub(super) fn set_name(
        &mut self,
        os_id: u64,
        name: String,
        events: Option<&mut Events>,
    ) -> io::Result<()> {
        (self.os_id, self.name) = (os_id, name);
        let Some(events) = events else { return Ok(()) };
        (0..self.lane_ids.len()).try_for_each(|index| self.name_lane(index, events))
    }

    /// Begins another trace, without the earlier values and lanes.
    pub(super) fn begin_trace(&mut self) {
        self.pending_values = PendingValues::default();
        self.lanes = Lanes::default();
        self.lane_ids.clear();
    }

    /// Removes a scope that has ended from the open scopes.
    pub(super) fn remove_open(&mut self, span: &Span) {
        // The scopes of a stack began in this order.
        if self.open_scopes.last().is_some_and(|&(_, start_nanos)| start_nanos >= span.start_nanos)
        {
            self.open_scopes.retain(|&scope| scope != (span.node_id, span.start_nanos));
        }
    }

    /// Writes a scope that has ended, or that is open at the end of the trace. Returns its lane.
    pub(super) fn write_scope(
        &mut self,
        span: &Span,
        is_open: bool,
        texts: &IdMap<String>,
        events: &mut Events,
    ) -> io::Result<u64> {
        if self.kind(span.node_id) == NodeKind::Mark {
            return self.write_mark(span, texts, events);
        }
        let index = self.lanes.assign(span.start_nanos, span.end_nanos.max(span.start_nanos));
        let lane = self.lane(index, events)?;
        let metrics = add_up(self.pending_values.take(span), texts);
        let event = EventContext { path: &self.path(span.node_id, texts), metrics: &metrics, lane };
        events.scope(&event, self.kind(span.node_id), span, is_open)?;
        Ok(lane)
    }

    fn write_mark(
        &mut self,
        mark: &Span,
        texts: &IdMap<String>,
        events: &mut Events,
    ) -> io::Result<u64> {
        let lane = self.lane(0, events)?;
        let metrics = add_up(self.pending_values.take(mark), texts);
        let event = EventContext { path: &self.path(mark.node_id, texts), metrics: &metrics, lane };
        events.instant(&event, NodeKind::Mark.as_str(), mark.start_nanos)?;
        Ok(lane)
    }

    /// Buffers a value for its scope, or writes it if it has none.
    pub(super) fn add_value(
        &mut self,
        value: RecordedValue,
        texts: &IdMap<String>,
        events: &mut Events,
    ) -> io::Result<()> {
        let scope = self.scope_of(value.node_id);
        if self.kind(scope) == NodeKind::Root {
            return self.write_value(value, texts, events);
        }
        self.pending_values.push(scope, value);
        let excess = self.pending_values.take_excess();
        excess.into_iter().try_for_each(|value| self.write_value(value, texts, events))
    }

    /// Writes the scopes that are still open.
    pub(super) fn write_open(
        &mut self,
        state: &SessionState,
        texts: &IdMap<String>,
        events: &mut Events,
    ) -> io::Result<()> {
        // Innermost first, as they would have ended.
        for (node, start_nanos) in std::mem::take(&mut self.open_scopes).into_iter().rev() {
            if state.was_recording(start_nanos) {
                let end_nanos = state.last_nanos().max(start_nanos);
                let span = Span { node_id: node, start_nanos, end_nanos };
                self.write_scope(&span, true, texts, events)?;
            }
        }
        Ok(())
    }

    /// Writes the values whose scopes have not ended.
    pub(super) fn write_unmatched(
        &mut self,
        texts: &IdMap<String>,
        events: &mut Events,
    ) -> io::Result<()> {
        let unmatched = self.pending_values.take_all();
        unmatched.into_iter().try_for_each(|value| self.write_value(value, texts, events))
    }

    fn write_value(
        &mut self,
        value: RecordedValue,
        texts: &IdMap<String>,
        events: &mut Events,
    ) -> io::Result<()> {
        let lane = self.lane(0, events)?;
        let (node, time_nanos) = (value.node_id, value.time_nanos);
        let metrics = add_up(vec![value], texts);
        let event = EventContext { path: &self.path(node, texts), metrics: &metrics, lane };
        events.instant(&event, "metric", time_nanos)
    }

    /// Returns the scope that a node's metrics belong to: the node, or for a state the scope that
    /// it qualifies.
    fn scope_of(&self, node: u32) -> u32 {
        let parent = self.nodes.get(node).map_or(node, |node| node.parent_id);
        let is_state_of_scope =
            self.kind(node) == NodeKind::State && self.kind(parent) != NodeKind::Root;
        if is_state_of_scope { parent } else { node }
    }

    pub(super) fn kind(&self, node: u32) -> NodeKind {
        self.nodes.get(node).map_or(NodeKind::Root, |node| node.kind)
    }

    /// Returns the names from below the root down to the node.
    pub(super) fn path<'t>(&self, mut node: u32, texts: &'t IdMap<String>) -> Vec<&'t str> {
        let mut path = Vec::new();
        while let Some(definition) =
            self.nodes.get(node).filter(|definition| definition.kind != NodeKind::Root)
        {
            path.push(texts.get(definition.name_id).map_or(names::LOST_NAME, String::as_str));
            if definition.parent_id >= node {
                break;
            }
            node = definition.parent_id;
        }
        path.reverse();
        path
    }

    /// Returns a lane of the thread in the trace, which is named at its first event.
    fn lane(&mut self, index: usize, events: &mut Events) -> io::Result<u64> {
        while self.lane_ids.len() <= index {
            let is_first = self.lane_ids.is_empty();
            self.lane_ids.push(if is_first { self.number.into() } else { events.new_lane() });
            self.name_lane(self.lane_ids.len() - 1, events)?;
        }
        Ok(self.lane_ids[index])
    }

    fn name_lane(&self, index: usize, events: &mut Events) -> io::Result<()> {
        let title = lane_title(&self.name, self.number, index as u64);
        events.name_lane(self.lane_ids[index], &title, (self.number, self.os_id, index as u64))
    }
}
