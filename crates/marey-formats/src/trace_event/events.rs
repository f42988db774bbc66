//! Converts events to rows by their phase. The main thread does it, batch by batch.
//!
//! [`super::complete`] converts complete events, and [`super::begin_end`] those that begin or end.

use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_store::row::{Flow, FlowPoint, Instant, InstantScope};

use super::category::{Categories, Category};
use super::device::{Devices, call_stack_context, call_stack_names};
use super::event::Event;
use super::meta::TraceMetadata;
use super::open::OpenEvents;
use super::slice_args::SliceArgs;
use super::threads::Threads;
use super::time::Times;
use super::{counter, memory};
use crate::shared::import::{Import, ReaderError};

/// The state of the conversion.
#[derive(Debug, Default)]
pub(super) struct EventConverter {
    pub(super) threads: Threads,
    pub(super) metadata: TraceMetadata,
    pub(super) devices: Devices,
    pub(super) open_events: OpenEvents,
    pub(super) categories: Categories,
    pub(super) slice_args: SliceArgs,
    /// The arguments of the event that is being converted.
    pub(super) args: NewArgs,
    /// The number of events so far.
    pub(super) event_count: u64,
}

impl EventConverter {
    /// Adds an event.
    pub(super) fn add(&mut self, event: &Event, import: &mut Import) -> Result<(), ReaderError> {
        let Some(phase) = event.phase() else {
            import.lose(LossCause::Unreadable, 1, event.offset, "an event without a phase");
            return Ok(());
        };
        match phase {
            b'M' => {
                self.metadata.add_event(event, &mut self.threads);
                return Ok(());
            }
            b'X' | b'B' | b'E' | b'i' | b'I' | b'R' | b'C' | b's' | b't' | b'f' | b'b' | b'e'
            | b'n' | b'S' | b'T' | b'p' | b'F' => {}
            other => {
                let cause = format!("an event of phase `{}`", char::from(other).escape_default());
                import.lose(LossCause::Unsupported, 1, event.offset, cause);
                return Ok(());
            }
        }
        if matches!(phase, b's' | b't' | b'f') && is_launch_flow(event) {
            return Ok(());
        }
        let Some(times) = Times::from_event(event) else {
            import.lose(LossCause::Unreadable, 1, event.offset, "an event without a time");
            return Ok(());
        };
        self.event_count += 1;
        self.args.clear();
        event.add_extra_members(&mut self.args);
        match phase {
            b'X' => self.add_complete(event, times, import),
            b'B' => {
                self.begin_slice(event, times, import);
                Ok(())
            }
            b'E' => self.end_slice(event, times, import),
            b'i' | b'I' | b'R' => self.add_instant(event, times, import),
            b'C' => {
                let owner = self.threads.event_thread(event, import);
                counter::add(event, times.start_nanos, owner, import)
            }
            b's' | b't' | b'f' => self.add_flow(event, phase, times, import),
            b'b' | b'S' => {
                self.begin_async(event, times, import);
                Ok(())
            }
            b'e' | b'F' => self.end_async(event, times, import),
            _ => self.add_async_instant(event, times, import),
        }
    }

    /// Adds the data that wait for the end of the file, such as open events and metadata.
    pub(super) fn finish(
        mut self,
        is_complete: bool,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        self.add_unfinished(import)?;
        self.devices.collectives.finish(import)?;
        self.metadata.apply(&mut self.threads, is_complete, import)
    }

    /// Adds an asynchronous instant.
    fn add_async_instant(
        &mut self,
        event: &Event,
        times: Times,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        if let Some(id) = event.id() {
            self.args.text("id", &id);
        }
        if let Some(id) = event.id2() {
            event.add_arg("id2", id, &mut self.args);
        }
        self.add_instant(event, times, import)
    }

    fn add_instant(
        &mut self,
        event: &Event,
        times: Times,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        let owner = self.threads.event_thread(event, import);
        if let Some(action) = memory::action(event) {
            return memory::add(event, action, times.start_nanos, owner, &mut self.args, import);
        }
        if let (Some(stack), Some(metrics)) = (call_stack(event), event.arg("metrics"))
            && metrics.starts_with('{')
        {
            let context_id = call_stack_context(&call_stack_names(stack), NodeKind::Scope, import);
            return counter::add_metrics(metrics, context_id, (times.start_nanos, owner), import);
        }
        times.add_malformed_duration(event, &mut self.args);
        event.args().for_each(|(key, value)| event.add_arg(&key, value, &mut self.args));
        let scope = match event.instant_scope().as_deref() {
            Some("g") => InstantScope::Global,
            Some("p") => InstantScope::Process,
            _ => InstantScope::Thread,
        };
        let row = Instant {
            time_nanos: times.start_nanos,
            process_id: owner.process_id,
            thread_id: Some(owner.thread_id),
            scope,
            name_id: import.run.text_id(&event.name()),
            category_id: event.category().map(|category| import.run.text_id(&category)),
            args: import.run.args(&mut self.args)?,
        };
        import.run.add_instant(&row)?;
        Ok(())
    }

    fn add_flow(
        &mut self,
        event: &Event,
        phase: u8,
        times: Times,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        let category = event.category();
        let Some(id) = event.id() else {
            import.lose(LossCause::Unreadable, 1, event.offset, "a flow without an id");
            return Ok(());
        };
        let owner = self.threads.event_thread(event, import);
        event.args().for_each(|(key, value)| event.add_arg(&key, value, &mut self.args));
        let row = Flow {
            time_nanos: times.start_nanos,
            thread_id: owner.thread_id,
            flow_id: flow_id(&id),
            point: match phase {
                b's' => FlowPoint::Start,
                b't' => FlowPoint::Step,
                _ => FlowPoint::End,
            },
            // Only the end of a flow may bind to the next slice.
            is_enclosing: phase != b'f' || event.binds_to_enclosing_slice(),
            name_id: import.run.text_id(&event.name()),
            category_id: category.map(|category| import.run.text_id(&category)),
            args: import.run.args(&mut self.args)?,
        };
        import.run.add_flow(&row)?;
        Ok(())
    }
}

/// Whether a flow leads from a launch to its activity.
fn is_launch_flow(event: &Event) -> bool {
    event.category().is_some_and(|category_name| match Category::from_name(&category_name) {
        // Files of 2021 use `async` for launches. Other programs use it in another sense.
        Category::Launch if category_name == "async" => event.name() == "launch",
        category => category == Category::Launch,
    })
}

/// Returns the number of a flow. Ids that are not numbers are hashed.
fn flow_id(id: &str) -> u64 {
    let hexadecimal = id.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let fnv = || {
        id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    id.parse().ok().or(hexadecimal).unwrap_or_else(fnv)
}

/// Returns the call stack of an event, if it is a list.
pub(super) fn call_stack<'a>(event: &Event<'a>) -> Option<&'a str> {
    event.arg("call_stack").filter(|stack| stack.starts_with('['))
}
