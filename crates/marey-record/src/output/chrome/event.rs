//! The text of a trace: header, lanes, events and footer.

use super::metrics::{event_title, format_value};
use super::session_state::SessionState;
use crate::output::json::string;
use marey_model::context::{NodeKind, ROOT_NAME};
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::profile::Process;
use marey_model::spool::{Activity, Span};
use std::io::{self, Write};

/// The version of marey's own part of the trace.
const VERSION: u64 = 1;

/// The number of sort indices reserved for each thread, so that its lanes are adjacent.
const LANES_A_THREAD: u64 = 1000;

/// The trace that is being written.
pub(super) struct Events<'a> {
    out: &'a mut dyn Write,
    /// The event that is being formatted.
    buffer: Vec<u8>,
    pid: u64,
    base_nanos: i64,
    free_lane: u64,
    scopes: u64,
    is_first: bool,
}

/// The name, metrics and lane of an event.
pub(super) struct Event<'a> {
    /// The names from below the root to the node; empty for the root.
    pub(super) path: &'a [&'a str],
    pub(super) metrics: &'a [(&'a str, MetricValue)],
    pub(super) lane: u64,
}

impl<'a> Events<'a> {
    /// Writes the header. Lanes below `threads` are reserved for the first lane of each thread.
    pub(super) fn begin(
        state: &SessionState,
        threads: u32,
        out: &'a mut dyn Write,
    ) -> io::Result<Self> {
        let mut events = Self {
            out,
            buffer: Vec::new(),
            pid: state.process.pid,
            base_nanos: state.base_nanos(),
            free_lane: threads.into(),
            scopes: 0,
            is_first: true,
        };
        events.buffer.push(b'{');
        if let Some(base) = state.base_unix_nanos() {
            write!(events.buffer, "\"baseTimeNanoseconds\":{base},")?;
        }
        events.buffer.extend_from_slice(b"\"displayTimeUnit\":\"us\",\"traceEvents\":[");
        events.flush()?;
        events.process(&state.process)?;
        Ok(events)
    }

