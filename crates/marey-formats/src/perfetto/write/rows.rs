//! Converts rows to track events.

use marey_model::context::NodeKind;
use marey_model::metric::MetricValue;
use marey_store::row::{
    AsyncSpan, Counter, Flow, FlowPoint, GpuActivity, Instant, InstantScope, MemoryEvent, Metric,
    Sample, Span,
};

use super::Writer;
use super::annotations::Extras;
use super::packets::Packets;
use super::tracks::TrackKey;
use crate::perfetto::message::{TYPE_COUNTER, TYPE_INSTANT, TrackEvent};
use crate::perfetto::{launch_flow_id, mix_bits};
use crate::shared::export::ExportError;

impl Writer<'_> {
    pub(super) fn write_span(&mut self, span: &Span) -> Result<(), ExportError> {
        let Self { reader, packets, tracks, launches, steps } = self;
        let kind = reader.context(span.context_id).kind;
        let process_id = reader.thread(span.thread_id).map_or(0, |thread| thread.process_id);
        let flow_id = span.correlation_id.and_then(|correlation_id| {
            let launch = launches.get_mut(&(process_id, correlation_id))?;
            let is_first = !std::mem::replace(&mut launch.has_flow_start, true);
            is_first.then(|| launch_flow_id(tracks.pid(process_id), correlation_id))
        });
        let mut extras = Extras::default();
        if kind != NodeKind::Scope {
            extras.text("kind", kind.as_str());
        }
        let step = steps.get(&(span.thread_id, span.start_nanos, span.context_id));
        extras.uint("step", step.filter(|_| kind == NodeKind::Step).map(|&step| step.into()));
        extras.uint("external_id", span.external_id).flag("is_open", span.is_open);
        let start_and_duration_nanos = (span.start_nanos, span.duration_nanos);
        tracks.write_slice(
            &TrackKey::Thread(span.thread_id),
            start_and_duration_nanos,
            packets,
            |packets, is_main| {
                extras.flag("is_of_thread", !is_main);
                TrackEvent {
                    correlation_id: span.correlation_id,
                    flow_ids: flow_id.into_iter().collect(),
                    debug_annotations: packets.annotations(extras, &span.args),
                    ..named_event(packets, span.name_id, span.category_id)
                }
            },
        )?;
        Ok(())
    }

    pub(super) fn write_activity(&mut self, row: &GpuActivity) -> Result<(), ExportError> {
        let Self { packets, tracks, launches, .. } = self;
        let mut extras = Extras::default();
        extras
            .text("activity", row.kind.as_str())
            .uint("device", u64::from(row.device))
            .uint("stream", u64::from(row.stream))
            .uint("graph_node_id", row.graph_node_id)
            .dimensions("grid", row.grid)
            .dimensions("block", row.block)
            .uint("registers", row.registers.map(u64::from))
            .int("shared_bytes", row.shared_bytes)
            .int("bytes", row.bytes)
            .uint("external_id", row.external_id);
        let (mut flow_ids, mut terminating_flow_ids) = (Vec::new(), Vec::new());
        if let Some(correlation_id) = row.correlation_id
            && let Some(launch) = launches.get_mut(&(row.process_id, correlation_id))
        {
            launch.unwritten_activities = launch.unwritten_activities.saturating_sub(1);
            if launch.has_flow_start {
                let flow_id = launch_flow_id(tracks.pid(row.process_id), correlation_id);
                let is_last = launch.unwritten_activities == 0;
                if is_last { &mut terminating_flow_ids } else { &mut flow_ids }.push(flow_id);
            }
        }
        let key = TrackKey::Stream(row.process_id, row.device, row.stream);
        let start_and_duration_nanos = (row.start_nanos, row.duration_nanos);
        tracks.write_slice(&key, start_and_duration_nanos, packets, |packets, _| TrackEvent {
            correlation_id: row.correlation_id,
            flow_ids,
            terminating_flow_ids,
            callstack_iid: row.context_id.and_then(|context| packets.intern_stack(context)),
            debug_annotations: packets.annotations(extras, &row.args),
            ..named_event(packets, row.name_id, row.category_id)
        })?;
        Ok(())
    }

    pub(super) fn write_async_span(&mut self, row: &AsyncSpan) -> Result<(), ExportError> {
        let Self { packets, tracks, .. } = self;
        let mut extras = Extras::default();
        extras.flag("is_open", row.is_open);
        let key = TrackKey::Async(row.process_id, row.track_id);
        let start_and_duration_nanos = (row.start_nanos, row.duration_nanos);
        tracks.write_slice(&key, start_and_duration_nanos, packets, |packets, _| TrackEvent {
            debug_annotations: packets.annotations(extras, &row.args),
            ..named_event(packets, row.name_id, row.category_id)
        })?;
        Ok(())
    }

    pub(super) fn write_instant(&mut self, row: &Instant) -> Result<(), ExportError> {
        let (key, default_scope) = match row.thread_id {
            Some(thread) => (TrackKey::Thread(thread), InstantScope::Thread),
            None => (TrackKey::Process(row.process_id), InstantScope::Process),
        };
        let mut extras = Extras::default();
        if row.scope != default_scope {
            extras.text("scope", row.scope.as_str());
        }
        let event = TrackEvent {
            debug_annotations: self.packets.annotations(extras, &row.args),
            ..named_event(&mut self.packets, row.name_id, row.category_id)
        };
        self.write_point(TYPE_INSTANT, &key, row.time_nanos, event)
    }

    pub(super) fn write_flow(&mut self, row: &Flow) -> Result<(), ExportError> {
        // Flows of different ranks are unrelated, so the rank is part of the id.
        let thread = self.reader.thread(row.thread_id);
        let process = thread.and_then(|thread| self.reader.process(thread.process_id));
        let rank = process.and_then(|process| process.rank).unwrap_or(-1);
        let category = row.category_id.map_or(0, |category| u64::from(category) + 1);
        let flow_id = mix_bits(mix_bits(rank.cast_unsigned() ^ (category << 32)) ^ row.flow_id);
        let (flow_ids, terminating_flow_ids) = match row.point {
            FlowPoint::Start | FlowPoint::Step => (vec![flow_id], Vec::new()),
            FlowPoint::End => (Vec::new(), vec![flow_id]),
        };
        let mut extras = Extras::default();
        extras.text("flow", row.point.as_str()).uint("flow_id", row.flow_id);
        extras.flag("is_enclosing", row.is_enclosing);
        let event = TrackEvent {
            flow_ids,
            terminating_flow_ids,
            debug_annotations: self.packets.annotations(extras, &row.args),
            ..named_event(&mut self.packets, row.name_id, row.category_id)
        };
        self.write_point(TYPE_INSTANT, &TrackKey::Thread(row.thread_id), row.time_nanos, event)
    }

    /// Writes a value of a metric as a counter event. For a value that is no single number, the
    /// event has no value.
    pub(super) fn write_metric(&mut self, row: &Metric) -> Result<(), ExportError> {
        let (counter_value, double_counter_value) = split_number(&row.value);
        let stack = self.packets.intern_stack(row.context_id);
        let key = TrackKey::Counter(row.thread_id, row.name_id);
        self.write_point(
            TYPE_COUNTER,
            &key,
            row.time_nanos,
            TrackEvent {
                counter_value,
                double_counter_value,
                callstack_iid: stack,
                ..TrackEvent::default()
            },
        )
    }

    /// Writes a value of a device counter.
    pub(super) fn write_counter(&mut self, row: &Counter) -> Result<(), ExportError> {
        let key = TrackKey::DeviceCounter(row.process_id, row.device, row.name_id);
        let double_counter_value = Some(row.value);
        let event = TrackEvent { double_counter_value, ..TrackEvent::default() };
        self.write_point(TYPE_COUNTER, &key, row.time_nanos, event)
    }

    /// Writes a sample. Values that are not a number are skipped.
    pub(super) fn write_sample(&mut self, row: &Sample) -> Result<(), ExportError> {
        let mut extras = Extras::default();
        let weight = match row.value {
            MetricValue::Int(value) => {
                extras.int("sample", value);
                value as f64
            }
            MetricValue::Float(value) => {
                extras.float("sample", value);
                value
            }
            MetricValue::Text(_) | MetricValue::Ints(_) | MetricValue::Floats(_) => return Ok(()),
        };
        extras.flag("has_no_time", row.time_nanos.is_none());
        let stack = self.packets.intern_stack(row.context_id);
        let event = TrackEvent {
            callstack_iid: stack,
            callstack_weight: stack.map(|_| weight),
            debug_annotations: self.packets.annotations(extras, &row.args),
            ..named_event(&mut self.packets, row.name_id, None)
        };
        let key = TrackKey::Samples(row.process_id, row.thread_id);
        self.write_point(TYPE_INSTANT, &key, row.time_nanos.unwrap_or(i64::MIN), event)
    }

    pub(super) fn write_memory_event(&mut self, row: &MemoryEvent) -> Result<(), ExportError> {
        let device = row.device.map_or(String::new(), |device| format!(" {device}"));
        let memory = format!("memory {}{device}", row.device_type);
        let sums = [("allocated", row.allocated_bytes), ("reserved", row.reserved_bytes)];
        for (name, bytes) in sums {
            if bytes.is_some() {
                let name = format!("{memory} {name} (bytes)");
                let key = TrackKey::MemoryCounter(row.process_id, name);
                let event = TrackEvent { counter_value: bytes, ..TrackEvent::default() };
                self.write_point(TYPE_COUNTER, &key, row.time_nanos, event)?;
            }
        }
        let thread =
            row.thread_id.map(|id| self.tracks.uuid(&TrackKey::Thread(id), &mut self.packets));
        let mut extras = Extras::default();
        extras
            .text("memory", row.action.as_str())
            .text("device_type", &row.device_type)
            .uint("thread_track", thread.transpose()?)
            .uint("device", row.device.map(u64::from))
            .uint("stream", row.stream)
            .uint("address", row.address)
            .int("bytes", row.bytes)
            .int("allocated_bytes", row.allocated_bytes)
            .int("reserved_bytes", row.reserved_bytes)
            .int("peak_bytes", row.peak_bytes);
        let event = TrackEvent {
            name: Some(row.action.as_str().to_owned()),
            category_iids: category_iids(&mut self.packets, row.category_id),
            callstack_iid: row.context_id.and_then(|context| self.packets.intern_stack(context)),
            debug_annotations: self.packets.annotations(extras, &row.args),
            ..TrackEvent::default()
        };
        self.write_point(
            TYPE_INSTANT,
            &TrackKey::Memory(row.process_id, memory),
            row.time_nanos,
            event,
        )
    }

    /// Writes an event at a point in time: an instant or a counter value.
    fn write_point(
        &mut self,
        r#type: i32,
        key: &TrackKey,
        nanos: i64,
        event: TrackEvent,
    ) -> Result<(), ExportError> {
        let track_uuid = Some(self.tracks.uuid(key, &mut self.packets)?);
        let event = TrackEvent { r#type: Some(r#type), track_uuid, ..event };
        Ok(self.packets.write_event(nanos, event)?)
    }
}

/// Returns an event with its name and category.
fn named_event(packets: &mut Packets, name_id: u32, category_id: Option<u32>) -> TrackEvent {
    TrackEvent {
        name_iid: Some(packets.intern_name(name_id)),
        category_iids: category_iids(packets, category_id),
        ..TrackEvent::default()
    }
}

fn category_iids(packets: &mut Packets, category_id: Option<u32>) -> Vec<u64> {
    category_id.into_iter().map(|category| packets.intern_category(category)).collect()
}

/// Returns a value as an integer or as a float, whichever it is.
fn split_number(value: &MetricValue) -> (Option<i64>, Option<f64>) {
    match *value {
        MetricValue::Int(value) => (Some(value), None),
        MetricValue::Float(value) => (None, Some(value)),
        MetricValue::Text(_) | MetricValue::Ints(_) | MetricValue::Floats(_) => (None, None),
    }
}
