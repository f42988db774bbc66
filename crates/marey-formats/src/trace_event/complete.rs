//! Converts complete events, which have a start and a duration: slices of threads, activities of
//! devices, and the scopes of Proton.

use marey_model::args::NewArgs;
use marey_model::context::{NodeKind, STEP_NAME};
use marey_store::Slice;
use marey_store::row::ActivityKind;

use super::category::{Category, DEVICE_ARGS};
use super::collectives::CallSpan;
use super::counter;
use super::device::{call_stack_context, call_stack_names, is_graph_thread};
use super::event::Event;
use super::events::{EventConverter, call_stack};
use super::number::{parse_integer, trim_quotes};
use super::time::Times;
use crate::shared::import::{Import, ReaderError};

impl EventConverter {
    /// Adds a complete event.
    pub(super) fn add_complete(
        &mut self,
        event: &Event,
        times: Times,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        let category_name = event.category();
        let cached = category_name
            .as_deref()
            .map(|category_name| self.categories.resolve(category_name, import));
        let (category, category_id) = cached.map_or_else(
            || (Category::Host(NodeKind::Scope), None),
            |(category, id)| (category, Some(id)),
        );
        if let Some(kind) = activity_kind(event, category) {
            return self.devices.add(event, (kind, category_id), times, &mut self.threads, import);
        }
        let is_proton_scope = matches!(category_name.as_deref(), Some("scope" | "metric"));
        if is_proton_scope && let Some(stack) = call_stack(event) {
            return self.add_proton_scope(event, stack, (times, category_id), import);
        }
        let name = event.name();
        let (kind, step) = kind_and_step(category, &name);
        let owner = self.threads.event_thread(event, import);
        if matches!(kind, NodeKind::Operator | NodeKind::Runtime) {
            self.threads.set_device_process(owner.process_id);
        }
        times.add_malformed_duration(event, &mut self.args);
        let parsed = self.slice_args.read(event, kind, &mut self.args, import)?;
        let is_open = times.is_open || parsed.is_unfinished;
        let call = CallSpan {
            process_id: owner.process_id,
            thread_id: owner.thread_id,
            start_nanos: times.start_nanos,
            duration_nanos: (!is_open).then_some(times.duration_nanos),
            external_id: parsed.external_id,
        };
        self.devices.collectives.add_call(event, &name, call, import);
        let name_id = import.run.text_id(if step.is_some() { STEP_NAME } else { &name });
        import.run.add_slice(&Slice {
            thread_id: owner.thread_id,
            start_nanos: times.start_nanos,
            duration_nanos: times.duration_nanos,
            order: self.event_count,
            kind,
            name_id,
            step,
            is_open,
            category_id,
            correlation_id: parsed.correlation_id,
            // Files of 2021 repeat the correlation id if the operator is unknown.
            external_id: parsed.external_id.filter(|id| parsed.correlation_id != Some(*id)),
            args: parsed.args,
        })?;
        Ok(())
    }

    /// Adds a scope with its call stack, as Proton and marey's recorder write it.
    fn add_proton_scope(
        &mut self,
        event: &Event,
        stack: &str,
        (times, category_id): (Times, Option<u32>),
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        if is_graph_thread(self.threads.ids(event)) {
            let kind = (ActivityKind::Annotation, category_id);
            return self.devices.add(event, kind, times, &mut self.threads, import);
        }
        let stack = call_stack_names(stack);
        let owner = self.threads.event_thread(event, import);
        times.add_malformed_duration(event, &mut self.args);
        let ScopeArgs { kind, is_open, metrics, correlation_id, external_id } =
            ScopeArgs::read(event, &mut self.args);
        // The name of an event with metrics includes the metrics.
        let name = match stack.last() {
            Some(name) if metrics.is_some() => name,
            _ => &*event.name(),
        };
        if let Some(metrics) = metrics {
            let context_id = call_stack_context(&stack, kind, import);
            counter::add_metrics(metrics, context_id, (times.start_nanos, owner), import)?;
        }
        let slice = Slice {
            thread_id: owner.thread_id,
            start_nanos: times.start_nanos,
            duration_nanos: times.duration_nanos,
            order: stack.len() as u64, // inner scopes are written first
            kind,
            name_id: import.run.text_id(name),
            step: None,
            is_open: times.is_open || is_open,
            category_id,
            correlation_id,
            external_id,
            args: import.run.args(&mut self.args)?,
        };
        import.run.add_slice(&slice)?;
        Ok(())
    }
}

