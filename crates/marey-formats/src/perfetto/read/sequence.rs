//! The state of a sequence of packets: its defaults and interned data, to which packets refer.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use marey_model::context::NodeKind;
use marey_store::Assembler;

use crate::perfetto::message::{
    Frame, InternedData, InternedName, InternedString, SourceLocation, TracePacketDefaults,
    TrackEvent,
};
use crate::shared::MAX_DEPTH;

/// The state that later packets of a sequence refer to. There can be as many sequences as packets,
/// so a sequence without interned data is small.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sequence {
    /// Whether the state is complete.
    pub(super) has_state: bool,
    pub(super) defaults: Option<Box<TracePacketDefaults>>,
    /// The thread that writes the sequence, if its packets name one.
    pub(super) thread_id: Option<u32>,
    /// The base of relative timestamps, in microseconds.
    pub(super) reference_us: i64,
    /// The last values of incremental counters, by track.
    pub(super) int_counters: BTreeMap<u64, i64>,
    pub(super) float_counters: BTreeMap<u64, f64>,
    interned: Option<Box<Interned>>,
}

/// The interned data of a sequence, by interning id.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Interned {
    /// Names of events, with their text ids in the run.
    pub(super) names: BTreeMap<u64, (Box<str>, u32)>,
    pub(super) categories: BTreeMap<u64, Box<str>>,
    pub(super) annotation_names: BTreeMap<u64, Box<str>>,
    pub(super) annotation_strings: BTreeMap<u64, Box<str>>,
    pub(super) locations: BTreeMap<u64, SourceLocation>,
    /// Contexts of call stacks, `None` if the stack is too deep.
    pub(super) stacks: BTreeMap<u64, Option<u32>>,
    functions: BTreeMap<u64, Box<str>>,
    mapping_paths: BTreeMap<u64, Box<str>>,
    source_paths: BTreeMap<u64, Box<str>>,
    mappings: BTreeMap<u64, Box<str>>,
    frames: BTreeMap<u64, (NodeKind, u32)>,
}

static NO_INTERNED_DATA: LazyLock<Interned> = LazyLock::new(Interned::default);

impl Sequence {
    /// Returns a sequence whose state begins empty.
    pub(super) fn with_state() -> Self {
        Self { has_state: true, ..Self::default() }
    }

    /// Returns the interned data.
    pub(super) fn interned(&self) -> &Interned {
        self.interned.as_deref().unwrap_or_else(|| &NO_INTERNED_DATA)
    }

    /// Adds the interned data of a packet.
    pub(super) fn intern(&mut self, data: InternedData, run: &mut Assembler) {
        self.interned.get_or_insert_default().add(data, run);
    }

    /// Returns the timestamp of an event in microseconds. Events of old traces have it beside
    /// the packet's timestamp.
    pub(super) fn event_time_us(&mut self, event: &TrackEvent) -> Option<i64> {
        if let Some(delta_us) = event.timestamp_delta_us {
            self.reference_us = self.reference_us.saturating_add(delta_us);
            return Some(self.reference_us);
        }
        event.timestamp_absolute_us
    }
}

impl Interned {
    fn add(&mut self, data: InternedData, run: &mut Assembler) {
        for InternedName { iid, name } in data.event_names {
            let name = name.unwrap_or_default();
            let name_id = run.text_id(&name);
            self.names.insert(iid.unwrap_or(0), (name.into(), name_id));
        }
        add_names(&mut self.categories, data.event_categories);
        add_names(&mut self.annotation_names, data.debug_annotation_names);
        add_texts(&mut self.annotation_strings, data.debug_annotation_string_values);
        add_texts(&mut self.functions, data.function_names);
        add_texts(&mut self.mapping_paths, data.mapping_paths);
        add_texts(&mut self.source_paths, data.source_paths);
        let locations = data.source_locations.into_iter();
        self.locations.extend(locations.map(|location| (location.iid.unwrap_or(0), location)));
        for mapping in data.mappings {
            let path_parts = mapping.path_string_ids.iter();
            let path_parts =
                path_parts.filter_map(|iid| self.mapping_paths.get(iid).map(|part| &**part));
            let path = path_parts.collect::<Vec<_>>().join("/");
            self.mappings.insert(mapping.iid.unwrap_or(0), path.into());
        }
        for frame in data.frames {
            let kind = frame.kind.as_deref().unwrap_or(NodeKind::Frame.as_str());
            let kind = NodeKind::ALL.into_iter().find(|known| known.as_str() == kind);
            let name = run.text_id(&self.frame_name(&frame));
            let frame_iid = frame.iid.unwrap_or(0);
            self.frames.insert(frame_iid, (kind.unwrap_or(NodeKind::Frame), name));
        }
        for stack in data.callstacks {
            let is_readable = stack.frame_ids.len() <= MAX_DEPTH;
            let context = is_readable.then(|| self.stack_context(&stack.frame_ids, run));
            self.stacks.insert(stack.iid.unwrap_or(0), context);
        }
    }

    /// Returns the context of a call stack, whose frames are given outermost first.
    fn stack_context(&self, frame_ids: &[u64], run: &mut Assembler) -> u32 {
        frame_ids.iter().fold(Assembler::ROOT, |context, iid| {
            let frame = self.frames.get(iid).copied();
            let (kind, name) = frame.unwrap_or_else(|| (NodeKind::Frame, run.text_id("<unknown>")));
            run.context_id(context, kind, name)
        })
    }

    /// Returns the name of a frame, which is its function and file, or else its address.
    fn frame_name(&self, frame: &Frame) -> String {
        let text = |texts: &BTreeMap<u64, Box<str>>, iid: Option<u64>| {
            texts.get(&iid?).filter(|text| !text.is_empty()).cloned()
        };
        let function = text(&self.functions, frame.function_name_id);
        let source = text(&self.source_paths, frame.source_path_iid);
        let line = frame.line_number.map_or(String::new(), |line| format!(":{line}"));
        match (function, source) {
            (Some(function), None) => function.into(),
            (Some(function), Some(source)) => format!("{source}{line}@{function}"),
            (None, Some(source)) => format!("{source}{line}"),
            (None, None) => match (frame.rel_pc, text(&self.mappings, frame.mapping_id)) {
                (None, None) => String::new(),
                (address, mapping) => {
                    let mapping = mapping.unwrap_or_default();
                    format!("{mapping}+{:#x}", address.unwrap_or(0))
                }
            },
        }
    }
}

fn add_names(names: &mut BTreeMap<u64, Box<str>>, new_entries: Vec<InternedName>) {
    let new_entries = new_entries.into_iter();
    names.extend(
        new_entries.map(|name| (name.iid.unwrap_or(0), name.name.unwrap_or_default().into())),
    );
}

fn add_texts(texts: &mut BTreeMap<u64, Box<str>>, new_entries: Vec<InternedString>) {
    texts.extend(new_entries.into_iter().map(|text| {
        let bytes = text.text.unwrap_or_default();
        (text.iid.unwrap_or(0), String::from_utf8_lossy(&bytes).into())
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_small_until_it_interns() {
        assert!(size_of::<Sequence>() <= 96);
    }
}
