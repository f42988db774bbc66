//! From events to rows.

use marey_model::args::{NewArgs, fill};
use marey_model::context::{NodeKind, STEP_NAME};
use marey_model::loss::LossCause;
use marey_store::Slice;
use marey_store::row::{ActivityKind, AsyncSpan, Flow, FlowPoint, Instant, InstantScope};

use super::category::{Categories, Category, DEVICE_ARGS};
use super::device::{Devices, context, is_graph_lane, names};
use super::event::Event;
use super::lanes::Lanes;
use super::lexer::Lexer;
use super::meta::Meta;
use super::number::{unquoted, whole};
use super::open::{AllOpen, Open, Track};
use super::slice_args::SliceArgs;
use super::text::unescaped;
use super::time::Times;
use super::{counter, memory};
use crate::shared::import::{Import, ReaderError};

/// What is kept while events go by.
#[derive(Debug, Default)]
pub(super) struct Events {
    lanes: Lanes,
    pub(super) meta: Meta,
    devices: Devices,
    open: AllOpen,
    categories: Categories,
    slice_args: SliceArgs,
    args: NewArgs,
    /// How many have begun.
    begun: u64,
}

impl Events {
    /// Adds what an event says.
    pub(super) fn add(&mut self, event: &Event, import: &mut Import) -> Result<(), ReaderError> {
        let Some(phase) = event.phase() else {
            import.lose(LossCause::Unreadable, 1, event.offset, "an event without a phase");
            return Ok(());
        };
        match phase {
            b'M' => {
                self.meta.add_event(event, &mut self.lanes);
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
        if matches!(phase, b's' | b't' | b'f') && is_launch(event) {
            return Ok(());
        }
        let Some(times) = Times::of(event) else {
            import.lose(LossCause::Unreadable, 1, event.offset, "an event without a time");
            return Ok(());
        };
        self.begun += 1;
        self.args.clear();
        event.others_into(&mut self.args);
        match phase {
            b'X' => self.complete(event, times, import),
            b'B' => {
                let lane = self.lanes.lane_of(event, import);
                let open = self.open(event, times, lane.process, import);
                self.open.begin(lane.thread, open);
                Ok(())
            }
            b'E' => self.end(event, times, import),
            b'i' | b'I' | b'R' => self.instant(event, times, import),
            b'C' => {
                let lane = self.lanes.lane_of(event, import);
                counter::add(event, times.start_nanos, lane, import)
            }
            b's' | b't' | b'f' => self.flow(event, phase, times, import),
            b'b' | b'S' => {
                let process = self.lanes.process_of(event, import);
                if let Some(track) = track(event, process, import) {
                    let open = self.open(event, times, process, import);
                    self.open.begin_async(track, Open { track_id: track.0, ..open });
                }
                Ok(())
            }
            b'e' | b'F' => self.end_async(event, times, import),
            _ => self.instant_async(event, times, import),
        }
    }

    /// Adds what waited for the end of the file.
    pub(super) fn finish(
        mut self,
        is_complete: bool,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        // What never ended lasts as long as everything that is known, so that nothing in it begins later.
        for open in self.open.all() {
            import.run.extend(open.process, open.start_nanos, 0);
        }
        let (slices, async_spans) = std::mem::take(&mut self.open).rest();
        for (thread, open) in slices {
            let end_nanos = last_nanos(open.process, import);
            let duration_nanos = end_nanos.saturating_sub(open.start_nanos).max(0);
            add_slice(open, thread, duration_nanos, true, import)?;
        }
        for open in async_spans {
            let end_nanos = last_nanos(open.process, import);
            let duration_nanos = end_nanos.saturating_sub(open.start_nanos).max(0);
            add_async_span(open, duration_nanos, true, import)?;
        }
        self.meta.settle(&mut self.lanes, is_complete, import)
    }

    fn complete(
        &mut self,
        event: &Event,
        times: Times,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        let word = event.category();
        let known = word.as_deref().map(|word| self.categories.of(word, import));
        let (category, category_id) = known.map_or_else(
            || (Category::Host(NodeKind::Scope), None),
            |(category, id)| (category, Some(id)),
        );
        let device_kind = match category {
            Category::Device(kind) => Some(kind),
            Category::MaybeDevice(kind) => {
                event.args().any(|arg| DEVICE_ARGS.contains(&&*arg.0)).then_some(kind)
            }
            // What counts as nothing would be missed; most of what devices do is computing.
            Category::Unknown if has_device_and_stream(event) => Some(ActivityKind::Kernel),
            _ => None,
        };
        if let Some(kind) = device_kind {
            return self.devices.add(event, (kind, category_id), times, &mut self.lanes, import);
        }
        let is_of_proton = matches!(word.as_deref(), Some("scope" | "metric"));
        if is_of_proton && let Some(stack) = call_stack(event) {
            return self.complete_of_proton(event, stack, (times, category_id), import);
        }
        let name = event.name();
        let (kind, step) = kind_and_step(category, &name);
        let lane = self.lanes.lane_of(event, import);
        if matches!(kind, NodeKind::Operator | NodeKind::Runtime) {
            self.lanes.set_host(lane.process);
        }
        times.odd_into(event, &mut self.args);
        let said = self.slice_args.read(event, kind, &mut self.args, import)?;
        let name_id = import.run.text(if step.is_some() { STEP_NAME } else { &name });
        import.run.add_slice(&Slice {
            thread_id: lane.thread,
            start_nanos: times.start_nanos,
            duration_nanos: times.duration_nanos,
            order: self.begun,
            kind,
            name_id,
            step,
            is_open: times.is_open || said.is_unfinished,
            category_id,
            correlation_id: said.correlation_id,
            // Old files repeat the correlation where they know no operator.
            external_id: said.external_id.filter(|id| said.correlation_id != Some(*id)),
            args: said.args,
        })?;
        Ok(())
    }

    /// A scope with its call stack, as Proton and marey's recorder write it.
    fn complete_of_proton(
        &mut self,
        event: &Event,
        stack: &str,
        (times, category_id): (Times, Option<u32>),
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        if is_graph_lane(self.lanes.ids(event)) {
            let kind = (ActivityKind::Annotation, category_id);
            return self.devices.add(event, kind, times, &mut self.lanes, import);
        }
        let stack = names(stack);
        let lane = self.lanes.lane_of(event, import);
        let (mut kind, mut is_open) = (NodeKind::Scope, times.is_open);
        times.odd_into(event, &mut self.args);
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
                ("kind", word) => match kind_of(word) {
                    Some(known) => kind = known,
                    None => event.add(&key, word, &mut self.args),
                },
                ("open", "true") => is_open = true,
                ("metrics", object) if object.starts_with('{') => metrics = Some(object),
                _ => event.add(&key, value, &mut self.args),
            }
        }
        // With metrics, these are part of the event's name.
        let name = match stack.last() {
            Some(name) if metrics.is_some() => name,
            _ => &*event.name(),
        };
        if let Some(metrics) = metrics {
            let context_id = context(&stack, kind, import);
            counter::add_metrics(metrics, context_id, (times.start_nanos, lane), import)?;
        }
        let slice = Slice {
            thread_id: lane.thread,
            start_nanos: times.start_nanos,
            duration_nanos: times.duration_nanos,
            order: stack.len() as u64, // inner ones come first
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

    fn end(&mut self, event: &Event, times: Times, import: &mut Import) -> Result<(), ReaderError> {
        let lane = self.lanes.lane_of(event, import);
        let Some(mut open) = self.open.end(lane.thread) else {
            let cause = "an end without a beginning";
            import.lose(LossCause::UnmatchedExit, 1, event.offset, cause);
            return Ok(());
        };
        add_args_of_end(event, &mut open.args);
        let duration_nanos = times.start_nanos.saturating_sub(open.start_nanos).max(0);
        add_slice(open, lane.thread, duration_nanos, false, import)
    }

    fn end_async(
        &mut self,
        event: &Event,
        times: Times,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        let process = self.lanes.process_of(event, import);
        let Some(track) = track(event, process, import) else { return Ok(()) };
        let Some(mut open) = self.open.end_async(track) else {
            let cause = "an asynchronous end without a beginning";
            import.lose(LossCause::UnmatchedExit, 1, event.offset, cause);
            return Ok(());
        };
        add_args_of_end(event, &mut open.args);
        let duration_nanos = times.start_nanos.saturating_sub(open.start_nanos).max(0);
        add_async_span(open, duration_nanos, false, import)
    }

    /// A moment of something that goes on beside the stacks of threads.
    fn instant_async(
        &mut self,
        event: &Event,
        times: Times,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        if let Some(id) = event.id() {
            self.args.text("id", &id);
        }
        if let Some(id) = event.id2() {
            event.add("id2", id, &mut self.args);
        }
        self.instant(event, times, import)
    }

    /// What an event begins; its arguments are taken.
    fn open(&mut self, event: &Event, times: Times, process: u32, import: &mut Import) -> Open {
        event.args().for_each(|(key, value)| event.add(&key, value, &mut self.args));
        Open {
            process,
            start_nanos: times.start_nanos,
            order: self.begun,
            name_id: import.run.text(&event.name()),
            category_id: event.category().map(|category| import.run.text(&category)),
            track_id: 0,
            args: std::mem::take(&mut self.args),
        }
    }

    fn instant(
        &mut self,
        event: &Event,
        times: Times,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        let lane = self.lanes.lane_of(event, import);
        if let Some(action) = memory::action(event) {
            return memory::add(event, action, times.start_nanos, lane, &mut self.args, import);
        }
        if let (Some(stack), Some(metrics)) = (call_stack(event), event.arg("metrics"))
            && metrics.starts_with('{')
        {
            let context_id = context(&names(stack), NodeKind::Scope, import);
            return counter::add_metrics(metrics, context_id, (times.start_nanos, lane), import);
        }
        times.odd_into(event, &mut self.args);
        event.args().for_each(|(key, value)| event.add(&key, value, &mut self.args));
        let scope = match event.instant_scope().as_deref() {
            Some("g") => InstantScope::Global,
            Some("p") => InstantScope::Process,
            _ => InstantScope::Thread,
        };
        let row = Instant {
            time_nanos: times.start_nanos,
            process_id: lane.process,
            thread_id: Some(lane.thread),
            scope,
            name_id: import.run.text(&event.name()),
            category_id: event.category().map(|category| import.run.text(&category)),
            args: import.run.args(&mut self.args)?,
        };
        import.run.add_instant(&row)?;
        Ok(())
    }

    fn flow(
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
        let lane = self.lanes.lane_of(event, import);
        event.args().for_each(|(key, value)| event.add(&key, value, &mut self.args));
        let row = Flow {
            time_nanos: times.start_nanos,
            thread_id: lane.thread,
            flow_id: flow_id(&id),
            point: match phase {
                b's' => FlowPoint::Start,
                b't' => FlowPoint::Step,
                _ => FlowPoint::End,
            },
            // Only an end may be of what comes next.
            is_enclosing: phase != b'f' || event.is_enclosed(),
            name_id: import.run.text(&event.name()),
            category_id: category.map(|category| import.run.text(&category)),
            args: import.run.args(&mut self.args)?,
        };
        import.run.add_flow(&row)?;
        Ok(())
    }
}

/// Whether an event names a device and a stream by their numbers.
fn has_device_and_stream(event: &Event) -> bool {
    let has = |key| event.arg(key).and_then(whole).is_some();
    has("stream") && has("device")
}

/// Whether an arrow is one from a launch to a device.
fn is_launch(event: &Event) -> bool {
    event.category().is_some_and(|word| match Category::of(&word) {
        // In files of 2021; others use the word, too.
        Category::Launch if word == "async" => event.name() == "launch",
        category => category == Category::Launch,
    })
}

/// Adds a slice that has ended, or never does.
fn add_slice(
    open: Open,
    thread: u32,
    duration_nanos: i64,
    is_open: bool,
    import: &mut Import,
) -> Result<(), ReaderError> {
    let Open { start_nanos, order, name_id, category_id, mut args, .. } = open;
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

/// Adds a span beside the stacks of threads that has ended, or never does.
fn add_async_span(
    open: Open,
    duration_nanos: i64,
    is_open: bool,
    import: &mut Import,
) -> Result<(), ReaderError> {
    let Open { process, start_nanos, track_id, name_id, category_id, mut args, .. } = open;
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

/// What tells an asynchronous event from others. An `id2` may be the process's own.
fn track(event: &Event, of_process: u32, import: &mut Import) -> Option<Track> {
    let (mut id, mut process) = (event.id().unwrap_or_default(), None);
    if let Some(id2) = event.id2() {
        let Some((value, is_local)) = id_in(id2) else {
            let cause = "an `id2` without an id";
            import.lose(LossCause::Unreadable, 1, event.offset, cause);
            return None;
        };
        process = is_local.then_some(of_process);
        id = event.text_of(value);
    }
    if let Some(scope) = event.scope() {
        id = format!("{scope}:{id}").into();
    }
    let category_id = event.category().map(|category| import.run.text(&category));
    Some((import.run.text(&id), category_id, import.run.text(&event.name()), process))
}

/// The id in an `id2`, as JSON, and whether it is the process's own.
fn id_in(id2: &str) -> Option<(&str, bool)> {
    let (mut local, mut global) = (None, None);
    let mut lexer = Lexer::new(id2.as_bytes());
    let end = lexer.object(|lexer, key| {
        let value = lexer.value()?.of(id2);
        match key.of(id2) {
            "local" => local = Some((value, true)),
            "global" => global = Some((value, false)),
            _ => {}
        }
        Ok(())
    });
    local.or(global).filter(|_| end.is_ok())
}

/// Adds the arguments of an end to those of its beginning. Of those that both have, the later stay.
fn add_args_of_end(event: &Event, args: &mut NewArgs) {
    if event.members().next().is_none() {
        return;
    }
    let mut begun = String::new();
    fill(&args.text_with_gaps(), args.numbers(), &mut begun);
    args.clear();
    let mut lexer = Lexer::new(begun.as_bytes());
    let end = lexer.object(|lexer, key| {
        let (key, value) = (unescaped(key.of(&begun)), lexer.value()?.of(&begun));
        if event.members().all(|member| member.0 != key) {
            args.json(&key, value);
        }
        Ok(())
    });
    debug_assert_eq!(end, Ok(()), "arguments are made as JSON");
    event.members().for_each(|(key, value)| event.add(&key, value, args));
}

/// The number of an arrow; a text that is none gives one all the same.
fn flow_id(id: &str) -> u64 {
    let hexadecimal = id.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let fnv = || {
        id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    id.parse().ok().or(hexadecimal).unwrap_or_else(fnv)
}

/// The kind that a word means, which is none's of a root: that has no spans.
fn kind_of(json: &str) -> Option<NodeKind> {
    let mut kinds = NodeKind::ALL.into_iter().filter(|kind| *kind != NodeKind::Root);
    kinds.find(|kind| kind.as_str() == unquoted(json))
}

/// The call stack of an event, if it is a list.
fn call_stack<'a>(event: &Event<'a>) -> Option<&'a str> {
    event.arg("call_stack").filter(|stack| stack.starts_with('['))
}

/// The last moment of a process that is known.
fn last_nanos(process: u32, import: &Import) -> i64 {
    import.run.extent_nanos(process).map_or(i64::MIN, |(_, last)| last)
}

/// What a slice is, and its number if it is a step.
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
