//! Reads the actions of an allocator, and the annotations of the program.

use std::sync::{Arc, LazyLock};

use marey_store::row::{Instant, MemoryAction, MemoryEvent};

use super::Snapshot;
use crate::shared::pickle::{ElementError, Fields, Row, Value, ValueError, Values, stack_context};

static CUDA: LazyLock<Arc<str>> = LazyLock::new(|| "cuda".into());
static CPU: LazyLock<Arc<str>> = LazyLock::new(|| "cpu".into());

impl Snapshot<'_> {
    /// Adds an entry in the trace of a device, or of pinned host memory.
    pub(super) fn add_trace_entry(
        &mut self,
        values: &mut Values,
        row: Row,
        device: Option<u32>,
    ) -> Result<(), ElementError> {
        let mut fields = Fields::from_dict(values, row.value)?;
        let frames = fields.take(values, "frames", Some).unwrap_or(Value::None);
        let (context_id, stack_result) = stack_context(values, frames, &mut self.import.run);
        let action_name = fields.take_name(values, "action").ok_or(ValueError::MissingField)?;
        let bytes = fields.take_int(values, "size").ok_or(ValueError::MissingField)?;
        let action = match action_name {
            "free_completed" => MemoryAction::Free,
            name => MemoryAction::of(name),
        };
        let address = fields.take_int(values, "addr").map(|address| address as u64);
        let stream = fields.take_int(values, "stream").map(|stream| stream as u64);
        let category = fields.take_name(values, "category");
        let category_id = category.map(|category| self.import.run.text_id(category));
        let time_micros = fields.take_int(values, "time_us");

        let run = &mut self.import.run;
        self.args.clear();
        if action == MemoryAction::Other {
            self.args.text("action", action_name);
        }
        let args_result = fields.add_to_args(values, "", &mut self.args);
        let time_nanos = time_micros
            .map_or(self.events_without_time, |time_micros| time_micros.saturating_mul(1000));
        self.events_without_time += i64::from(time_micros.is_none());
        self.last_nanos = self.last_nanos.max(time_nanos);
        if action == MemoryAction::Snapshot {
            self.captured_nanos = self.captured_nanos.max(Some(time_nanos));
        }
        let args = run.args(&mut self.args)?;
        let device_type = Arc::clone(if device.is_some() { &CUDA } else { &CPU });
        run.add_memory_event(&MemoryEvent {
            device,
            stream,
            address,
            context_id,
            category_id,
            args,
            ..MemoryEvent::new(self.process_id, device_type, action, time_nanos, bytes)
        })?;
        Ok(stack_result.and(args_result)?)
    }

    /// Adds an annotation, which `record_function` writes at the start and end of a region.
    pub(super) fn add_annotation(&mut self, values: &Values, row: Row) -> Result<(), ElementError> {
        let mut fields = Fields::from_dict(values, row.value)?;
        let name = fields.take_name(values, "name").ok_or(ValueError::MissingField)?;
        let time_micros = fields.take_int(values, "time_us").ok_or(ValueError::MissingField)?;
        let run = &mut self.import.run;
        self.args.clear();
        let args_result = fields.add_to_args(values, "", &mut self.args);
        let name_id = run.text_id(name);
        let args = run.args(&mut self.args)?;
        let time_nanos = time_micros.saturating_mul(1000);
        let row = Instant::new(self.process_id, name_id, time_nanos);
        run.add_instant(&Instant { args, ..row })?;
        Ok(args_result?)
    }
}
