//! Adds the events of a spool that are not spans: values, activities, counters, samples, variables
//! and collectives.

use std::sync::Arc;

use marey_model::memory::READING_LENGTH;
use marey_model::metric::MetricValue;
use marey_model::spool::{self, Activity, RecordedValue};

use super::Events;
use crate::StoreError;
use crate::collect::outline::{MeasuredMemory, OutlineNode};
use crate::collect::rows::ValueRow;
use crate::columns::saturating_i64;
use crate::row::{self, GpuActivity, MemoryAction, MemoryEvent};

impl Events<'_> {
    pub(super) fn add_values(
        &mut self,
        thread: u32,
        sessions: u64,
        values: Vec<RecordedValue>,
    ) -> Result<(), StoreError> {
        let Some(nodes) = self.outline.threads.get(thread).map(|thread| &thread.nodes) else {
            return Ok(());
        };
        let stamp = self.stamp(sessions, false);
        for RecordedValue { node_id, time_nanos, name_id: spool_name_id, value } in values {
            let (Some(&node), Some(&name_id)) =
                (nodes.get(node_id), self.outline.texts.get(spool_name_id))
            else {
                continue;
            };
            let time_nanos = self.clock.unix_nanos(time_nanos, &mut self.clock_line);
            if let Some(memory) = self.outline.memories.get(&spool_name_id)
                && let MetricValue::Ints(totals) = &value
                && let Ok(totals) = totals.as_slice().try_into()
            {
                let node = self.outline.nodes[node as usize];
                self.rows.readings.push(&reading_row(
                    memory,
                    totals,
                    time_nanos,
                    node,
                    self.process_id,
                ))?;
                continue;
            }
            self.rows.values.push(&ValueRow { time_nanos, node, stamp, name_id, value })?;
        }
        Ok(())
    }

    pub(super) fn add_activities(&mut self, activities: &[Activity]) -> Result<(), StoreError> {
        for activity in activities {
            let Some(shape) = self.shapes.get(activity.shape_id) else { continue };
            let context_id = activity.launch.and_then(|(thread, node)| {
                let node = *self.outline.threads.get(thread)?.nodes.get(node)?;
                Some(self.outline.nodes[node as usize].context_id)
            });
            let start_nanos = self.clock.unix_nanos(activity.start_nanos, &mut self.clock_line);
            // The duration was measured by the device's clock, so the drift of the recorder's clock
            // does not apply.
            let duration_nanos = saturating_i64(activity.duration_nanos);
            let correlation_id = activity.correlation_id;
            self.rows.activities.push(&GpuActivity {
                start_nanos,
                duration_nanos,
                context_id,
                correlation_id: (correlation_id > 0).then_some(correlation_id.into()),
                bytes: (activity.bytes > 0).then(|| saturating_i64(activity.bytes)),
                ..shape.clone()
            })?;
        }
        Ok(())
    }

    pub(super) fn add_counters(&mut self, counters: &[spool::Counter]) -> Result<(), StoreError> {
        for &spool::Counter { time_nanos, name_id: spool_name_id, device, value } in counters {
            let Some(&name_id) = self.outline.texts.get(spool_name_id) else { continue };
            let time_nanos = self.clock.unix_nanos(time_nanos, &mut self.clock_line);
            let process_id = self.process_id;
            self.rows.counters.push(&row::Counter {
                time_nanos,
                process_id,
                device,
                name_id,
                value,
            })?;
        }
        Ok(())
    }

    pub(super) fn add_samples(
        &mut self,
        thread: u32,
        samples: &[spool::Sample],
    ) -> Result<(), StoreError> {
        let Some(thread) = self.outline.threads.get(thread) else { return Ok(()) };
        let Some(name_id) = self.outline.sample_name_id else { return Ok(()) };
        for sample in samples {
            let Some(&node) = thread.nodes.get(sample.node_id) else { continue };
            let sampled_thread = self.outline.threads.newest(sample.os_id);
            let cause = format!(r#"{{"cause":"{}"}}"#, sample.cause.as_str());
            let text_id = Some(self.windows.arg_texts.position(cause));
            let time_nanos = self.clock.unix_nanos(sample.time_nanos, &mut self.clock_line);
            self.rows.samples.push(&row::Sample {
                process_id: self.process_id,
                thread_id: sampled_thread.map(|thread| thread.position),
                context_id: self.outline.nodes[node as usize].context_id,
                name_id,
                time_nanos: Some(time_nanos),
                value: MetricValue::Int(sample.duration_nanos.cast_signed()),
                args: row::Args { text_id, ..row::Args::default() },
            })?;
        }
        Ok(())
    }

    pub(super) fn add_variables(
        &mut self,
        variables: Vec<spool::Variable>,
    ) -> Result<(), StoreError> {
        for variable in variables {
            let text_id = |spool_id: u32| self.outline.texts.get(spool_id).copied();
            let (Some(file_id), Some(function_id), Some(name_id), Some(type_id)) = (
                text_id(variable.file_id),
                text_id(variable.function_id),
                text_id(variable.name_id),
                text_id(variable.type_id),
            ) else {
                continue;
            };
            let thread = self.outline.threads.newest(variable.os_id);
            self.rows.variables.push(&row::Variable {
                time_nanos: self.clock.unix_nanos(variable.time_nanos, &mut self.clock_line),
                process_id: self.process_id,
                thread_id: thread.map(|thread| thread.position),
                file_id,
                function_id,
                line: variable.line,
                name_id,
                type_id,
                value: variable.value,
            })?;
        }
        Ok(())
    }

    pub(super) fn add_collectives(
        &mut self,
        collectives: &[spool::Collective],
    ) -> Result<(), StoreError> {
        let text_id = |spool_id: u32| self.outline.texts.get(spool_id).copied();
        for collective in collectives {
            let name_ids = (text_id(collective.name_id), text_id(collective.group_id));
            let (Some(name_id), Some(group_id)) = name_ids else { continue };
            let started_nanos = collective.started_unix_nanos;
            self.rows.collectives.push(&row::Collective {
                start_nanos: started_nanos.unwrap_or(collective.created_unix_nanos),
                duration_nanos: collective.duration_nanos.map(|nanos| nanos.cast_signed().max(0)),
                created_nanos: Some(collective.created_unix_nanos),
                process_id: self.process_id,
                device: None,
                stream: None,
                name_id,
                group_id,
                group_ranks_id: collective.group_ranks_id.and_then(text_id),
                group_size: collective.group_size,
                sequence: collective.sequence.map(u64::cast_signed),
                dtype_id: collective.dtype_id.and_then(text_id),
                in_elements: collective.in_elements.map(u64::cast_signed),
                out_elements: collective.out_elements.map(u64::cast_signed),
                state: match collective.state {
                    spool::CollectiveState::Scheduled => row::CollectiveState::Scheduled,
                    spool::CollectiveState::Started => row::CollectiveState::Started,
                    spool::CollectiveState::Completed => row::CollectiveState::Completed,
                },
                is_p2p: collective.is_p2p,
                context_id: None,
                args: row::Args::default(),
            })?;
        }
        Ok(())
    }
}

/// Returns the row of a reading. Its thread is a position among the threads of the spool.
fn reading_row(
    memory: &MeasuredMemory,
    totals: [i64; READING_LENGTH],
    time_nanos: i64,
    node: OutlineNode,
    process_id: u32,
) -> MemoryEvent {
    let [allocated_bytes, peak_bytes, reserved_bytes] =
        totals.map(|bytes| Some(bytes).filter(|&bytes| bytes >= 0));
    let device_type = Arc::clone(&memory.device_type);
    MemoryEvent {
        thread_id: Some(node.thread),
        device: memory.device,
        allocated_bytes,
        reserved_bytes,
        peak_bytes,
        context_id: Some(node.context_id),
        ..MemoryEvent::new(process_id, device_type, MemoryAction::Reading, time_nanos, 0)
    }
}
