//! Converts events in the legacy form, which has the letters of the phases of Chrome's JSON as
//! types.

use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_store::row::{FlowPoint, InstantScope, Metric};
use marey_store::{Assembler, StoreError};

use super::EventConverter;
use super::annotations;
use super::event::EventHeader;
use super::open::StackKey;
use super::sequence::Sequence;
use crate::perfetto::message::{DebugAnnotation, LegacyEvent, TrackEvent};

impl EventConverter<'_> {
    pub(super) fn add_legacy_event(
        &mut self,
        sequence: &Sequence,
        header: EventHeader,
        event: &TrackEvent,
        legacy: &LegacyEvent,
    ) -> Result<(), StoreError> {
        let phase = legacy.phase.and_then(|phase| u8::try_from(phase).ok()).unwrap_or(0);
        self.add_bound_flow(&header, legacy)?;
        match phase {
            b'B' => self.begin_slice(sequence, &header, event),
            b'E' => self.end_slice(sequence, &header, event),
            b'X' => {
                let duration_nanos = legacy.duration_us.unwrap_or(0).saturating_mul(1000);
                let end_nanos = header.time_nanos.saturating_add(duration_nanos);
                let mut open_slice = self.open_slice(sequence, &header, event)?;
                if let Some(duration_us) = legacy.thread_duration_us {
                    open_slice.args.int("thread_duration_us", duration_us);
                }
                self.finish_slice(open_slice, end_nanos)
            }
            b'i' | b'I' | b'R' => {
                let scope = match legacy.instant_event_scope {
                    Some(1) => Some(InstantScope::Global),
                    Some(2) => Some(InstantScope::Process),
                    Some(3) => Some(InstantScope::Thread),
                    _ => None,
                };
                self.add_instant(sequence, &header, event, scope)
            }
            b'n' | b'T' | b'p' => {
                self.add_instant(sequence, &header, event, Some(InstantScope::Process))
            }
            b'b' | b'S' => self.begin_async_slice(sequence, header, event, legacy),
            b'e' | b'F' => {
                let stack_key = async_stack_key(&header, legacy);
                self.end_slice(sequence, &EventHeader { stack_key, ..header }, event)
            }
            b's' => self.add_flow(&header, event_id(legacy), FlowPoint::Start, true),
            b't' => self.add_flow(&header, event_id(legacy), FlowPoint::Step, true),
            b'f' => {
                let is_enclosing = legacy.bind_to_enclosing == Some(true);
                self.add_flow(&header, event_id(legacy), FlowPoint::End, is_enclosing)
            }
            b'C' => self.add_legacy_counter(sequence, &header, event),
            _ => {
                let cause = format!("an event of phase `{}`", char::from(phase).escape_default());
                self.lose(LossCause::Unsupported, cause);
                Ok(())
            }
        }
    }

    /// Adds the flow point that an event of any phase may carry.
    fn add_bound_flow(
        &mut self,
        header: &EventHeader,
        legacy: &LegacyEvent,
    ) -> Result<(), StoreError> {
        let point = match legacy.flow_direction {
            Some(1) => FlowPoint::End,
            Some(2) => FlowPoint::Start,
            Some(3) => FlowPoint::Step,
            _ => return Ok(()),
        };
        self.add_flow(header, legacy.bind_id.unwrap_or(0), point, true)
    }

    fn begin_async_slice(
        &mut self,
        sequence: &Sequence,
        header: EventHeader,
        event: &TrackEvent,
        legacy: &LegacyEvent,
    ) -> Result<(), StoreError> {
        let stack_key = async_stack_key(&header, legacy);
        let scope = legacy.id_scope.as_deref().unwrap_or_default();
        let separator = if scope.is_empty() { "" } else { ":" };
        let track = format!("{scope}{separator}{:#x}", event_id(legacy));
        let mut header = header;
        header.owner.name_id = Some(self.import.run.text_id(&track));
        (header.owner.thread_id, header.owner.enclosing_thread_id) = (None, None);
        let open_slice = self.open_slice(sequence, &header, event)?;
        self.open_slices.entry(stack_key).or_default().push(open_slice);
        Ok(())
    }

    /// Adds a counter whose values are its arguments.
    fn add_legacy_counter(
        &mut self,
        sequence: &Sequence,
        header: &EventHeader,
        event: &TrackEvent,
    ) -> Result<(), StoreError> {
        let thread_id = self.tracks.counter_thread(header.owner.process_id, self.import);
        let iid = event.name_iid.or(event.legacy_event.as_ref().and_then(|legacy| legacy.name_iid));
        let interned = || sequence.interned().names.get(&iid?).map(|name| &*name.0);
        let name = event.name.as_deref().or_else(interned).unwrap_or_default();
        for annotation in &event.debug_annotations {
            let value = match *annotation {
                DebugAnnotation { int_value: Some(value), .. } => MetricValue::Int(value),
                DebugAnnotation { uint_value: Some(value), .. } => {
                    i64::try_from(value).map_or(MetricValue::Float(value as f64), MetricValue::Int)
                }
                DebugAnnotation { double_value: Some(value), .. } => MetricValue::Float(value),
                _ => {
                    self.lose(LossCause::Unsupported, "a counter value that is not a number");
                    continue;
                }
            };
            let key = annotations::name(annotation, sequence);
            let is_only_series = key.is_empty() || key == "value";
            let name = if is_only_series { name.to_owned() } else { format!("{name} {key}") };
            let name_id = self.import.run.text_id(&name);
            let row = Metric::new(thread_id, Assembler::ROOT, name_id, header.time_nanos, value);
            self.import.run.add_metric(&row)?;
        }
        Ok(())
    }
}

/// Returns the id of an event, global or local.
fn event_id(legacy: &LegacyEvent) -> u64 {
    legacy.unscoped_id.or(legacy.global_id).or(legacy.local_id).unwrap_or(0)
}

/// Returns the stack of an asynchronous slice. A local id belongs to a process.
fn async_stack_key(header: &EventHeader, legacy: &LegacyEvent) -> StackKey {
    let process = legacy.local_id.map(|_| header.owner.process_id);
    let scope = legacy.id_scope.clone().unwrap_or_default();
    StackKey::Async(process, header.category_id, scope, event_id(legacy))
}
