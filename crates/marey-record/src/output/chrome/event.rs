//! Writes the events of a Chrome trace, its header and its footer as JSON.

use super::session_state::SessionState;
use marey_model::context::{NodeKind, ROOT_NAME};
use marey_model::json::Object;
use marey_model::loss::LossCause;
use marey_model::profile::Process;
use marey_model::proton_trace::{
    LAUNCH_FLOW, Metrics, ProcessPart, SORT_INDICES_PER_THREAD, lane_sort_index, process_title,
    write_call_stack, write_marey_part,
};
use marey_model::spool::{Activity, Span};
use marey_model::trace_json::Document;
use std::io::{self, Write};

/// The trace that is being written.
pub(super) struct Events<'a> {
    document: Document<'a>,
    pid: u64,
    base_nanos: i64,
    next_lane: u64,
    scope_count: u64,
}

/// The name, metrics and lane of an event.
pub(super) struct EventContext<'a> {
    /// The names from below the root to the node; empty for the root.
    pub(super) path: &'a [&'a str],
    pub(super) metrics: &'a Metrics<&'a str>,
    pub(super) lane: u64,
}

impl<'a> Events<'a> {
    /// Writes the header. Lanes below `thread_count` are reserved for the first lane of each
    /// thread.
    pub(super) fn begin(
        state: &SessionState,
        thread_count: u32,
        out: &'a mut dyn Write,
    ) -> io::Result<Self> {
        let mut document = Document::compact(out);
        if let Some(base_nanos) = state.base_unix_nanos() {
            document.member("baseTimeNanoseconds", base_nanos.to_string());
        }
        document.member("displayTimeUnit", "\"us\"");
        document.begin_events();
        let Process { pid, rank, host, .. } = &state.process;
        let mut events = Self {
            document,
            pid: *pid,
            base_nanos: state.base_nanos(),
            next_lane: thread_count.into(),
            scope_count: 0,
        };
        let title = process_title(*rank, host);
        events.describe("process_name", None, |args| args.text("name", &title))?;
        if let Some(rank) = *rank {
            events.describe("process_sort_index", None, |args| args.number("sort_index", rank))?;
        }
        Ok(events)
    }

    /// Writes a metadata event of the process or a lane.
    fn describe(
        &mut self,
        name: &'static str,
        lane: Option<u64>,
        fill_args: impl FnOnce(&mut Object),
    ) -> io::Result<()> {
        self.document.event(|event| {
            event.object("args", fill_args);
            event.word("name", name);
            event.word("ph", "M");
            event.number("pid", self.pid);
            if let Some(lane) = lane {
                event.number("tid", lane);
            }
        })
    }

    /// Returns an unused lane.
    pub(super) fn new_lane(&mut self) -> u64 {
        self.next_lane += 1;
        self.next_lane - 1
    }

    /// Names a lane. The tuple is the thread's number and kernel id, and the index of the lane in
    /// the thread.
    pub(super) fn name_lane(
        &mut self,
        lane: u64,
        title: &str,
        (thread, os_id, index): (u32, u64, u64),
    ) -> io::Result<()> {
        self.describe("thread_name", Some(lane), |args| {
            args.text("name", title);
            args.number("os_id", os_id);
        })?;
        // The kernel id of the main thread equals the pid.
        let sort_index = lane_sort_index(thread, os_id == self.pid, index);
        self.sort_lane(lane, sort_index)
    }

    fn sort_lane(&mut self, lane: u64, sort_index: u64) -> io::Result<()> {
        self.describe("thread_sort_index", Some(lane), |args| args.number("sort_index", sort_index))
    }

    /// Writes a scope, which ends at the end of the trace if it `is_open`.
    pub(super) fn scope(
        &mut self,
        event: &EventContext,
        kind: NodeKind,
        span: &Span,
        is_open: bool,
    ) -> io::Result<()> {
        self.scope_count += 1;
        let since_base_nanos = self.since_base_nanos(span.start_nanos);
        self.document.event(|object| {
            object.object("args", |args| {
                write_call_stack(event.path.iter().copied(), args);
                if kind != NodeKind::Scope {
                    args.word("kind", kind.as_str());
                }
                event.metrics.write(args);
                if is_open {
                    args.value("open", true);
                }
                args.number("scope_id", self.scope_count);
            });
            object.word("cat", if event.metrics.is_empty() { "scope" } else { "metric" });
            object.micros("dur", span.duration_nanos().into());
            write_name(event, object);
            object.word("ph", "X");
            write_location(self.pid, event.lane, since_base_nanos, object);
        })
    }

