//! Events in the form of Chrome's JSON: a letter says what they are.

use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_store::row::{FlowPoint, InstantScope, Metric};
use marey_store::{Assembler, StoreError};

use super::Events;
use super::annotations;
use super::event::Head;
use super::open::Stack;
use super::sequence::Sequence;
use crate::perfetto::message::{DebugAnnotation, LegacyEvent, TrackEvent};

impl Events<'_> {
    pub(super) fn legacy_event(
        &mut self,
        sequence: &Sequence,
        head: Head,
        event: &TrackEvent,
        legacy: &LegacyEvent,
    ) -> Result<(), StoreError> {
        let phase = legacy.phase.and_then(|phase| u8::try_from(phase).ok()).unwrap_or(0);
        self.bound_flow(&head, legacy)?;
        match phase {
            b'B' => self.begin(sequence, &head, event),
            b'E' => self.slice_end(sequence, &head, event),
            b'X' => {
                let duration_nanos = legacy.duration_us.unwrap_or(0).saturating_mul(1000);
                let end_nanos = head.time_nanos.saturating_add(duration_nanos);
                let mut open = self.beginning(sequence, &head, event)?;
                if let Some(duration_us) = legacy.thread_duration_us {
                    open.args.int("thread_duration_us", duration_us);
                }
                self.end(open, end_nanos)
            }
            b'i' | b'I' | b'R' => {
                let scope = match legacy.instant_event_scope {
                    Some(1) => Some(InstantScope::Global),
                    Some(2) => Some(InstantScope::Process),
                    Some(3) => Some(InstantScope::Thread),
                    _ => None,
                };
                self.instant(sequence, &head, event, scope)
            }
            b'n' | b'T' | b'p' => self.instant(sequence, &head, event, Some(InstantScope::Process)),
            b'b' | b'S' => self.async_begin(sequence, head, event, legacy),
            b'e' | b'F' => {
                let stack = async_stack(&head, legacy);
                self.slice_end(sequence, &Head { stack, ..head }, event)
            }
            b's' => self.flow(&head, id(legacy), FlowPoint::Start, true),
            b't' => self.flow(&head, id(legacy), FlowPoint::Step, true),
            b'f' => {
                let is_enclosing = legacy.bind_to_enclosing == Some(true);
                self.flow(&head, id(legacy), FlowPoint::End, is_enclosing)
            }
            b'C' => self.legacy_counter(sequence, &head, event),
            _ => {
                let cause = format!("an event of phase `{}`", char::from(phase).escape_default());
                self.lose(LossCause::Unsupported, cause);
                Ok(())
            }
        }
    }

    /// Adds the flow that an event of any phase may begin or end.
    fn bound_flow(&mut self, head: &Head, legacy: &LegacyEvent) -> Result<(), StoreError> {
        let point = match legacy.flow_direction {
            Some(1) => FlowPoint::End,
            Some(2) => FlowPoint::Start,
            Some(3) => FlowPoint::Step,
            _ => return Ok(()),
        };
        self.flow(head, legacy.bind_id.unwrap_or(0), point, true)
    }

    fn async_begin(
        &mut self,
        sequence: &Sequence,
        head: Head,
        event: &TrackEvent,
        legacy: &LegacyEvent,
    ) -> Result<(), StoreError> {
        let stack = async_stack(&head, legacy);
        let scope = legacy.id_scope.as_deref().unwrap_or_default();
        let separator = if scope.is_empty() { "" } else { ":" };
        let track = format!("{scope}{separator}{:#x}", id(legacy));
        let mut head = head;
        head.place.name_id = Some(self.import.run.text(&track));
        (head.place.thread, head.place.around) = (None, None);
        let open = self.beginning(sequence, &head, event)?;
        self.open.entry(stack).or_default().push(open);
        Ok(())
    }

    /// A counter whose values are its arguments.
    fn legacy_counter(
        &mut self,
        sequence: &Sequence,
        head: &Head,
        event: &TrackEvent,
    ) -> Result<(), StoreError> {
        let thread_id = self.tracks.counter_thread(head.place.process, self.import);
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
                    self.lose(LossCause::Unsupported, "a value of a counter that is no number");
                    continue;
                }
            };
            let key = annotations::name(annotation, sequence);
            let is_only = key.is_empty() || key == "value";
            let name = if is_only { name.to_owned() } else { format!("{name} {key}") };
            let name_id = self.import.run.text(&name);
            self.import.run.add_metric(&Metric {
                time_nanos: head.time_nanos,
                thread_id,
                context_id: Assembler::ROOT,
                name_id,
                sessions: 0,
                phase: 0,
                value,
            })?;
        }
        Ok(())
    }
}

/// The id of an event, global or not.
fn id(legacy: &LegacyEvent) -> u64 {
    legacy.unscoped_id.or(legacy.global_id).or(legacy.local_id).unwrap_or(0)
}

/// What an async slice is on top of: a local id is of one process.
fn async_stack(head: &Head, legacy: &LegacyEvent) -> Stack {
    let process = legacy.local_id.map(|_| head.place.process);
    let scope = legacy.id_scope.clone().unwrap_or_default();
    Stack::Async(process, head.category_id, scope, id(legacy))
}
