//! Places the spans that only torch.profiler has among the recorder's spans.
//!
//! The spans of a thread are visited by start. A span of the profiler stands below the innermost
//! span around it. A span of the recorder keeps its parent, unless spans of the profiler lie
//! between the two: then it stands below these. So the context tree of a window is the recorder's
//! tree with more levels. Spans of tasks, which are not on the stack of their thread, stay where
//! they are.

use std::cmp::Reverse;
use std::collections::HashMap;

use marey_model::context::{NodeKind, ROOT_NAME};

use super::super::outline::{Outline, OutlineNode};
use super::recorded::RecordedSpan;
use super::trace::ThreadTrace;
use super::twins::TOLERANCE_NANOS;
use crate::names::{self, Names};
use crate::rollup::NO_NODE;

/// The outline of a spool, with an index of its nodes.
pub(super) struct Placement<'a> {
    outline: &'a mut Outline,
    names: &'a mut Names,
    /// Nodes by parent, kind and name.
    children: HashMap<(u32, NodeKind, u32), u32>,
    /// The root of each thread, by position.
    roots: HashMap<u32, u32>,
}

/// The places of the spans and memory events of a thread.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// The node of each recorded span.
    pub(super) recorded: Vec<u32>,
    /// The end and the node of each span of the profiler. They are unused for a span with a twin.
    pub(super) traced: Vec<(i64, u32)>,
    /// The context of each memory event.
    pub(super) points: Vec<u32>,
}

/// An item of the visit. The order of the variants decides if times are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum VisitedItem {
    Recorded(usize),
    Traced(usize),
    Point(usize),
}

/// A span that may enclose others.
#[derive(Clone, Copy, Debug)]
struct EnclosingSpan {
    end_nanos: i64,
    /// The node where it stands.
    node: u32,
    /// The recorder's node, if it is a span of the recorder.
    recorded_node: Option<u32>,
    /// Index among the spans of the profiler, if it is one.
    traced: usize,
}

impl<'a> Placement<'a> {
    pub(super) fn new(outline: &'a mut Outline, names: &'a mut Names) -> Self {
        let mut children = HashMap::with_capacity(outline.nodes.len());
        let mut roots = HashMap::new();
        for (node, number) in outline.nodes.iter().zip(0..) {
            if node.parent == NO_NODE {
                roots.entry(node.thread).or_insert(number);
            } else {
                children.entry((node.parent, node.kind, node.name_id)).or_insert(number);
            }
        }
        Self { outline, names, children, roots }
    }

    /// Returns the number of the thread with an id of the operating system. Adds the thread if the
    /// recorder has not seen it.
    pub(super) fn thread(&mut self, os_id: u64) -> u32 {
        self.outline.threads.find_or_add(os_id)
    }

    /// Returns the position of a thread.
    pub(super) fn position(&self, thread: u32) -> u32 {
        self.outline.threads.get(thread).map_or(0, |thread| thread.position)
    }

    /// Returns the nodes.
    pub(super) fn nodes(&self) -> &[OutlineNode] {
        &self.outline.nodes
    }

    /// Places the spans and memory events of a thread.
    pub(super) fn place(
        &mut self,
        thread: u32,
        recorded: &[RecordedSpan],
        trace: &ThreadTrace,
        twins: &[Option<usize>],
    ) -> Placed {
        let mut placed = Placed {
            recorded: recorded.iter().map(|span| span.node).collect(),
            traced: trace.spans.iter().map(|span| (span.end_nanos, NO_NODE)).collect(),
            points: vec![names::ROOT; trace.memory_events.len()],
        };
        let base = self.base(thread, recorded);
        let mut stack: Vec<EnclosingSpan> = Vec::new();
        for (start_nanos, Reverse(end_nanos), item) in items(recorded, trace, twins) {
            while stack.last().is_some_and(|open| !encloses(open, start_nanos, end_nanos)) {
                stack.pop();
            }
            let outer = stack.last().map_or(base, |open| open.node);
            match item {
                VisitedItem::Point(index) => {
                    placed.points[index] = self.outline.nodes[outer as usize].context_id;
                }
                VisitedItem::Traced(index) => {
                    let span = &trace.spans[index];
                    let end_nanos =
                        stack.last().map_or(end_nanos, |open| end_nanos.min(open.end_nanos));
                    let node = self.child(outer, span.kind, span.name_id);
                    placed.traced[index] = (end_nanos, node);
                    stack.push(EnclosingSpan {
                        end_nanos,
                        node,
                        recorded_node: None,
                        traced: index,
                    });
                }
                VisitedItem::Recorded(index) => {
                    let span = &recorded[index];
                    extend(&mut stack, end_nanos, &mut placed);
                    let node = self.replace(span.node, base, &stack);
                    placed.recorded[index] = node;
                    let recorded_node = Some(span.node);
                    stack.push(EnclosingSpan { end_nanos, node, recorded_node, traced: 0 });
                }
            }
        }
        placed
    }