    /// Names the lane of a stream.
    pub(super) fn name_stream(&mut self, lane: u64, title: &str) -> io::Result<()> {
        self.describe("thread_name", Some(lane), |args| args.text("name", title))?;
        // Below all threads.
        self.sort_lane(lane, lane.saturating_mul(SORT_INDICES_PER_THREAD))
    }

    /// Writes a device activity, and the end of the flow from its launch.
    pub(super) fn activity(
        &mut self,
        event: &EventContext,
        category: &'static str,
        activity: &Activity,
    ) -> io::Result<()> {
        let since_base_nanos = self.since_base_nanos(activity.start_nanos);
        self.document.event(|object| {
            object.object("args", |args| {
                write_call_stack(event.path.iter().copied(), args);
                if activity.bytes > 0 {
                    args.number("bytes", activity.bytes);
                }
                if activity.correlation_id > 0 {
                    args.number("correlation", activity.correlation_id.into());
                }
            });
            object.word("cat", category);
            object.micros("dur", activity.duration_nanos.into());
            write_name(event, object);
            object.word("ph", "X");
            write_location(self.pid, event.lane, since_base_nanos, object);
        })?;
        if activity.launch.is_some() && activity.correlation_id > 0 {
            self.document.event(|object| {
                object.word("bp", "e");
                write_flow("f", activity.correlation_id, object);
                write_location(self.pid, event.lane, since_base_nanos, object);
            })?;
        }
        Ok(())
    }

    /// Writes the start of the flow from a launch to its activity.
    pub(super) fn launch(&mut self, lane: u64, span: &Span, correlation_id: u32) -> io::Result<()> {
        let since_base_nanos = self.since_base_nanos(span.start_nanos);
        self.document.event(|object| {
            write_flow("s", correlation_id, object);
            write_location(self.pid, lane, since_base_nanos, object);
        })
    }

    /// Writes an instant, or metrics that belong to no event of a scope.
    pub(super) fn instant(
        &mut self,
        event: &EventContext,
        category: &'static str,
        time_nanos: i64,
    ) -> io::Result<()> {
        let since_base_nanos = self.since_base_nanos(time_nanos);
        self.document.event(|object| {
            object.object("args", |args| {
                write_call_stack(event.path.iter().copied(), args);
                event.metrics.write(args);
            });
            object.word("cat", category);
            write_name(event, object);
            object.word("ph", "i");
            object.number("pid", self.pid);
            object.word("s", "t");
            object.number("tid", event.lane);
            object.micros("ts", since_base_nanos);
        })
    }

    /// Writes the footer, which is marey's own part.
    pub(super) fn end(
        mut self,
        state: &SessionState,
        losses: &[(LossCause, u64)],
        torn_bytes: u64,
    ) -> io::Result<()> {
        self.document.end_events();
        let Process { pid, rank, ref host, start_unix_nanos, .. } = state.process;
        let part = ProcessPart { host, pid, rank, start_unix_nanos };
        let losses = state.losses_with(losses).into_iter();
        let losses = losses.map(|(cause, count)| (cause.as_str(), count));
        self.document.object("marey", |marey| write_marey_part(losses, &part, torn_bytes, marey));
        self.document.finish()
    }

    /// Returns a time relative to the base of the trace.
    fn since_base_nanos(&self, time_nanos: i64) -> i128 {
        i128::from(time_nanos) - i128::from(self.base_nanos)
    }
}

fn write_name(event: &EventContext, object: &mut Object) {
    let name = event.path.last().copied().unwrap_or(ROOT_NAME);
    if event.metrics.is_empty() {
        object.text("name", name);
    } else {
        object.text("name", &event.metrics.title(name));
    }
}

fn write_flow(phase: &'static str, id: u32, object: &mut Object) {
    object.word("cat", "flow");
    object.word("name", LAUNCH_FLOW);
    object.word("ph", phase);
    object.number("id", id.into());
}

fn write_location(pid: u64, lane: u64, since_base_nanos: i128, object: &mut Object) {
    object.number("pid", pid);
    object.number("tid", lane);
    object.micros("ts", since_base_nanos);
}
