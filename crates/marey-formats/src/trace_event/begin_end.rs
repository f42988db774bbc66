//! Converts the events that begin and end slices of threads and asynchronous spans.

use marey_model::args::{NewArgs, fill};
use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_store::Slice;
use marey_store::row::AsyncSpan;

use super::event::Event;
use super::events::EventConverter;
use super::lexer::Lexer;
use super::open::{AsyncTrack, OpenEvent};
use super::text::unescape;
use super::time::Times;
use crate::shared::import::{Import, ReaderError};

impl EventConverter {
    /// Begins a slice of a thread.
    pub(super) fn begin_slice(&mut self, event: &Event, times: Times, import: &mut Import) {
        let owner = self.threads.event_thread(event, import);
        let open_event = self.begin_event(event, times, owner.process_id, import);
        self.open_events.begin(owner.thread_id, open_event);
    }

    /// Begins an asynchronous span.
    pub(super) fn begin_async(&mut self, event: &Event, times: Times, import: &mut Import) {
        let process_id = self.threads.event_process(event, import);
        if let Some(track) = async_track(event, process_id, import) {
            let open_event = self.begin_event(event, times, process_id, import);
            self.open_events
                .begin_async(track, OpenEvent { track_id: track.track_id, ..open_event });
        }
    }

    /// Returns the open event that begins here, with its arguments.
    fn begin_event(
        &mut self,
        event: &Event,
        times: Times,
        process_id: u32,
        import: &mut Import,
    ) -> OpenEvent {
        event.args().for_each(|(key, value)| event.add_arg(&key, value, &mut self.args));
        OpenEvent {
            process_id,
            start_nanos: times.start_nanos,
            order: self.event_count,
            name_id: import.run.text_id(&event.name()),
            category_id: event.category().map(|category| import.run.text_id(&category)),
            track_id: 0,
            args: std::mem::take(&mut self.args),
        }
    }

    pub(super) fn end_slice(
        &mut self,
        event: &Event,
        times: Times,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        let owner = self.threads.event_thread(event, import);
        let Some(mut open_event) = self.open_events.end(owner.thread_id) else {
            let cause = "an end without a beginning";
            import.lose(LossCause::UnmatchedExit, 1, event.offset, cause);
            return Ok(());
        };
        merge_end_args(event, &mut open_event.args);
        add_slice(open_event, owner.thread_id, times.start_nanos, false, import)
    }

    pub(super) fn end_async(
        &mut self,
        event: &Event,
        times: Times,
        import: &mut Import,
    ) -> Result<(), ReaderError> {
        let process_id = self.threads.event_process(event, import);
        let Some(track) = async_track(event, process_id, import) else { return Ok(()) };
        let Some(mut open_event) = self.open_events.end_async(track) else {
            let cause = "an asynchronous end without a beginning";
            import.lose(LossCause::UnmatchedExit, 1, event.offset, cause);
            return Ok(());
        };
        merge_end_args(event, &mut open_event.args);
        add_async_span(open_event, times.start_nanos, false, import)
    }

    /// Adds the events that have not ended. They last until the end of their process, so that no
    /// event in them begins later.
    pub(super) fn add_unfinished(&mut self, import: &mut Import) -> Result<(), ReaderError> {
        for open_event in self.open_events.iter() {
            import.run.extend(open_event.process_id, open_event.start_nanos, 0);
        }
        let (slices, async_spans) = std::mem::take(&mut self.open_events).into_unfinished();
        for (thread, open_event) in slices {
            let end_nanos = process_end_nanos(open_event.process_id, import);
            add_slice(open_event, thread, end_nanos, true, import)?;
        }
        for open_event in async_spans {
            let end_nanos = process_end_nanos(open_event.process_id, import);
            add_async_span(open_event, end_nanos, true, import)?;
        }
        Ok(())
    }
}

/// Adds a slice that has ended, or one that stays open.
fn add_slice(
    open_event: OpenEvent,
    thread_id: u32,
    end_nanos: i64,
    is_open: bool,
    import: &mut Import,
) -> Result<(), ReaderError> {
    let OpenEvent { start_nanos, order, name_id, category_id, mut args, .. } = open_event;
    let duration_nanos = end_nanos.saturating_sub(start_nanos).max(0);
    let args = import.run.args(&mut args)?;
    let slice = Slice::new(thread_id, NodeKind::Scope, name_id, start_nanos, duration_nanos);
    Ok(import.run.add_slice(&Slice { order, is_open, category_id, args, ..slice })?)
}

/// Adds an asynchronous span that has ended, or one that stays open.
fn add_async_span(
    open_event: OpenEvent,
    end_nanos: i64,
    is_open: bool,
    import: &mut Import,
) -> Result<(), ReaderError> {
    let OpenEvent { process_id, start_nanos, track_id, name_id, category_id, mut args, .. } =
        open_event;
    let args = import.run.args(&mut args)?;
    import.run.add_async_span(&AsyncSpan {
        start_nanos,
        duration_nanos: end_nanos.saturating_sub(start_nanos).max(0),
        process_id,
        track_id,
        name_id,
        is_open,
        category_id,
        args,
    })?;
    Ok(())
}

/// Returns the track of an asynchronous event. An `id2` may be local to the process.
fn async_track(event: &Event, process_id: u32, import: &mut Import) -> Option<AsyncTrack> {
    let (mut id, mut local_process) = (event.id().unwrap_or_default(), None);
    if let Some(id2) = event.id2() {
        let Some((value, is_local)) = parse_id2(id2) else {
            let cause = "an `id2` without an id";
            import.lose(LossCause::Unreadable, 1, event.offset, cause);
            return None;
        };
        local_process = is_local.then_some(process_id);
        id = event.unquote(value);
    }
    if let Some(scope) = event.scope() {
        id = format!("{scope}:{id}").into();
    }
    let category_id = event.category().map(|category| import.run.text_id(&category));
    Some(AsyncTrack {
        track_id: import.run.text_id(&id),
        category_id,
        name_id: import.run.text_id(&event.name()),
        process: local_process,
    })
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

/// Returns the latest time of a process.
fn process_end_nanos(process_id: u32, import: &Import) -> i64 {
    import.run.extent_nanos(process_id).map_or(i64::MIN, |(_, last)| last)
}
