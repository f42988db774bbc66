//! Converts the memory events of PyTorch's allocator, which Kineto writes as instants, to rows.

use marey_model::args::NewArgs;
use marey_store::row::{MemoryAction, MemoryEvent};

use super::event::Event;
use super::number::parse_integer;
use super::threads::ThreadIds;
use crate::shared::import::{Import, ReaderError};
use crate::shared::trace_json::rows::DEVICE_TYPES;

/// Returns the action of an instant if it is a memory event.
pub(super) fn action(event: &Event) -> Option<MemoryAction> {
    let action = match &*event.name() {
        "[memory]" => MemoryAction::Alloc,
        "[OutOfMemory]" => MemoryAction::OutOfMemory,
        _ => return None,
    };
    event.arg("Bytes").and_then(parse_integer).map(|_| action)
}

/// Adds a memory event. A negative size is a free.
pub(super) fn add(
    event: &Event,
    action: MemoryAction,
    time_nanos: i64,
    owner: ThreadIds,
    args: &mut NewArgs,
    import: &mut Import,
) -> Result<(), ReaderError> {
    let mut row = MemoryEvent {
        thread_id: Some(owner.thread_id),
        category_id: event.category().map(|category| import.run.text_id(&category)),
        ..MemoryEvent::new(owner.process_id, "".into(), action, time_nanos, 0)
    };
    for (key, value) in event.args() {
        match (&*key, parse_integer(value)) {
            ("Bytes", Some(bytes)) => row.bytes = bytes,
            ("Device Type", Some(number)) => row.device_type = device_type(number).into(),
            ("Device Id", Some(number)) => row.device = number.try_into().ok(),
            ("Addr", Some(address)) => row.address = Some(address.cast_unsigned()),
            ("Addr", None) if value.parse::<u64>().is_ok() => row.address = value.parse().ok(),
            ("Stream", Some(stream)) => row.stream = Some(stream.cast_unsigned()),
            ("Total Allocated", Some(bytes)) => row.allocated_bytes = Some(bytes),
            ("Total Reserved", Some(bytes)) => row.reserved_bytes = Some(bytes),
            _ => event.add_arg(&key, value, args),
        }
    }
    if row.bytes < 0 && action == MemoryAction::Alloc {
        row.action = MemoryAction::Free;
        row.bytes = row.bytes.saturating_neg();
    }
    row.args = import.run.args(args)?;
    import.run.add_memory_event(&row)?;
    Ok(())
}

/// Returns `PyTorch`'s name of a device type.
fn device_type(number: i64) -> String {
    let known_name = usize::try_from(number).ok().and_then(|number| DEVICE_TYPES.get(number));
    known_name.map_or_else(|| number.to_string(), |word| (*word).to_owned())
}
