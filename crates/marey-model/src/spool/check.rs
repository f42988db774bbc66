//! Checks that a frame uses only ids that earlier frames have defined, and redefines none.

use std::collections::{BTreeMap, HashMap};

use super::collective::Collective;
use super::device::Activity;
use super::error::Inconsistency;
use super::frame::{NodeDef, SpoolFrame};
use super::variable::Variable;
use crate::context::NodeKind;

/// The ids defined by the frames so far.
#[derive(Debug, Default)]
pub(super) struct ConsistencyCheck {
    texts: IdSet,
    shapes: IdSet,
    span_args: IdSet,
    /// By thread.
    node_ids: HashMap<u32, IdSet>,
    has_ended: bool,
}

impl ConsistencyCheck {
    /// Checks a frame and records the ids that it defines. Returns the first violated invariant.
    pub(super) fn check_frame(&mut self, frame: &SpoolFrame) -> Result<(), Inconsistency> {
        if self.has_ended {
            return Err(Inconsistency::AfterEnd);
        }
        match frame {
            SpoolFrame::Strings { first_id, texts } => self
                .texts
                .define(*first_id, texts.len())
                .ok_or(Inconsistency::DuplicateTexts(*first_id)),
            SpoolFrame::Thread { thread, .. } => {
                self.node_ids.entry(*thread).or_default();
                Ok(())
            }
            SpoolFrame::Nodes { thread, first_id, nodes } => {
                self.define_nodes(*thread, *first_id, nodes)
            }
            SpoolFrame::Spans { thread, spans, .. } => {
                self.check_nodes(*thread, spans.iter().map(|span| span.node_id))
            }
            SpoolFrame::Values { thread, values, .. } => {
                self.check_nodes(*thread, values.iter().map(|value| value.node_id))?;
                values.iter().try_for_each(|value| self.check_text(value.name_id))
            }
            SpoolFrame::Launches { thread, .. } | SpoolFrame::Autograd { thread, .. } => {
                self.check_nodes(*thread, std::iter::empty())
            }
            SpoolFrame::SpanArgs { first_id, texts } => self
                .span_args
                .define(*first_id, texts.len())
                .ok_or(Inconsistency::DuplicateSpanArgs(*first_id)),
            SpoolFrame::ArgsOfSpans { thread, args } => {
                self.check_nodes(*thread, std::iter::empty())?;
                let undefined = args.iter().find(|&&(_, id)| !self.span_args.contains(id));
                undefined.map_or(Ok(()), |&(_, id)| Err(Inconsistency::NoSuchSpanArgs(id)))
            }
            SpoolFrame::Shapes { first_id, shapes } => {
                self.shapes
                    .define(*first_id, shapes.len())
                    .ok_or(Inconsistency::DuplicateShapes(*first_id))?;
                shapes.iter().try_for_each(|shape| self.check_text(shape.name_id))
            }
            SpoolFrame::Activities { activities, .. } => {
                activities.iter().try_for_each(|activity| self.check_activity(activity))
            }
            SpoolFrame::Counters(counters) => {
                counters.iter().try_for_each(|counter| self.check_text(counter.name_id))
            }
            SpoolFrame::Collectives(collectives) => collectives
                .iter()
                .flat_map(Collective::text_ids)
                .try_for_each(|id| self.check_text(id)),
            SpoolFrame::Variables(variables) => {
                variables.iter().flat_map(Variable::text_ids).try_for_each(|id| self.check_text(id))
            }
            SpoolFrame::Samples { thread, samples } => {
                self.check_nodes(*thread, samples.iter().map(|sample| sample.node_id))?;
                samples.iter().try_for_each(|sample| self.check_text(sample.thread_name_id))
            }
            SpoolFrame::Open { thread, spans } => {
                self.check_nodes(*thread, spans.iter().map(|span| span.0))
            }
            SpoolFrame::End => {
                self.has_ended = true;
                Ok(())
            }
            SpoolFrame::Process(_)
            | SpoolFrame::Clock { .. }
            | SpoolFrame::Session { .. }
            | SpoolFrame::Device(_)
            | SpoolFrame::Note { .. }
            | SpoolFrame::Losses(_)
            | SpoolFrame::Overhead(_) => Ok(()),
        }
    }