/// The arguments of a scope of Proton that a slice has as columns.
struct ScopeArgs<'a> {
    kind: NodeKind,
    is_open: bool,
    metrics: Option<&'a str>,
    correlation_id: Option<u64>,
    external_id: Option<u64>,
}

impl<'a> ScopeArgs<'a> {
    /// Reads the arguments of an event. Adds all others to `args`.
    fn read(event: &Event<'a>, args: &mut NewArgs) -> Self {
        let mut scope_args = Self {
            kind: NodeKind::Scope,
            is_open: false,
            metrics: None,
            correlation_id: None,
            external_id: None,
        };
        for (key, value) in event.args() {
            match (&*key, value) {
                ("correlation", number)
                    if scope_args.correlation_id.is_none() && number.parse::<u64>().is_ok() =>
                {
                    scope_args.correlation_id = number.parse().ok();
                }
                ("External id", number)
                    if scope_args.external_id.is_none() && number.parse::<u64>().is_ok() =>
                {
                    scope_args.external_id = number.parse().ok();
                }
                ("kind", name) => match parse_kind(name) {
                    Some(parsed) => scope_args.kind = parsed,
                    None => event.add_arg(&key, name, args),
                },
                ("open", "true") => scope_args.is_open = true,
                ("metrics", object) if object.starts_with('{') => {
                    scope_args.metrics = Some(object);
                }
                _ => event.add_arg(&key, value, args),
            }
        }
        scope_args
    }
}

/// Returns the kind of a slice, and its number if it is a step.
fn kind_and_step(category: Category, name: &str) -> (NodeKind, Option<u32>) {
    match category {
        Category::Host(kind) => (kind, None),
        Category::Annotation(kind) => {
            let number = name.strip_prefix("ProfilerStep#").and_then(|number| number.parse().ok());
            (if number.is_some() { NodeKind::Step } else { kind }, number)
        }
        Category::Python if name.starts_with("nn.Module: ") => (NodeKind::Module, None),
        Category::Python => (NodeKind::Frame, None),
        Category::MaybeDevice(_) | Category::Device(_) | Category::Launch | Category::Unknown => {
            (NodeKind::Scope, None)
        }
    }
}

/// Returns the kind of a device's activity, `None` for other events.
fn activity_kind(event: &Event, category: Category) -> Option<ActivityKind> {
    match category {
        Category::Device(kind) => Some(kind),
        Category::MaybeDevice(kind) => {
            event.args().any(|arg| DEVICE_ARGS.contains(&&*arg.0)).then_some(kind)
        }
        // Device work that is not recognised would be missed. Most of it is computation.
        Category::Unknown if has_device_and_stream(event) => Some(ActivityKind::Kernel),
        _ => None,
    }
}

/// Whether an event names a device and a stream by numbers.
fn has_device_and_stream(event: &Event) -> bool {
    let has = |key| event.arg(key).and_then(parse_integer).is_some();
    has("stream") && has("device")
}

/// Parses the kind of a span. No event has the kind of the root.
fn parse_kind(json: &str) -> Option<NodeKind> {
    let mut kinds = NodeKind::ALL.into_iter().filter(|kind| *kind != NodeKind::Root);
    kinds.find(|kind| kind.as_str() == trim_quotes(json))
}