    fn process(&mut self, process: &Process) -> io::Result<()> {
        let mut details: Vec<String> =
            process.rank.map(|rank| format!("rank {rank}")).into_iter().collect();
        if !process.host.is_empty() {
            details.push(process.host.clone());
        }
        let name = match details.as_slice() {
            [] => "Trace".to_owned(),
            details => format!("Trace ({})", details.join(", ")),
        };
        let pid = self.pid;
        let buffer = self.begin_event();
        buffer.write_all(b"{\"args\":{\"name\":")?;
        string(buffer, &name)?;
        write!(buffer, "}},\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{pid}}}")?;
        if let Some(rank) = process.rank {
            write!(
                self.begin_event(),
                "{{\"args\":{{\"sort_index\":{rank}}},\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":{pid}}}"
            )?;
        }
        self.flush()
    }

    /// Returns an unused lane.
    pub(super) fn new_lane(&mut self) -> u64 {
        self.free_lane += 1;
        self.free_lane - 1
    }

    /// Names a lane. The tuple is the thread's number and kernel id, and the index of the lane in
    /// the thread.
    pub(super) fn name_lane(
        &mut self,
        lane: u64,
        name: &str,
        (thread, os_id, index): (u32, u64, usize),
    ) -> io::Result<()> {
        let pid = self.pid;
        let buffer = self.begin_event();
        buffer.write_all(b"{\"args\":{\"name\":")?;
        string(buffer, name)?;
        write!(
            buffer,
            ",\"os_id\":{os_id}}},\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{pid},\"tid\":{lane}}}"
        )?;
        // The kernel id of the main thread equals the pid; that thread is listed first.
        let position = if os_id == pid { 0 } else { u64::from(thread) + 1 };
        let sort_index = position * LANES_A_THREAD + (index as u64).min(LANES_A_THREAD - 1);
        write!(
            self.begin_event(),
            "{{\"args\":{{\"sort_index\":{sort_index}}},\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":{pid},\"tid\":{lane}}}"
        )?;
        self.flush()
    }

    /// Writes a scope, which ends at the end of the trace if it `is_open`.
    pub(super) fn scope(
        &mut self,
        event: &Event,
        kind: NodeKind,
        span: &Span,
        is_open: bool,
    ) -> io::Result<()> {
        self.scopes += 1;
        let (pid, scope_id, base_nanos) = (self.pid, self.scopes, self.base_nanos);
        let buffer = self.begin_event();
        write_call_stack(event, buffer)?;
        if kind != NodeKind::Scope {
            put(buffer, ",\"kind\":\"");
            put(buffer, kind.as_str());
            put(buffer, "\"");
        }
        write_metrics(event, buffer)?;
        if is_open {
            buffer.write_all(b",\"open\":true")?;
        }
        put(buffer, ",\"scope_id\":");
        put_number(buffer, scope_id);
        let is_scope = event.metrics.is_empty();
        put(
            buffer,
            if is_scope { "},\"cat\":\"scope\",\"dur\":" } else { "},\"cat\":\"metric\",\"dur\":" },
        );
        put_micros(buffer, span.duration_nanos().into());
        write_name(event, buffer)?;
        put(buffer, ",\"ph\":\"X\"");
        put_location(
            buffer,
            pid,
            event.lane,
            i128::from(span.start_nanos) - i128::from(base_nanos),
        );
        self.flush()
    }

    /// Names the lane of a stream.
    pub(super) fn name_stream(&mut self, lane: u64, name: &str) -> io::Result<()> {
        let pid = self.pid;
        let buffer = self.begin_event();
        buffer.write_all(b"{\"args\":{\"name\":")?;
        string(buffer, name)?;
        write!(buffer, "}},\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{pid},\"tid\":{lane}}}")?;
        // Below all threads.
        let sort_index = lane.saturating_mul(LANES_A_THREAD);
        write!(
            self.begin_event(),
            "{{\"args\":{{\"sort_index\":{sort_index}}},\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":{pid},\"tid\":{lane}}}"
        )?;
        self.flush()
    }

    /// Writes a device activity, and the end of the flow from its launch.
    pub(super) fn activity(
        &mut self,
        event: &Event,
        category: &str,
        activity: &Activity,
    ) -> io::Result<()> {
        let (pid, lane) = (self.pid, event.lane);
        let from_base = i128::from(activity.start_nanos) - i128::from(self.base_nanos);
        let buffer = self.begin_event();
        write_call_stack(event, buffer)?;
        if activity.bytes > 0 {
            put(buffer, ",\"bytes\":");
            put_number(buffer, activity.bytes);
        }
        if activity.correlation > 0 {
            put(buffer, ",\"correlation\":");
            put_number(buffer, activity.correlation.into());
        }
        put(buffer, "},\"cat\":\"");
        put(buffer, category);
        put(buffer, "\",\"dur\":");
        put_micros(buffer, activity.duration_nanos.into());
        write_name(event, buffer)?;
        put(buffer, ",\"ph\":\"X\"");
        put_location(buffer, pid, lane, from_base);
        if activity.launch.is_some() && activity.correlation > 0 {
            self.flow(FLOW_END, activity.correlation, lane, from_base);
        }
        self.flush()
    }

    /// Writes the start of the flow from a launch to its activity.
    pub(super) fn launch(&mut self, lane: u64, span: &Span, correlation: u32) -> io::Result<()> {
        let from_base = i128::from(span.start_nanos) - i128::from(self.base_nanos);
        self.flow(FLOW_START, correlation, lane, from_base);
        self.flush()
    }

    fn flow(&mut self, head: &str, id: u32, lane: u64, from_base: i128) {
        let pid = self.pid;
        let buffer = self.begin_event();
        put(buffer, head);
        put_number(buffer, id.into());
        put_location(buffer, pid, lane, from_base);
    }

    /// Writes an instant, or metrics that belong to no event of a scope.
    pub(super) fn instant(
        &mut self,
        event: &Event,
        category: &str,
        time_nanos: i64,
    ) -> io::Result<()> {
        let (pid, base_nanos) = (self.pid, self.base_nanos);
        let buffer = self.begin_event();
        write_call_stack(event, buffer)?;
        write_metrics(event, buffer)?;
        write!(buffer, "}},\"cat\":\"{category}\"")?;
        write_name(event, buffer)?;
        write!(buffer, ",\"ph\":\"i\",\"pid\":{pid},\"s\":\"t\",\"tid\":{},\"ts\":", event.lane)?;
        put_micros(buffer, i128::from(time_nanos) - i128::from(base_nanos));
        buffer.push(b'}');
        self.flush()
    }

    /// Writes the footer, which is marey's own part.
    pub(super) fn end(
        mut self,
        state: &SessionState,
        losses: &[(LossCause, u64)],
        torn_bytes: u64,
    ) -> io::Result<()> {
        let tail = &mut self.buffer;
        tail.write_all(b"\n],\"marey\":{\"losses\":{")?;
        for (index, (cause, count)) in state.losses_with(losses).iter().enumerate() {
            write!(tail, "{}\"{}\":{count}", if index == 0 { "" } else { "," }, cause.as_str())?;
        }
        let process = &state.process;
        tail.write_all(b"},\"process\":{\"host\":")?;
        string(tail, &process.host)?;
        write!(tail, ",\"pid\":{},\"rank\":", process.pid)?;
        match process.rank {
            Some(rank) => write!(tail, "{rank}")?,
            None => tail.write_all(b"null")?,
        }
        write!(tail, ",\"start_unix_nanos\":{}}}", process.start_unix_nanos)?;
        writeln!(tail, ",\"torn_bytes\":{torn_bytes},\"version\":{VERSION}}}}}")?;
        self.flush()
    }

    fn begin_event(&mut self) -> &mut Vec<u8> {
        self.buffer.extend_from_slice(if self.is_first { b"\n" } else { b",\n" });
        self.is_first = false;
        &mut self.buffer
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Opens the event and its arguments.
fn write_call_stack(event: &Event, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.write_all(b"{\"args\":{\"call_stack\":[")?;
    string(buffer, ROOT_NAME)?;
    for name in event.path {
        buffer.push(b',');
        string(buffer, name)?;
    }
    buffer.push(b']');
    Ok(())
}

fn write_metrics(event: &Event, buffer: &mut Vec<u8>) -> io::Result<()> {
    for (index, (name, value)) in event.metrics.iter().enumerate() {
        buffer.write_all(if index == 0 { b",\"metrics\":{" } else { b"," })?;
        string(buffer, name)?;
        buffer.push(b':');
        string(buffer, &format_value(value))?;
    }
    buffer.write_all(if event.metrics.is_empty() { b"" } else { b"}" })
}

fn write_name(event: &Event, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.write_all(b",\"name\":")?;
    let name = event.path.last().copied().unwrap_or(ROOT_NAME);
    if event.metrics.is_empty() {
        return string(buffer, name);
    }
    string(buffer, &event_title(name, event.metrics))
}

/// The beginnings of flow events, up to their id.
const FLOW_START: &str = "{\"cat\":\"flow\",\"name\":\"launch->kernel\",\"ph\":\"s\",\"id\":";
const FLOW_END: &str =
    "{\"bp\":\"e\",\"cat\":\"flow\",\"name\":\"launch->kernel\",\"ph\":\"f\",\"id\":";

/// Writes process, lane and timestamp, and closes the event.
fn put_location(buffer: &mut Vec<u8>, pid: u64, lane: u64, from_base_nanos: i128) {
    put(buffer, ",\"pid\":");
    put_number(buffer, pid);
    put(buffer, ",\"tid\":");
    put_number(buffer, lane);
    put(buffer, ",\"ts\":");
    put_micros(buffer, from_base_nanos);
    buffer.push(b'}');
}

#[inline]
fn put(buffer: &mut Vec<u8>, text: &str) {
    buffer.extend_from_slice(text.as_bytes());
}

/// Writes an integer digit by digit: `write!` takes several times as long.
fn put_number(buffer: &mut Vec<u8>, mut number: u64) {
    const MAX_DIGITS: usize = 20;
    let mut digits = [b'0'; MAX_DIGITS];
    let mut first = MAX_DIGITS;
    loop {
        first -= 1;
        digits[first] += (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    buffer.extend_from_slice(&digits[first..]);
}

/// Writes microseconds with three decimals; a float would round them.
fn put_micros(buffer: &mut Vec<u8>, nanos: i128) {
    if nanos < 0 {
        buffer.push(b'-');
    }
    let nanos = nanos.unsigned_abs();
    let decimals = (nanos % 1000) as u64;
    match u64::try_from(nanos) {
        Ok(nanos) => put_number(buffer, nanos / 1000),
        Err(_too_wide) => put(buffer, &(nanos / 1000).to_string()),
    }
    buffer.push(b'.');
    let digit = |value: u64| b'0' + (value % 10) as u8;
    buffer.extend_from_slice(&[digit(decimals / 100), digit(decimals / 10), digit(decimals)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_exact() {
        for (nanos, expected) in [
            (0, "0.000"),
            (7, "0.007"),
            (1_000, "1.000"),
            (-1, "-0.001"),
            (-1_234_567, "-1234.567"),
            (9_007_199_254_740_993_001, "9007199254740993.001"),
            (i128::from(i64::MAX) - i128::from(i64::MIN), "18446744073709551.615"),
        ] {
            let mut buffer = Vec::new();
            put_micros(&mut buffer, nanos);
            assert_eq!(String::from_utf8(buffer).unwrap(), expected);
        }
    }
}
