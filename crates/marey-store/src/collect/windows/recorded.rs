//! Reads the recorder's events in a window from the spool: its spans, and the anchors that align
//! the clocks.

use std::collections::BTreeMap;
use std::fs::File;

use marey_model::context::{NodeKind, WINDOW_ANCHOR};
use marey_model::spool::SpoolFrame;

use super::super::clock::Clock;
use super::super::meter::Meter;
use super::super::outline::Outline;
use super::super::spool::SpoolFile;
use crate::StoreError;
use crate::names::Names;
use crate::rollup::NO_NODE;

/// The spans of the recorder that overlap a window, without anchors. They are grouped by thread and
/// sorted by start, parents first.
pub(super) type Recorded = BTreeMap<u32, Vec<RecordedSpan>>;

/// The anchors of a spool.
#[derive(Debug, Default)]
pub(super) struct Anchors {
    /// The anchors in order, by the number of their window.
    pub(super) by_window: BTreeMap<u64, Vec<Anchor>>,
    /// All anchors and the spans inside them, as node and start on the recorder's clock.
    pub(super) spans: Vec<(u32, i64)>,
}

/// A span of the recorder. Times are on the clock of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedSpan {
    pub(super) start_nanos: i64,
    pub(super) end_nanos: i64,
    pub(super) node: u32,
    /// The name of the operator without the overload.
    pub(super) plain_name_id: u32,
    pub(super) recorder_start_nanos: i64,
}

/// An anchor, on the clock of the side that recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Anchor {
    pub(super) start_nanos: i64,
    pub(super) end_nanos: i64,
}

/// Returns the anchors of all windows.
pub(super) fn anchors(
    spool: (&SpoolFile, &File),
    outline: &Outline,
    clock: &Clock,
    names: &Names,
) -> Result<Anchors, StoreError> {
    let numbers: Vec<Option<u64>> =
        outline.nodes.iter().map(|node| anchor_number(names.text_of(node.name_id))).collect();
    let mut anchors = Anchors::default();
    for_each_span(spool, outline, |_, node, start_nanos, end_nanos| {
        let Some(number) = numbers[node as usize] else { return };
        anchors.spans.push((node, start_nanos));
        let parent = outline.nodes[node as usize].parent;
        // If operators are recorded, the recorder also has the profiler's part of the anchor,
        // inside its own.
        if parent == NO_NODE || numbers[parent as usize].is_none() {
            let [start_nanos, end_nanos] =
                [start_nanos, end_nanos].map(|nanos| clock.unix_nanos(nanos, &mut 0));
            let anchor = Anchor { start_nanos, end_nanos };
            anchors.by_window.entry(number).or_default().push(anchor);
        }
    })?;
    anchors.by_window.values_mut().for_each(|anchors| anchors.sort_unstable());
    Ok(anchors)
}

/// Returns the number of the window that an anchor of this name belongs to.
pub(super) fn anchor_number(name: &str) -> Option<u64> {
    name.strip_prefix(WINDOW_ANCHOR)?.strip_prefix(' ')?.parse().ok()
}

/// Returns the spans that overlap a time range.
pub(super) fn overlapping(
    spool: (&SpoolFile, &File),
    outline: &Outline,
    clock: &Clock,
    names: &mut Names,
    (from_nanos, until_nanos): (i64, i64),
) -> Result<Recorded, StoreError> {
    let mut recorded = Recorded::default();
    let (mut line, mut plain_name_ids) = (0, BTreeMap::new());
    for_each_span(spool, outline, |thread, node, recorder_start_nanos, end_nanos| {
        let end_nanos = clock.unix_nanos(end_nanos, &mut line);
        if end_nanos < from_nanos {
            return;
        }
        let start_nanos = clock.unix_nanos(recorder_start_nanos, &mut line);
        if start_nanos > until_nanos {
            return;
        }
        let name_id = outline.nodes[node as usize].name_id;
        if anchor_number(names.text_of(name_id)).is_some() {
            return;
        }
        let plain_name_id =
            *plain_name_ids.entry(name_id).or_insert_with(|| plain_name_id(name_id, names));
        recorded.entry(thread).or_default().push(RecordedSpan {
            start_nanos,
            end_nanos: end_nanos.max(start_nanos),
            node,
            plain_name_id,
            recorder_start_nanos,
        });
    })?;
    for spans in recorded.values_mut() {
        // Children end first, so if two spans have equal times, the parent comes later in the
        // spool.
        spans.reverse();
        spans.sort_by_key(|span| (span.start_nanos, std::cmp::Reverse(span.end_nanos)));
    }
    Ok(recorded)
}

/// Returns the id of an operator's name without the overload, which some versions of PyTorch do not
/// report. Other names stay.
pub(super) fn plain_name_id(name_id: u32, names: &mut Names) -> u32 {
    let text = names.text_of(name_id);
    let Some(operator) = text.rfind("::").map(|index| index + 2) else { return name_id };
    match text[operator..].find('.') {
        Some(dot) => {
            let plain = text[..operator + dot].to_owned();
            names.text_id(&plain)
        }
        None => name_id,
    }
}

/// Passes every span of the spool to `on_span`, as thread, node, and start and end on the
/// recorder's clock.
fn for_each_span(
    (spool, file): (&SpoolFile, &File),
    outline: &Outline,
    mut on_span: impl FnMut(u32, u32, i64, i64),
) -> Result<(), StoreError> {
    let mut nobody = |_| ();
    spool.read_frames(file, &mut Meter::new(0, &mut nobody), |frame| {
        let SpoolFrame::Spans { thread: number, spans, .. } = frame else { return Ok(()) };
        let Some(thread) = outline.threads.get(number) else { return Ok(()) };
        for span in spans {
            let Some(&node) = thread.nodes.get(span.node_id) else { continue };
            if outline.nodes[node as usize].kind != NodeKind::Mark {
                on_span(number, node, span.start_nanos, span.end_nanos);
            }
        }
        Ok(())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_named_without_its_overload() {
        let mut names = Names::new();
        for (name, plain) in [
            ("aten::mm.default", "aten::mm"),
            ("torch.library::f.out.x", "torch.library::f"),
            ("library::f.o", "library::f"),
            ("a.b::f.o", "a.b::f"),
            ("aten::mm", "aten::mm"),
            ("model.layer", "model.layer"),
        ] {
            let id = names.text_id(name);
            let id = plain_name_id(id, &mut names);
            assert_eq!(names.text_of(id), plain);
        }
    }
}
