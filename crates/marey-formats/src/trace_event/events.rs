//! Converts events to rows by their phase and category. The main thread does it, batch by batch.

use marey_model::args::{NewArgs, fill};
use marey_model::context::{NodeKind, STEP_NAME};
use marey_model::loss::LossCause;
use marey_store::Slice;
use marey_store::row::{ActivityKind, AsyncSpan, Flow, FlowPoint, Instant, InstantScope};

use super::category::{Categories, Category, DEVICE_ARGS};
use super::collectives::CallSpan;
use super::device::{Devices, call_stack_context, call_stack_names, is_graph_thread};
use super::event::Event;
use super::lexer::Lexer;
use super::meta::TraceMetadata;
use super::number::{parse_integer, trim_quotes};
use super::open::{AsyncTrack, OpenEvent, OpenEvents};
use super::slice_args::SliceArgs;
use super::text::unescape;
use super::threads::Threads;
use super::time::Times;
use super::{counter, memory};
use crate::shared::import::{Import, ReaderError};

/// The state of the conversion.
#[derive(Debug, Default)]
pub(super) struct EventConverter {
    threads: Threads,
    pub(super) metadata: TraceMetadata,
    devices: Devices,
    open_events: OpenEvents,
    categories: Categories,
    slice_args: SliceArgs,
    args: NewArgs,
    /// The number of events so far.
    event_count: u64,
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
                let owner = self.threads.event_thread(event, import);
                let open = self.begin_event(event, times, owner.process, import);
                self.open_events.begin(owner.thread, open);
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
                let process = self.threads.event_process(event, import);
                if let Some(track) = async_track(event, process, import) {
                    let open = self.begin_event(event, times, process, import);
                    self.open_events.begin_async(track, OpenEvent { track_id: track.0, ..open });
                }
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
        // Open events last until the end of their process, so that no event in them begins later.
        for open in self.open_events.iter() {
            import.run.extend(open.process, open.start_nanos, 0);
        }
        let (slices, async_spans) = std::mem::take(&mut self.open_events).into_unfinished();
        for (thread, open) in slices {
            let end_nanos = process_end_nanos(open.process, import);
            let duration_nanos = end_nanos.saturating_sub(open.start_nanos).max(0);
            add_slice(open, thread, duration_nanos, true, import)?;
        }
        for open in async_spans {
            let end_nanos = process_end_nanos(open.process, import);
            let duration_nanos = end_nanos.saturating_sub(open.start_nanos).max(0);
            add_async_span(open, duration_nanos, true, import)?;
        }
        self.devices.collectives.finish(import)?;
        self.metadata.apply(&mut self.threads, is_complete, import)
    }

    fn add_complete(
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
        let device_kind = match category {
            Category::Device(kind) => Some(kind),
            Category::MaybeDevice(kind) => {
                event.args().any(|arg| DEVICE_ARGS.contains(&&*arg.0)).then_some(kind)
            }
            // Device work that is not recognised would be missed. Most of it is computation.
            Category::Unknown if has_device_and_stream(event) => Some(ActivityKind::Kernel),
            _ => None,
        };
        if let Some(kind) = device_kind {
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
            self.threads.set_device_process(owner.process);
        }
        times.add_malformed_duration(event, &mut self.args);
        let parsed = self.slice_args.read(event, kind, &mut self.args, import)?;
        let is_open = times.is_open || parsed.is_unfinished;
        let call = CallSpan {
            process_id: owner.process,
            thread_id: owner.thread,
            start_nanos: times.start_nanos,
            duration_nanos: (!is_open).then_some(times.duration_nanos),
            external_id: parsed.external_id,
        };
        self.devices.collectives.add_call(event, &name, call, import);
        let name_id = import.run.text(if step.is_some() { STEP_NAME } else { &name });
        import.run.add_slice(&Slice {
            thread_id: owner.thread,
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
        let (mut kind, mut is_open) = (NodeKind::Scope, times.is_open);
        times.add_malformed_duration(event, &mut self.args);
        let (mut metrics, mut correlation_id, mut external_id) = (None, None, None);
        for (key, value) in event.args() {
            match (&*key, value) {
                ("correlation", number)
                    if correlation_id.is_none() && number.parse::<u64>().is_ok() =>
                {
                    correlation_id = number.parse().ok();
                }
                ("External id", number)
                    if external_id.is_none() && number.parse::<u64>().is_ok() =>
                {
                    external_id = number.parse().ok();
                }
                ("kind", name) => match parse_kind(name) {
                    Some(parsed) => kind = parsed,
                    None => event.add_arg(&key, name, &mut self.args),
                },
                ("open", "true") => is_open = true,
                ("metrics", object) if object.starts_with('{') => metrics = Some(object),
                _ => event.add_arg(&key, value, &mut self.args),
            }
        }
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
            thread_id: owner.thread,
            start_nanos: times.start_nanos,
            duration_nanos: times.duration_nanos,
            order: stack.len() as u64, // inner scopes are written first
            kind,
            name_id: import.run.text(name),
            step: None,
            is_open,
            category_id,
            correlation_id,
            external_id,
            args: import.run.args(&mut self.args)?,
        };
        import.run.add_slice(&slice)?;
        Ok(())
    }

    fn end_slice(
        &mut self,
        event: &Event,
        times: Times,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        let owner = self.threads.event_thread(event, import);
        let Some(mut open) = self.open_events.end(owner.thread) else {
            let cause = "an end without a beginning";
            import.lose(LossCause::UnmatchedExit, 1, event.offset, cause);
            return Ok(());
        };
        merge_end_args(event, &mut open.args);
        let duration_nanos = times.start_nanos.saturating_sub(open.start_nanos).max(0);
        add_slice(open, owner.thread, duration_nanos, false, import)
    }

    fn end_async(
        &mut self,
        event: &Event,
        times: Times,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        let process = self.threads.event_process(event, import);
        let Some(track) = async_track(event, process, import) else { return Ok(()) };
        let Some(mut open) = self.open_events.end_async(track) else {
            let cause = "an asynchronous end without a beginning";
            import.lose(LossCause::UnmatchedExit, 1, event.offset, cause);
            return Ok(());
        };
        merge_end_args(event, &mut open.args);
        let duration_nanos = times.start_nanos.saturating_sub(open.start_nanos).max(0);
        add_async_span(open, duration_nanos, false, import)
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

    /// Returns the open event that begins here, with its arguments.
    fn begin_event(
        &mut self,
        event: &Event,
        times: Times,
        process: u32,
        import: &mut Import,
    ) -> OpenEvent {
        event.args().for_each(|(key, value)| event.add_arg(&key, value, &mut self.args));
        OpenEvent {
            process,
            start_nanos: times.start_nanos,
            order: self.event_count,
            name_id: import.run.text(&event.name()),
            category_id: event.category().map(|category| import.run.text(&category)),
            track_id: 0,
            args: std::mem::take(&mut self.args),
        }
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
            process_id: owner.process,
            thread_id: Some(owner.thread),
            scope,
            name_id: import.run.text(&event.name()),
            category_id: event.category().map(|category| import.run.text(&category)),
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
            thread_id: owner.thread,
            flow_id: flow_id(&id),
            point: match phase {
                b's' => FlowPoint::Start,
                b't' => FlowPoint::Step,
                _ => FlowPoint::End,
            },
            // Only the end of a flow may bind to the next slice.
            is_enclosing: phase != b'f' || event.binds_to_enclosing_slice(),
            name_id: import.run.text(&event.name()),
            category_id: category.map(|category| import.run.text(&category)),
            args: import.run.args(&mut self.args)?,
        };
        import.run.add_flow(&row)?;
        Ok(())
    }
}

