//! Converts track events to rows: slices, instants, counters and flows.

use std::sync::Arc;

use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_store::row::{
    ActivityKind, Args, AsyncSpan, Flow, FlowPoint, GpuActivity, Instant, InstantScope,
    MemoryAction, MemoryEvent, Metric,
};
use marey_store::{Assembler, Slice, StoreError};

use super::EventConverter;
use super::annotations::{self, Extras};
use super::open::{OpenSlice, PartialRow, StackKey};
use super::sequence::Sequence;
use super::tracks::TrackOwner;
use crate::perfetto::launch_flow_id;
use crate::perfetto::message::{
    DebugAnnotation, TYPE_COUNTER, TYPE_INSTANT, TYPE_SLICE_BEGIN, TYPE_SLICE_END, TrackEvent,
};

/// The parts of an event that do not depend on its type.
#[derive(Debug)]
pub(super) struct EventHeader {
    pub(super) time_nanos: i64,
    pub(super) owner: TrackOwner,
    pub(super) stack_key: StackKey,
    pub(super) name_id: u32,
    pub(super) category_id: Option<u32>,
}

impl EventConverter<'_> {
    /// Adds a track event.
    pub(super) fn add_track_event(
        &mut self,
        sequence: &mut Sequence,
        time_nanos: i64,
        event: &TrackEvent,
    ) -> Result<(), StoreError> {
        self.add_extra_counters(sequence, time_nanos, event)?;
        if event.r#type == Some(TYPE_COUNTER) {
            let uuid = track_uuid(sequence, event).unwrap_or(0);
            let float = event.double_counter_value.map(MetricValue::Float);
            let Some(value) = event.counter_value.map(MetricValue::Int).or(float) else {
                self.lose(LossCause::Unreadable, "a counter without a value");
                return Ok(());
            };
            return self.add_counter_value(sequence, uuid, time_nanos, value, event);
        }
        let header = self.read_header(sequence, time_nanos, event);
        match (event.r#type, &event.legacy_event) {
            (Some(TYPE_SLICE_BEGIN), _) => self.begin_slice(sequence, &header, event),
            (Some(TYPE_SLICE_END), _) => self.end_slice(sequence, &header, event),
            (Some(TYPE_INSTANT), _) => self.add_instant(sequence, &header, event, None),
            (None | Some(0), Some(legacy)) => {
                self.add_legacy_event(sequence, header, event, legacy)
            }
            (kind, _) => {
                let cause = format!("an event of type {}", kind.unwrap_or(0));
                self.lose(LossCause::Unsupported, cause);
                Ok(())
            }
        }
    }

    /// Returns the track and name of an event.
    fn read_header(
        &mut self,
        sequence: &Sequence,
        time_nanos: i64,
        event: &TrackEvent,
    ) -> EventHeader {
        let overriding_thread_id = event.legacy_event.as_ref().and_then(|legacy| {
            let pid_and_tid = (legacy.pid_override.filter(|&pid| pid > 0)?, legacy.tid_override?);
            self.tracks.thread(pid_and_tid.0, pid_and_tid.1.into(), self.import)
        });
        let uuid = track_uuid(sequence, event);
        let thread_id =
            overriding_thread_id.or_else(|| if uuid.is_none() { sequence.thread_id } else { None });
        let owner = match thread_id {
            Some(thread_id) => self.tracks.thread_owner(thread_id, self.import),
            None => self.tracks.owner(uuid.unwrap_or(0), self.import),
        };
        let stack_key =
            owner.thread_id.map_or(StackKey::Track(uuid.unwrap_or(0)), StackKey::Thread);
        let name_id = self.event_name_id(sequence, event);
        let category_id = self.event_category_id(sequence, event);
        EventHeader { time_nanos, owner, stack_key, name_id, category_id }
    }

    fn event_name_id(&mut self, sequence: &Sequence, event: &TrackEvent) -> u32 {
        if let Some(name) = &event.name {
            return self.import.run.text_id(name);
        }
        let legacy_iid = event.legacy_event.as_ref().and_then(|legacy| legacy.name_iid);
        let iid = event.name_iid.or(legacy_iid).filter(|&iid| iid != 0);
        let interned = iid.and_then(|iid| sequence.interned().names.get(&iid).map(|name| name.1));
        if iid.is_some() && interned.is_none() {
            self.lose(LossCause::Unreadable, "an event whose name is not in the file");
        }
        interned.unwrap_or_else(|| self.import.run.text_id(""))
    }

    fn event_category_id(&mut self, sequence: &Sequence, event: &TrackEvent) -> Option<u32> {
        let interned = event.category_iids.iter();
        let interned =
            interned.filter_map(|iid| sequence.interned().categories.get(iid).map(|name| &**name));
        let mut names = event.categories.iter().map(String::as_str).chain(interned);
        let first = names.next()?;
        let joined = names.fold(first.to_owned(), |joined, name| format!("{joined},{name}"));
        Some(self.import.run.text_id(&joined))
    }

    pub(super) fn begin_slice(
        &mut self,
        sequence: &Sequence,
        header: &EventHeader,
        event: &TrackEvent,
    ) -> Result<(), StoreError> {
        self.add_flows(header, event)?;
        let open_slice = self.open_slice(sequence, header, event)?;
        self.open_slices.entry(header.stack_key.clone()).or_default().push(open_slice);
        Ok(())
    }

    /// Opens the slice that begins with an event.
    pub(super) fn open_slice(
        &mut self,
        sequence: &Sequence,
        header: &EventHeader,
        event: &TrackEvent,
    ) -> Result<OpenSlice, StoreError> {
        let (extras, annotations) = Extras::split_from(event, sequence);
        self.slice_count += 1;
        let owner = &header.owner;
        let span_thread_id =
            owner.thread_id.or(owner.enclosing_thread_id.filter(|_| extras.flag("is_of_thread")));
        let row = if let Some(kind) = extras.text("activity") {
            let context_id = self.stack_context(sequence, event);
            PartialRow::Activity(Box::new(new_activity(header, event, &extras, kind, context_id)))
        } else {
            self.add_stack_sample(sequence, header, event)?;
            match span_thread_id {
                Some(thread_id) => {
                    PartialRow::Span(self.new_slice(header, event, &extras, thread_id))
                }
                None => PartialRow::AsyncSpan(self.new_async_span(header, &extras)),
            }
        };
        let mut args = NewArgs::default();
        self.add_args(sequence, event, annotations, &mut args);
        if let (PartialRow::AsyncSpan(_), Some(correlation)) = (&row, event.correlation_id) {
            args.json("correlation_id", &correlation.to_string());
        }
        Ok(OpenSlice { row, args })
    }

    fn new_slice(
        &self,
        header: &EventHeader,
        event: &TrackEvent,
        extras: &Extras,
        thread_id: u32,
    ) -> Slice {
        let kind = extras.text("kind");
        let kind = NodeKind::ALL.into_iter().find(|known| Some(known.as_str()) == kind);
        Slice {
            thread_id,
            start_nanos: header.time_nanos,
            duration_nanos: 0,
            order: self.slice_count,
            kind: kind.filter(|kind| *kind != NodeKind::Root).unwrap_or(NodeKind::Scope),
            name_id: header.name_id,
            step: extras.uint32("step"),
            is_open: extras.flag("is_open"),
            category_id: header.category_id,
            correlation_id: event.correlation_id,
            external_id: extras.uint("external_id"),
            args: Args::default(),
        }
    }

    fn new_async_span(&mut self, header: &EventHeader, extras: &Extras) -> AsyncSpan {
        let track_name_id = header.owner.name_id;
        AsyncSpan {
            start_nanos: header.time_nanos,
            duration_nanos: 0,
            process_id: header.owner.process_id,
            track_id: track_name_id.unwrap_or_else(|| self.import.run.text_id("")),
            name_id: header.name_id,
            is_open: extras.flag("is_open"),
            category_id: header.category_id,
            args: Args::default(),
        }
    }

    pub(super) fn end_slice(
        &mut self,
        sequence: &Sequence,
        header: &EventHeader,
        event: &TrackEvent,
    ) -> Result<(), StoreError> {
        let stack = self.open_slices.get_mut(&header.stack_key);
        let Some(mut open_slice) = stack.and_then(Vec::pop) else {
            self.lose(LossCause::UnmatchedExit, "the end of a slice that did not begin");
            return Ok(());
        };
        self.add_flows(header, event)?;
        self.add_args(sequence, event, &event.debug_annotations, &mut open_slice.args);
        self.finish_slice(open_slice, header.time_nanos)
    }

    /// Adds an instant. `scope` is the scope in the event, if it has one.
    pub(super) fn add_instant(
        &mut self,
        sequence: &Sequence,
        header: &EventHeader,
        event: &TrackEvent,
        scope: Option<InstantScope>,
    ) -> Result<(), StoreError> {
        let (extras, annotations) = Extras::split_from(event, sequence);
        let mut args = NewArgs::default();
        self.add_args(sequence, event, annotations, &mut args);
        let sampled = extras.int("sample").map(MetricValue::Int);
        if let Some(value) = sampled.or(extras.float("sample").map(MetricValue::Float)) {
            return self.add_marey_sample(sequence, header, event, &extras, value, &mut args);
        }
        if let Some(action) = extras.text("memory") {
            return self.add_memory_event(sequence, header, event, &extras, action, &mut args);
        }
        if let (Some(point), Some(thread_id)) = (extras.text("flow"), header.owner.thread_id) {
            let args = self.import.run.args(&mut args)?;
            return self.import.run.add_flow(&Flow {
                time_nanos: header.time_nanos,
                thread_id,
                flow_id: extras.uint("flow_id").unwrap_or(0),
                point: FlowPoint::of(point),
                is_enclosing: extras.flag("is_enclosing"),
                name_id: header.name_id,
                category_id: header.category_id,
                args,
            });
        }
        self.add_flows(header, event)?;
        self.add_stack_sample(sequence, header, event)?;
        if let StackKey::Track(uuid) = header.stack_key
            && let Some(name) = self.tracks.name(uuid)
        {
            args.text("track", name);
        }
        let default_scope = match &header.owner {
            TrackOwner { enclosing_thread_id: Some(_), .. } => InstantScope::Thread,
            TrackOwner { is_global: true, .. } => InstantScope::Global,
            TrackOwner { .. } => InstantScope::Process,
        };
        let args = self.import.run.args(&mut args)?;
        self.import.run.add_instant(&Instant {
            time_nanos: header.time_nanos,
            process_id: header.owner.process_id,
            thread_id: header.owner.enclosing_thread_id,
            scope: extras.text("scope").map(InstantScope::of).or(scope).unwrap_or(default_scope),
            name_id: header.name_id,
            category_id: header.category_id,
            args,
        })
    }

    fn add_memory_event(
        &mut self,
        sequence: &Sequence,
        header: &EventHeader,
        event: &TrackEvent,
        extras: &Extras,
        action: &str,
        args: &mut NewArgs,
    ) -> Result<(), StoreError> {
        let thread = extras.uint("thread_track").map(|uuid| self.tracks.owner(uuid, self.import));
        let context_id = self.stack_context(sequence, event);
        let args = self.import.run.args(args)?;
        self.import.run.add_memory_event(&MemoryEvent {
            time_nanos: header.time_nanos,
            process_id: header.owner.process_id,
            thread_id: thread.and_then(|owner| owner.thread_id),
            action: MemoryAction::of(action),
            device_type: Arc::from(extras.text("device_type").unwrap_or_default()),
            device: extras.uint32("device"),
            stream: extras.uint("stream"),
            address: extras.uint("address"),
            bytes: extras.int("bytes").unwrap_or(0),
            allocated_bytes: extras.int("allocated_bytes"),
            reserved_bytes: extras.int("reserved_bytes"),
            peak_bytes: extras.int("peak_bytes"),
            context_id,
            category_id: header.category_id,
            args,
        })
    }

    /// Adds the flow points of an event, except those of the flow from a launch to its activities,
    /// which the correlation id implies.
    fn add_flows(&mut self, header: &EventHeader, event: &TrackEvent) -> Result<(), StoreError> {
        let pid = self.tracks.pid(header.owner.process_id);
        let implied_flow_id =
            event.correlation_id.zip(pid).map(|(id, pid)| launch_flow_id(pid, id));
        let continuing = event.flow_ids.iter().chain(&event.flow_ids_old);
        let ending = event.terminating_flow_ids.iter().chain(&event.terminating_flow_ids_old);
        let flow_ids = continuing.map(|&id| (id, false)).chain(ending.map(|&id| (id, true)));
        for (flow_id, is_last) in flow_ids.filter(|&(id, _)| Some(id) != implied_flow_id) {
            let point = if is_last {
                self.open_flows.remove(&flow_id);
                FlowPoint::End
            } else if self.open_flows.insert(flow_id) {
                FlowPoint::Start
            } else {
                FlowPoint::Step
            };
            self.add_flow(header, flow_id, point, true)?;
        }
        Ok(())
    }

    /// Adds a point of a flow. Flow points belong to spans, which are on threads.
    pub(super) fn add_flow(
        &mut self,
        header: &EventHeader,
        flow_id: u64,
        point: FlowPoint,
        is_enclosing: bool,
    ) -> Result<(), StoreError> {
        let Some(thread_id) = header.owner.enclosing_thread_id else {
            self.lose(LossCause::Unsupported, "a flow at a slice without a thread");
            return Ok(());
        };
        self.import.run.add_flow(&Flow {
            time_nanos: header.time_nanos,
            thread_id,
            flow_id,
            point,
            is_enclosing,
            name_id: header.name_id,
            category_id: header.category_id,
            args: Args::default(),
        })
    }

    /// Adds annotations and the source location to arguments.
    pub(super) fn add_args(
        &mut self,
        sequence: &Sequence,
        event: &TrackEvent,
        annotations: &[DebugAnnotation],
        args: &mut NewArgs,
    ) {
        if !annotations::add_to_args(annotations, sequence, args) {
            self.lose(LossCause::Unsupported, "a debug annotation that is a protobuf message");
        }
        let interned = || sequence.interned().locations.get(&event.source_location_iid?);
        if let Some(location) = event.source_location.as_ref().or_else(interned) {
            let file = location.file_name.as_deref().unwrap_or_default();
            let function = location.function_name.as_deref().unwrap_or_default();
            let line = location.line_number.unwrap_or(0);
            args.text("source_location", &format!("{file}:{line}@{function}"));
        }
    }

    /// Adds counter values that an event of another type carries.
    fn add_extra_counters(
        &mut self,
        sequence: &mut Sequence,
        time_nanos: i64,
        event: &TrackEvent,
    ) -> Result<(), StoreError> {
        let TrackEvent { extra_counter_values: ints, extra_double_counter_values: floats, .. } =
            event;
        if ints.is_empty() && floats.is_empty() {
            return Ok(());
        }
        let or_default = |uuids: &[u64], default: Option<&Vec<u64>>| match uuids {
            [] => default.cloned().unwrap_or_default(),
            uuids => uuids.to_vec(),
        };
        let defaults = sequence.defaults.as_ref().and_then(|all| all.track_event.as_ref());
        let int_tracks = defaults.map(|defaults| &defaults.extra_counter_track_uuids);
        let float_tracks = defaults.map(|defaults| &defaults.extra_double_counter_track_uuids);
        let int_tracks = or_default(&event.extra_counter_track_uuids, int_tracks);
        let float_tracks = or_default(&event.extra_double_counter_track_uuids, float_tracks);
        let ints = int_tracks.into_iter().zip(ints.iter().copied().map(MetricValue::Int));
        let floats = float_tracks.into_iter().zip(floats.iter().copied().map(MetricValue::Float));
        for (uuid, value) in ints.chain(floats) {
            self.add_counter_value(sequence, uuid, time_nanos, value, event)?;
        }
        Ok(())
    }

    /// Adds a value of a counter.
    fn add_counter_value(
        &mut self,
        sequence: &mut Sequence,
        track_uuid: u64,
        time_nanos: i64,
        value: MetricValue,
        event: &TrackEvent,
    ) -> Result<(), StoreError> {
        let owner = self.tracks.owner(track_uuid, self.import);
        let counter = self.tracks.counter(track_uuid).cloned();
        if counter.as_ref().is_some_and(|counter| counter.is_derived) {
            return Ok(());
        }
        let name = match &counter {
            Some(counter) => &counter.name,
            None => self.tracks.name(track_uuid).unwrap_or_default(),
        };
        let name_id = self.import.run.text_id(name);
        let unit_multiplier = counter.as_ref().map_or(1, |counter| counter.unit_multiplier);
        let is_incremental = counter.is_some_and(|counter| counter.is_incremental);
        let value = match value {
            MetricValue::Int(value) if is_incremental => {
                let sum = sequence.int_counters.entry(track_uuid).or_default();
                *sum = sum.saturating_add(value);
                MetricValue::Int(sum.saturating_mul(unit_multiplier))
            }
            MetricValue::Float(value) if is_incremental => {
                let sum = sequence.float_counters.entry(track_uuid).or_default();
                *sum += value;
                MetricValue::Float(*sum * unit_multiplier as f64)
            }
            MetricValue::Int(value) => MetricValue::Int(value.saturating_mul(unit_multiplier)),
            MetricValue::Float(value) => MetricValue::Float(value * unit_multiplier as f64),
            other => other,
        };
        let counters =
            |events: &mut Self| events.tracks.counter_thread(owner.process_id, events.import);
        let thread_id = owner.enclosing_thread_id.unwrap_or_else(|| counters(self));
        let context_id = match event.r#type {
            Some(TYPE_COUNTER) => self.stack_context(sequence, event),
            _ => None,
        };
        let context_id = context_id.unwrap_or(Assembler::ROOT);
        self.import.run.add_metric(&Metric::new(thread_id, context_id, name_id, time_nanos, value))
    }
}

/// Returns the activity that begins with an event.
fn new_activity(
    header: &EventHeader,
    event: &TrackEvent,
    extras: &Extras,
    kind: &str,
    context_id: Option<u32>,
) -> GpuActivity {
    GpuActivity {
        start_nanos: header.time_nanos,
        duration_nanos: 0,
        process_id: header.owner.process_id,
        device: extras.uint32("device").unwrap_or(0),
        stream: extras.uint32("stream").unwrap_or(GpuActivity::NO_STREAM),
        kind: ActivityKind::of(kind),
        name_id: header.name_id,
        context_id,
        correlation_id: event.correlation_id,
        graph_node_id: extras.uint("graph_node_id"),
        grid: extras.dimensions("grid"),
        block: extras.dimensions("block"),
        registers: extras.uint32("registers"),
        shared_bytes: extras.int("shared_bytes"),
        bytes: extras.int("bytes"),
        category_id: header.category_id,
        external_id: extras.uint("external_id"),
        args: Args::default(),
    }
}

/// Returns the track of an event.
fn track_uuid(sequence: &Sequence, event: &TrackEvent) -> Option<u64> {
    let default = || sequence.defaults.as_ref()?.track_event.as_ref()?.track_uuid;
    event.track_uuid.or_else(default)
}