    fn define_nodes(
        &mut self,
        thread: u32,
        first_id: u32,
        nodes: &[NodeDef],
    ) -> Result<(), Inconsistency> {
        let defined_ids =
            self.node_ids.get_mut(&thread).ok_or(Inconsistency::NoSuchThread(thread))?;
        defined_ids
            .define(first_id, nodes.len())
            .ok_or(Inconsistency::DuplicateNodes { thread, first: first_id })?;
        let defined_ids = &self.node_ids[&thread];
        for (node, id) in nodes.iter().zip(first_id..=u32::MAX) {
            let parent_id = node.parent_id;
            let is_valid =
                if node.kind == NodeKind::Root { parent_id == id } else { parent_id < id };
            if !is_valid {
                return Err(Inconsistency::Parent { thread, node: id, parent: parent_id });
            }
            if !defined_ids.contains(parent_id) {
                return Err(Inconsistency::NoSuchNode { thread, node: parent_id });
            }
            self.check_text(node.name_id)?;
        }
        Ok(())
    }

    fn check_nodes(
        &self,
        thread: u32,
        mut node_ids: impl Iterator<Item = u32>,
    ) -> Result<(), Inconsistency> {
        let defined_ids = self.node_ids.get(&thread).ok_or(Inconsistency::NoSuchThread(thread))?;
        match node_ids.find(|&node| !defined_ids.contains(node)) {
            Some(node) => Err(Inconsistency::NoSuchNode { thread, node }),
            None => Ok(()),
        }
    }

    fn check_activity(&self, activity: &Activity) -> Result<(), Inconsistency> {
        if !self.shapes.contains(activity.shape_id) {
            return Err(Inconsistency::NoSuchShape(activity.shape_id));
        }
        match activity.launch {
            Some((thread, node)) => self.check_nodes(thread, std::iter::once(node)),
            None => Ok(()),
        }
    }

    fn check_text(&self, id: u32) -> Result<(), Inconsistency> {
        if self.texts.contains(id) { Ok(()) } else { Err(Inconsistency::NoSuchText(id)) }
    }
}

/// A set of ids, stored as ranges.
#[derive(Debug, Default)]
struct IdSet {
    /// All ids below this one are defined: the fast path, before a search in `ranges`.
    dense_end: u64,
    /// Start and end of each range. Adjacent ranges are merged.
    ranges: BTreeMap<u64, u64>,
}

impl IdSet {
    #[inline]
    fn contains(&self, id: u32) -> bool {
        let id = u64::from(id);
        id < self.dense_end
            || self.ranges.range(..=id).next_back().is_some_and(|(_, &end)| id < end)
    }

    /// Adds a range. Returns `None` if one of its ids is already defined or exceeds `u32::MAX`.
    fn define(&mut self, first_id: u32, count: usize) -> Option<()> {
        let mut start = u64::from(first_id);
        let mut end = start + count as u64;
        let previous_range =
            self.ranges.range(..=start).next_back().map(|(&start, &end)| (start, end));
        let next_range = self.ranges.range(start..).next().map(|(&start, &end)| (start, end));
        let overlaps = previous_range.is_some_and(|(_, previous_end)| previous_end > start)
            || next_range.is_some_and(|(next_start, _)| next_start < end);
        if overlaps || end > 1 << 32 {
            return None;
        }
        if count == 0 {
            return Some(());
        }
        if let Some((previous_start, previous_end)) = previous_range
            && previous_end == start
        {
            start = previous_start;
        }
        if let Some((next_start, next_end)) = next_range
            && next_start == end
        {
            self.ranges.remove(&next_start);
            end = next_end;
        }
        self.ranges.insert(start, end);
        if start == 0 {
            self.dense_end = end;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_ranges_merge_and_overlapping_ones_are_rejected() {
        let mut ids = IdSet::default();
        for (first, count) in [(4, 2), (8, 1), (6, 2), (0, 3), (u32::MAX, 1), (3, 0)] {
            assert_eq!(ids.define(first, count), Some(()), "{first}+{count}");
        }
        assert_eq!(ids.ranges, BTreeMap::from([(0, 3), (4, 9), ((1 << 32) - 1, 1 << 32)]));
        for (first, count) in [(2, 1), (3, 2), (8, 9), (u32::MAX, 1), (10, usize::MAX >> 1)] {
            assert_eq!(ids.define(first, count), None, "{first}+{count}");
        }
        let defined: Vec<u32> = (0..12).filter(|&id| ids.contains(id)).collect();
        assert_eq!(defined, [0, 1, 2, 4, 5, 6, 7, 8]);
        assert!(ids.contains(u32::MAX) && !ids.contains(u32::MAX - 1));
    }
}
