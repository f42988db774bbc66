//! Track events.

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

use super::Events;
use super::annotations::{self, Marks};
use super::open::{Beginning, Open, Stack};
use super::sequence::Sequence;
use super::tracks::Place;
use crate::perfetto::launch_flow;
use crate::perfetto::message::{
    COUNTER, DebugAnnotation, INSTANT, SLICE_BEGIN, SLICE_END, TrackEvent,
};

/// What is known of an event before its kind is looked at.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) time_nanos: i64,
    pub(super) place: Place,
    pub(super) stack: Stack,
    pub(super) name_id: u32,
    pub(super) category_id: Option<u32>,
}

impl Events<'_> {
    pub(super) fn track_event(
        &mut self,
        sequence: &mut Sequence,
        time_nanos: i64,
        event: &TrackEvent,
    ) -> Result<(), StoreError> {
        self.extra_counters(sequence, time_nanos, event)?;
        if event.r#type == Some(COUNTER) {
            let uuid = track_uuid(sequence, event).unwrap_or(0);
            return match (event.counter_value, event.double_counter_value) {
                (Some(value), _) => {
                    self.count(sequence, uuid, time_nanos, MetricValue::Int(value), event)
                }
                (None, Some(value)) => {
                    self.count(sequence, uuid, time_nanos, MetricValue::Float(value), event)
                }
                (None, None) => {
                    self.lose(LossCause::Unreadable, "a counter without a value");
                    Ok(())
                }
            };
        }
        let head = self.head(sequence, time_nanos, event);
        match (event.r#type, &event.legacy_event) {
            (Some(SLICE_BEGIN), _) => self.begin(sequence, &head, event),
            (Some(SLICE_END), _) => self.slice_end(sequence, &head, event),
            (Some(INSTANT), _) => self.instant(sequence, &head, event, None),
            (None | Some(0), Some(legacy)) => self.legacy_event(sequence, head, event, legacy),
            (kind, _) => {
                let cause = format!("an event of type {}", kind.unwrap_or(0));
                self.lose(LossCause::Unsupported, cause);
                Ok(())
            }
        }
    }

    /// Where an event is, and what it is called.
    fn head(&mut self, sequence: &Sequence, time_nanos: i64, event: &TrackEvent) -> Head {
        let overridden = event.legacy_event.as_ref().and_then(|legacy| {
            let ids = (legacy.pid_override.filter(|&pid| pid > 0)?, legacy.tid_override?);
            self.tracks.thread(ids.0, ids.1.into(), self.import)
        });
        let uuid = track_uuid(sequence, event);
        let thread = overridden.or_else(|| if uuid.is_none() { sequence.thread } else { None });
        let place = match thread {
            Some(thread) => self.tracks.place_of_thread(thread, self.import),
            None => self.tracks.place(uuid.unwrap_or(0), self.import),
        };
        let stack = place.thread.map_or(Stack::Track(uuid.unwrap_or(0)), Stack::Thread);
        let name_id = self.name(sequence, event);
        let category_id = self.category(sequence, event);
        Head { time_nanos, place, stack, name_id, category_id }
    }

    fn name(&mut self, sequence: &Sequence, event: &TrackEvent) -> u32 {
        if let Some(name) = &event.name {
            return self.import.run.text(name);
        }
        let of_legacy = event.legacy_event.as_ref().and_then(|legacy| legacy.name_iid);
        let iid = event.name_iid.or(of_legacy).filter(|&iid| iid != 0);
        let known = iid.and_then(|iid| sequence.interned().names.get(&iid).map(|name| name.1));
        if iid.is_some() && known.is_none() {
            self.lose(LossCause::Unreadable, "the name of an event, which is not in the file");
        }
        known.unwrap_or_else(|| self.import.run.text(""))
    }

    fn category(&mut self, sequence: &Sequence, event: &TrackEvent) -> Option<u32> {
        let interned = event.category_iids.iter();
        let interned =
            interned.filter_map(|iid| sequence.interned().categories.get(iid).map(|name| &**name));
        let mut names = event.categories.iter().map(String::as_str).chain(interned);
        let first = names.next()?;
        let all = names.fold(first.to_owned(), |all, name| format!("{all},{name}"));
        Some(self.import.run.text(&all))
    }

    pub(super) fn begin(
        &mut self,
        sequence: &Sequence,
        head: &Head,
        event: &TrackEvent,
    ) -> Result<(), StoreError> {
        self.flows(head, event)?;
        let open = self.beginning(sequence, head, event)?;
        self.open.entry(head.stack.clone()).or_default().push(open);
        Ok(())
    }

    /// What a slice becomes that begins with an event.
    pub(super) fn beginning(
        &mut self,
        sequence: &Sequence,
        head: &Head,
        event: &TrackEvent,
    ) -> Result<Open, StoreError> {
        let (marks, annotations) = Marks::of(event, sequence);
        self.begun += 1;
        let Head { time_nanos: start_nanos, ref place, name_id, category_id, .. } = *head;
        let on_thread = place.thread.or(place.around.filter(|_| marks.flag("is_of_thread")));
        let row = if let Some(kind) = marks.text("activity") {
            Beginning::Activity(Box::new(GpuActivity {
                start_nanos,
                duration_nanos: 0,
                process_id: place.process,
                device: marks.id("device").unwrap_or(0),
                stream: marks.id("stream").unwrap_or(u32::MAX),
                kind: ActivityKind::of(kind),
                name_id,
                context_id: self.stack(sequence, event),
                correlation_id: event.correlation_id,
                graph_node_id: marks.uint("graph_node_id"),
                grid: marks.extents("grid"),
                block: marks.extents("block"),
                registers: marks.id("registers"),
                shared_bytes: marks.int("shared_bytes"),
                bytes: marks.int("bytes"),
                category_id,
                external_id: marks.uint("external_id"),
                args: Args::default(),
            }))
        } else if let Some(thread_id) = on_thread {
            self.callstack(sequence, head, event)?;
            let kind = marks.text("kind");
            let kind = NodeKind::ALL.into_iter().find(|known| Some(known.as_str()) == kind);
            Beginning::Span(Slice {
                thread_id,
                start_nanos,
                duration_nanos: 0,
                order: self.begun,
                kind: kind.filter(|kind| *kind != NodeKind::Root).unwrap_or(NodeKind::Scope),
                name_id,
                step: marks.id("step"),
                is_open: marks.flag("is_open"),
                category_id,
                correlation_id: event.correlation_id,
                external_id: marks.uint("external_id"),
                args: Args::default(),
            })
        } else {
            self.callstack(sequence, head, event)?;
            Beginning::AsyncSpan(AsyncSpan {
                start_nanos,
                duration_nanos: 0,
                process_id: place.process,
                track_id: place.name_id.unwrap_or_else(|| self.import.run.text("")),
                name_id,
                is_open: marks.flag("is_open"),
                category_id,
                args: Args::default(),
            })
        };
        let mut args = NewArgs::default();
        self.add_args(sequence, event, annotations, &mut args);
        if let (Beginning::AsyncSpan(_), Some(correlation)) = (&row, event.correlation_id) {
            args.json("correlation_id", &correlation.to_string());
        }
        Ok(Open { row, args })
    }

    pub(super) fn slice_end(
        &mut self,
        sequence: &Sequence,
        head: &Head,
        event: &TrackEvent,
    ) -> Result<(), StoreError> {
        let stack = self.open.get_mut(&head.stack);
        let Some(mut open) = stack.and_then(Vec::pop) else {
            self.lose(LossCause::UnmatchedExit, "the end of a slice that did not begin");
            return Ok(());
        };
        self.flows(head, event)?;
        self.add_args(sequence, event, &event.debug_annotations, &mut open.args);
        self.end(open, head.time_nanos)
    }

    /// A moment; `scope` is what it concerns, if the event says so.
    pub(super) fn instant(
        &mut self,
        sequence: &Sequence,
        head: &Head,
        event: &TrackEvent,
        scope: Option<InstantScope>,
    ) -> Result<(), StoreError> {
        let (marks, annotations) = Marks::of(event, sequence);
        let mut args = NewArgs::default();
        self.add_args(sequence, event, annotations, &mut args);
        if let Some(value) = marks.int("sample").map(MetricValue::Int) {
            return self.own_sample(sequence, head, event, &marks, value, &mut args);
        }
        if let Some(value) = marks.real("sample").map(MetricValue::Float) {
            return self.own_sample(sequence, head, event, &marks, value, &mut args);
        }
        if let Some(action) = marks.text("memory") {
            return self.memory_event(sequence, head, event, &marks, action, &mut args);
        }
        if let (Some(point), Some(thread_id)) = (marks.text("flow"), head.place.thread) {
            let args = self.import.run.args(&mut args)?;
            return self.import.run.add_flow(&Flow {
                time_nanos: head.time_nanos,
                thread_id,
                flow_id: marks.uint("flow_id").unwrap_or(0),
                point: FlowPoint::of(point),
                is_enclosing: marks.flag("is_enclosing"),
                name_id: head.name_id,
                category_id: head.category_id,
                args,
            });
        }
        self.flows(head, event)?;
        self.callstack(sequence, head, event)?;
        if let Stack::Track(uuid) = head.stack
            && let Some(name) = self.tracks.name(uuid)
        {
            args.text("track", name);
        }
        let usual = match &head.place {
            Place { around: Some(_), .. } => InstantScope::Thread,
            Place { is_global: true, .. } => InstantScope::Global,
            Place { .. } => InstantScope::Process,
        };
        let args = self.import.run.args(&mut args)?;
        self.import.run.add_instant(&Instant {
            time_nanos: head.time_nanos,
            process_id: head.place.process,
            thread_id: head.place.around,
            scope: marks.text("scope").map(InstantScope::of).or(scope).unwrap_or(usual),
            name_id: head.name_id,
            category_id: head.category_id,
            args,
        })
    }

    fn memory_event(
        &mut self,
        sequence: &Sequence,
        head: &Head,
        event: &TrackEvent,
        marks: &Marks,
        action: &str,
        args: &mut NewArgs,
    ) -> Result<(), StoreError> {
        let thread = marks.uint("thread_track").map(|uuid| self.tracks.place(uuid, self.import));
        let context_id = self.stack(sequence, event);
        let args = self.import.run.args(args)?;
        self.import.run.add_memory_event(&MemoryEvent {
            time_nanos: head.time_nanos,
            process_id: head.place.process,
            thread_id: thread.and_then(|place| place.thread),
            action: MemoryAction::of(action),
            device_type: Arc::from(marks.text("device_type").unwrap_or_default()),
            device: marks.id("device"),
            stream: marks.uint("stream"),
            address: marks.uint("address"),
            bytes: marks.int("bytes").unwrap_or(0),
            allocated_bytes: marks.int("allocated_bytes"),
            reserved_bytes: marks.int("reserved_bytes"),
            context_id,
            category_id: head.category_id,
            args,
        })
    }

    /// Adds the points of the flows that an event names. Those from launches to what they launched
    /// are left to the correlation id.
    fn flows(&mut self, head: &Head, event: &TrackEvent) -> Result<(), StoreError> {
        let pid = self.tracks.pid(head.place.process);
        let launch = event.correlation_id.zip(pid).map(|(id, pid)| launch_flow(pid, id));
        let passing = event.flow_ids.iter().chain(&event.flow_ids_old);
        let ending = event.terminating_flow_ids.iter().chain(&event.terminating_flow_ids_old);
        let all = passing.map(|&id| (id, false)).chain(ending.map(|&id| (id, true)));
        for (flow_id, is_last) in all.filter(|&(id, _)| Some(id) != launch) {
            let point = if is_last {
                self.flows.remove(&flow_id);
                FlowPoint::End
            } else if self.flows.insert(flow_id) {
                FlowPoint::Start
            } else {
                FlowPoint::Step
            };
            self.flow(head, flow_id, point, true)?;
        }
        Ok(())
    }

    /// Adds a point of a flow. It is at a span, which is on a thread.
    pub(super) fn flow(
        &mut self,
        head: &Head,
        flow_id: u64,
        point: FlowPoint,
        is_enclosing: bool,
    ) -> Result<(), StoreError> {
        let Some(thread_id) = head.place.around else {
            self.lose(LossCause::Unsupported, "a flow at a slice that is of no thread");
            return Ok(());
        };
        self.import.run.add_flow(&Flow {
            time_nanos: head.time_nanos,
            thread_id,
            flow_id,
            point,
            is_enclosing,
            name_id: head.name_id,
            category_id: head.category_id,
            args: Args::default(),
        })
    }

    /// Adds annotations and the place in the source to arguments.
    pub(super) fn add_args(
        &mut self,
        sequence: &Sequence,
        event: &TrackEvent,
        annotations: &[DebugAnnotation],
        args: &mut NewArgs,
    ) {
        if !annotations::add(annotations, sequence, args) {
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

    /// Adds the values of counters that an event of another kind has beside it.
    fn extra_counters(
        &mut self,
        sequence: &mut Sequence,
        time_nanos: i64,
        event: &TrackEvent,
    ) -> Result<(), StoreError> {
        let TrackEvent { extra_counter_values: ints, extra_double_counter_values: reals, .. } =
            event;
        if ints.is_empty() && reals.is_empty() {
            return Ok(());
        }
        let or_default = |own: &[u64], default: Option<&Vec<u64>>| match own {
            [] => default.cloned().unwrap_or_default(),
            own => own.to_vec(),
        };
        let defaults = sequence.defaults.as_ref().and_then(|all| all.track_event.as_ref());
        let of_ints = defaults.map(|defaults| &defaults.extra_counter_track_uuids);
        let of_reals = defaults.map(|defaults| &defaults.extra_double_counter_track_uuids);
        let of_ints = or_default(&event.extra_counter_track_uuids, of_ints);
        let of_reals = or_default(&event.extra_double_counter_track_uuids, of_reals);
        let ints = of_ints.into_iter().zip(ints.iter().copied().map(MetricValue::Int));
        let reals = of_reals.into_iter().zip(reals.iter().copied().map(MetricValue::Float));
        for (uuid, value) in ints.chain(reals) {
            self.count(sequence, uuid, time_nanos, value, event)?;
        }
        Ok(())
    }

    /// Adds a value of a counter.
    fn count(
        &mut self,
        sequence: &mut Sequence,
        track_uuid: u64,
        time_nanos: i64,
        value: MetricValue,
        event: &TrackEvent,
    ) -> Result<(), StoreError> {
        let place = self.tracks.place(track_uuid, self.import);
        let counter = self.tracks.counter(track_uuid).cloned();
        if counter.as_ref().is_some_and(|counter| counter.is_derived) {
            return Ok(());
        }
        let name = match &counter {
            Some(counter) => &counter.name,
            None => self.tracks.name(track_uuid).unwrap_or_default(),
        };
        let name_id = self.import.run.text(name);
        let factor = counter.as_ref().map_or(1, |counter| counter.factor);
        let is_incremental = counter.is_some_and(|counter| counter.is_incremental);
        let value = match value {
            MetricValue::Int(value) if is_incremental => {
                let sum = sequence.int_sums.entry(track_uuid).or_default();
                *sum = sum.saturating_add(value);
                MetricValue::Int(sum.saturating_mul(factor))
            }
            MetricValue::Float(value) if is_incremental => {
                let sum = sequence.real_sums.entry(track_uuid).or_default();
                *sum += value;
                MetricValue::Float(*sum * factor as f64)
            }
            MetricValue::Int(value) => MetricValue::Int(value.saturating_mul(factor)),
            MetricValue::Float(value) => MetricValue::Float(value * factor as f64),
            other => other,
        };
        let counters =
            |events: &mut Self| events.tracks.counter_thread(place.process, events.import);
        let thread_id = place.around.unwrap_or_else(|| counters(self));
        let context_id = match event.r#type {
            Some(COUNTER) => self.stack(sequence, event),
            _ => None,
        };
        self.import.run.add_metric(&Metric {
            time_nanos,
            thread_id,
            context_id: context_id.unwrap_or(Assembler::ROOT),
            name_id,
            sessions: 0,
            phase: 0,
            value,
        })
    }
}

/// The track that an event is on, if it is on one.
fn track_uuid(sequence: &Sequence, event: &TrackEvent) -> Option<u64> {
    let default = || sequence.defaults.as_ref()?.track_event.as_ref()?.track_uuid;
    event.track_uuid.or_else(default)
}