/// Whether an event names a device and a stream by numbers.
fn has_device_and_stream(event: &Event) -> bool {
    let has = |key| event.arg(key).and_then(parse_integer).is_some();
    has("stream") && has("device")
}

/// Whether a flow leads from a launch to its activity.
fn is_launch_flow(event: &Event) -> bool {
    event.category().is_some_and(|category_name| match Category::from_name(&category_name) {
        // Files of 2021 use `async` for launches. Other programs use it in another sense.
        Category::Launch if category_name == "async" => event.name() == "launch",
        category => category == Category::Launch,
    })
}

/// Adds a slice that has ended, or one that stays open.
fn add_slice(
    open: OpenEvent,
    thread: u32,
    duration_nanos: i64,
    is_open: bool,
    import: &mut Import,
) -> Result<(), ReaderError> {
    let OpenEvent { start_nanos, order, name_id, category_id, mut args, .. } = open;
    let args = import.run.args(&mut args)?;
    import.run.add_slice(&Slice {
        thread_id: thread,
        start_nanos,
        duration_nanos,
        order,
        kind: NodeKind::Scope,
        name_id,
        step: None,
        is_open,
        category_id,
        correlation_id: None,
        external_id: None,
        args,
    })?;
    Ok(())
}

/// Adds an asynchronous span that has ended, or one that stays open.
fn add_async_span(
    open: OpenEvent,
    duration_nanos: i64,
    is_open: bool,
    import: &mut Import,
) -> Result<(), ReaderError> {
    let OpenEvent { process, start_nanos, track_id, name_id, category_id, mut args, .. } = open;
    let args = import.run.args(&mut args)?;
    import.run.add_async_span(&AsyncSpan {
        start_nanos,
        duration_nanos,
        process_id: process,
        track_id,
        name_id,
        is_open,
        category_id,
        args,
    })?;
    Ok(())
}