    /// Returns the node below which those spans of the profiler stand that no recorded span
    /// encloses. It is the parent of the first recorded span, which may be open beyond the
    /// recording.
    fn base(&mut self, thread: u32, recorded: &[RecordedSpan]) -> u32 {
        let parent = recorded.first().map(|span| self.outline.nodes[span.node as usize].parent);
        parent.filter(|&parent| parent != NO_NODE).unwrap_or_else(|| self.root(thread))
    }

    fn root(&mut self, thread: u32) -> u32 {
        let position = self.position(thread);
        let Self { outline, names, roots, .. } = self;
        *roots.entry(position).or_insert_with(|| {
            let name_id = names.text_id(ROOT_NAME);
            let (parent, context_id, kind) = (NO_NODE, names::ROOT, NodeKind::Root);
            outline.nodes.push(OutlineNode { thread: position, parent, context_id, name_id, kind });
            outline.nodes.len() as u32 - 1
        })
    }

    /// Returns the node that a recorded span gets inside the open spans.
    fn replace(&mut self, node: u32, base: u32, stack: &[EnclosingSpan]) -> u32 {
        let OutlineNode { parent, kind, name_id, .. } = self.outline.nodes[node as usize];
        let Some(innermost) = stack.last().filter(|_| parent != NO_NODE) else { return node };
        let outer_node = stack.iter().rev().find_map(|open| open.recorded_node).unwrap_or(base);
        if outer_node != parent || innermost.node == parent {
            return node;
        }
        self.child(innermost.node, kind, name_id)
    }

    fn child(&mut self, parent: u32, kind: NodeKind, name_id: u32) -> u32 {
        let Self { outline, names, children, .. } = self;
        *children.entry((parent, kind, name_id)).or_insert_with(|| {
            let OutlineNode { thread, context_id: parent_context_id, .. } =
                outline.nodes[parent as usize];
            let context_id = names.context_id(parent_context_id, kind, name_id);
            outline.nodes.push(OutlineNode { thread, parent, context_id, name_id, kind });
            outline.nodes.len() as u32 - 1
        })
    }
}

/// Returns the items to visit, sorted by start, parents first.
fn items(
    recorded: &[RecordedSpan],
    trace: &ThreadTrace,
    twins: &[Option<usize>],
) -> Vec<(i64, Reverse<i64>, VisitedItem)> {
    let recorded = recorded.iter().enumerate().map(|(index, span)| {
        (span.start_nanos, Reverse(span.end_nanos), VisitedItem::Recorded(index))
    });
    let traced = trace.spans.iter().enumerate().filter(|&(index, _)| twins[index].is_none()).map(
        |(index, span)| (span.start_nanos, Reverse(span.end_nanos), VisitedItem::Traced(index)),
    );
    let points = trace.memory_events.iter().enumerate().map(|(index, event)| {
        (event.time_nanos, Reverse(event.time_nanos), VisitedItem::Point(index))
    });
    let mut items: Vec<_> = recorded.chain(traced).chain(points).collect();
    items.sort_unstable();
    items
}

/// Whether an open span encloses a span with these times. The clocks agree only up to the
/// tolerance, so the end of the inner span may exceed that of the outer one by as much.
fn encloses(open: &EnclosingSpan, start_nanos: i64, end_nanos: i64) -> bool {
    let overhang_nanos = end_nanos.saturating_sub(open.end_nanos);
    let inside_nanos = open.end_nanos.saturating_sub(start_nanos);
    overhang_nanos <= 0 || (overhang_nanos <= TOLERANCE_NANOS && inside_nanos > overhang_nanos)
}

/// Extends the innermost spans of the profiler to the end of a recorded span inside them, because
/// the recorder's times are the ones to keep.
fn extend(stack: &mut [EnclosingSpan], end_nanos: i64, placed: &mut Placed) {
    for open in stack.iter_mut().rev() {
        if open.recorded_node.is_some() || open.end_nanos >= end_nanos {
            break;
        }
        open.end_nanos = end_nanos;
        placed.traced[open.traced].0 = end_nanos;
    }
}
