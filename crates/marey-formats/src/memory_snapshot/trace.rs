//! The actions of an allocator, and the program's annotations.

use std::sync::{Arc, LazyLock};

use marey_store::row::{Instant, InstantScope, MemoryAction, MemoryEvent};

use super::{Read, Snapshot};
use crate::shared::pickle::{Fields, Row, Value, ValueError, context};

static CUDA: LazyLock<Arc<str>> = LazyLock::new(|| "cuda".into());
static CPU: LazyLock<Arc<str>> = LazyLock::new(|| "cpu".into());

impl Snapshot<'_> {
    /// Reads an entry in the trace of a device, or of pinned host memory.
    pub(super) fn trace_entry(&mut self, row: Row, device: Option<u32>) -> Read {
        let values = &mut self.pickle.values;
        let mut fields = match Fields::of(values, row.value) {
            Ok(fields) => fields,
            Err(reason) => return Ok(Err(reason)),
        };
        let frames = fields.take(values, "frames", Some).unwrap_or(Value::None);
        let (context_id, stack) = context(values, frames, &mut self.import.run);
        let (Some(word), Some(bytes)) = (fields.name(values, "action"), fields.int(values, "size"))
        else {
            return Ok(Err(ValueError::MissingField));
        };
        let action = match word {
            "free_completed" => MemoryAction::Free,
            word => MemoryAction::of(word),
        };
        let address = fields.int(values, "addr").map(|address| address as u64);
        let stream = fields.int(values, "stream").map(|stream| stream as u64);
        let category = fields.name(values, "category");
        let category_id = category.map(|category| self.import.run.text(category));
        let micros = fields.int(values, "time_us");

        let run = &mut self.import.run;
        self.args.clear();
        if action == MemoryAction::Other {
            self.args.text("action", word);
        }
        let remaining = fields.add_to_args(values, "", &mut self.args);
        let time_nanos = micros.map_or(self.timeless_events, |micros| micros.saturating_mul(1000));
        self.timeless_events += i64::from(micros.is_none());
        self.last_nanos = self.last_nanos.max(time_nanos);
        if action == MemoryAction::Snapshot {
            self.taken_nanos = self.taken_nanos.max(Some(time_nanos));
        }
        let args = run.args(&mut self.args)?;
        run.add_memory_event(&MemoryEvent {
            time_nanos,
            process_id: self.process,
            thread_id: None,
            action,
            device_type: Arc::clone(if device.is_some() { &CUDA } else { &CPU }),
            device,
            stream,
            address,
            bytes,
            allocated_bytes: None,
            reserved_bytes: None,
            context_id,
            category_id,
            args,
        })?;
        Ok(stack.and(remaining))
    }

    /// Reads an annotation, which `record_function` adds at the start and end of a region.
    pub(super) fn annotation(&mut self, row: Row) -> Read {
        let values = &self.pickle.values;
        let mut fields = match Fields::of(values, row.value) {
            Ok(fields) => fields,
            Err(reason) => return Ok(Err(reason)),
        };
        let (Some(name), Some(micros)) =
            (fields.name(values, "name"), fields.int(values, "time_us"))
        else {
            return Ok(Err(ValueError::MissingField));
        };
        let run = &mut self.import.run;
        self.args.clear();
        let remaining = fields.add_to_args(values, "", &mut self.args);
        let name_id = run.text(name);
        let args = run.args(&mut self.args)?;
        run.add_instant(&Instant {
            time_nanos: micros.saturating_mul(1000),
            process_id: self.process,
            thread_id: None,
            scope: InstantScope::Process,
            name_id,
            category_id: None,
            args,
        })?;
        Ok(remaining)
    }
}