/// Returns the track of an asynchronous event. An `id2` may be local to the process.
fn async_track(event: &Event, process: u32, import: &mut Import) -> Option<AsyncTrack> {
    let (mut id, mut owner) = (event.id().unwrap_or_default(), None);
    if let Some(id2) = event.id2() {
        let Some((value, is_local)) = parse_id2(id2) else {
            let cause = "an `id2` without an id";
            import.lose(LossCause::Unreadable, 1, event.offset, cause);
            return None;
        };
        owner = is_local.then_some(process);
        id = event.unquote(value);
    }
    if let Some(scope) = event.scope() {
        id = format!("{scope}:{id}").into();
    }
    let category_id = event.category().map(|category| import.run.text(&category));
    Some((import.run.text(&id), category_id, import.run.text(&event.name()), owner))
}

/// Returns the id in an `id2` as JSON, and whether it is local to the process.
fn parse_id2(id2: &str) -> Option<(&str, bool)> {
    let (mut local, mut global) = (None, None);
    let mut lexer = Lexer::new(id2.as_bytes());
    let result = lexer.read_object(|lexer, key| {
        let value = lexer.read_value()?.slice(id2);
        match key.slice(id2) {
            "local" => local = Some((value, true)),
            "global" => global = Some((value, false)),
            _ => {}
        }
        Ok(())
    });
    local.or(global).filter(|_| result.is_ok())
}

/// Adds the arguments of an end event to those of the begin event. If both have an argument, the
/// later value is kept.
fn merge_end_args(event: &Event, args: &mut NewArgs) {
    if event.members().next().is_none() {
        return;
    }
    let mut begin_args = String::new();
    fill(&args.template(), args.numbers(), &mut begin_args);
    args.clear();
    let mut lexer = Lexer::new(begin_args.as_bytes());
    let result = lexer.read_object(|lexer, key| {
        let (key, value) =
            (unescape(key.slice(&begin_args)), lexer.read_value()?.slice(&begin_args));
        if event.members().all(|member| member.0 != key) {
            args.json(&key, value);
        }
        Ok(())
    });
    debug_assert_eq!(result, Ok(()), "arguments are made as JSON");
    event.members().for_each(|(key, value)| event.add_arg(&key, value, args));
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

/// Parses the kind of a span. No event has the kind of the root.
fn parse_kind(json: &str) -> Option<NodeKind> {
    let mut kinds = NodeKind::ALL.into_iter().filter(|kind| *kind != NodeKind::Root);
    kinds.find(|kind| kind.as_str() == trim_quotes(json))
}

/// Returns the call stack of an event, if it is a list.
fn call_stack<'a>(event: &Event<'a>) -> Option<&'a str> {
    event.arg("call_stack").filter(|stack| stack.starts_with('['))
}

/// Returns the latest time of a process.
fn process_end_nanos(process: u32, import: &Import) -> i64 {
    import.run.extent_nanos(process).map_or(i64::MIN, |(_, last)| last)
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
