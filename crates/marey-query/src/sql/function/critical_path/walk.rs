//! Finds the critical path through a window of time by a walk backwards from its end.
//!
//! At each moment, one thread or one device activity is on the path. The walk continues with the
//! event that it waited for last. A device activity begins once three things have happened: the
//! previous activity of its stream has ended, the activities of other streams that it waits for
//! have ended, and it is launched. The walk follows the latest of these. A thread continues with
//! itself, unless it returns from a call that waited for a device, or is idle while the thread that
//! it works for is active. So each moment is in exactly one segment, and the segments add up to the
//! window.

use super::event::{Bound, Event, Kind, SKEW_NANOS, Segment, device_of};
use super::trace::{Activity, ActivityId, Position, WindowTrace, indices_of_kind};

/// Longest time in nanoseconds that an activity takes to start once it is launched and its stream
/// is free. A longer gap has another reason. The view `gpu_gaps` uses the same value.
const MAX_START_DELAY_NANOS: i64 = 30_000;

/// Longest time in nanoseconds between the end of an activity on another stream and the start of an
/// activity that is assumed to have waited for it, if no wait was recorded.
const MAX_WAKE_DELAY_NANOS: i64 = 10_000;

/// Returns the path through the window from `start` to `end`: segments in ascending order that
/// cover the window without gaps. The walk begins with the last activity if it ends at or after the
/// end of the window, otherwise with the thread of the last step. The time is proportional to n log
/// n.
pub(super) fn critical_path(events: &[Event], start: i64, end: i64) -> Vec<Segment> {
    if start >= end {
        return Vec::new();
    }
    let mut walk =
        Walk { trace: WindowTrace::new(events), start, end, time: end, segments: Vec::new() };
    walk.run();
    walk.into_path()
}

/// Returns the window of the path: from the first step to the last, or all events if there are no
/// steps.
pub(super) fn find_window(events: &[Event]) -> Option<(i64, i64)> {
    let bounds_of = |is_counted: fn(Kind) -> bool| {
        let counted = events.iter().filter(|event| is_counted(event.kind));
        counted.fold(None, |window: Option<(i64, i64)>, event| {
            let (start, end) = window.unwrap_or((event.start, event.start));
            Some((start.min(event.start), end.max(event.end).max(event.start)))
        })
    };
    bounds_of(|kind| kind == Kind::Step)
        .or_else(|| bounds_of(|kind| kind.is_host() || kind.is_device()))
}

/// Returns the parts of a path in each step, each with the index of the step's event. If there are
/// no steps, returns the whole path with `None`. Steps may overlap.
pub(super) fn split_by_step(path: &[Segment], events: &[Event]) -> Vec<(Option<usize>, Segment)> {
    let mut steps = indices_of_kind(events, |kind| kind == Kind::Step);
    if steps.is_empty() {
        return path.iter().map(|&segment| (None, segment)).collect();
    }
    steps.retain(|&step| events[step].start < events[step].end);
    steps.sort_by_key(|&step| (events[step].start, events[step].end));
    let mut parts = Vec::new();
    for step in steps {
        let (start, end) = (events[step].start, events[step].end);
        let first = path.partition_point(|segment| segment.end <= start);
        let inner_segments = path[first..].iter().take_while(|segment| segment.start < end);
        parts.extend(inner_segments.map(|&segment| {
            let (start, end) = (segment.start.max(start), segment.end.min(end));
            (Some(step), Segment { start, end, ..segment })
        }));
    }
    parts
}

/// The activity that another one had to wait for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Predecessor {
    /// The time from which the other activity no longer had to wait.
    end: i64,
    id: ActivityId,
}

/// The state of the walk.
struct Walk<'a> {
    trace: WindowTrace<'a>,
    start: i64,
    end: i64,
    /// The current time. Everything later is in `segments`.
    time: i64,
    /// In descending order of time.
    segments: Vec<Segment>,
}

impl Walk<'_> {
    fn run(&mut self) {
        let mut position = self.last_position();
        // Nearly every iteration moves back in time by a piece or an activity. The limit ends a
        // walk that is stuck.
        let mut iterations_left = 16 + 8 * self.trace.events.len();
        while let Some(current) = position
            && self.time > self.start
            && iterations_left > 0
        {
            iterations_left -= 1;
            position = match current {
                Position::Thread(thread) => Some(self.continue_from_thread(thread)),
                Position::Device(activity) => self.continue_from_activity(activity),
            };
        }
        self.add_segment(self.start, Bound::Unknown, None, None);
    }

    /// Returns the position at the end of the window.
    fn last_position(&mut self) -> Option<Position> {
        let trace = &self.trace;
        let launched = (0..trace.streams.len())
            .filter_map(|stream| trace.last_launched(stream, self.end, i64::MAX));
        let last = launched.max_by_key(|&id| trace.activity(id).end);
        let last =
            last.filter(|&id| trace.main_thread.is_none() || trace.activity(id).end >= self.end);
        if let Some(id) = last {
            self.time = self.time.max(trace.activity(id).end);
            return Some(Position::Device(id));
        }
        trace.main_thread.map(Position::Thread)
    }

    /// Moves back to `start`, and adds the time in between as a segment.
    fn add_segment(&mut self, start: i64, bound: Bound, lane: Option<u64>, event: Option<usize>) {
        let (segment_start, segment_end) = (start.max(self.start), self.time.min(self.end));
        self.time = self.time.min(start);
        if segment_start >= segment_end {
            return;
        }
        match self.segments.last_mut() {
            Some(last) if (last.bound, last.lane, last.event) == (bound, lane, event) => {
                last.start = segment_start;
            }
            _ => self.segments.push(Segment {
                start: segment_start,
                end: segment_end,
                bound,
                lane,
                event,
            }),
        }
    }

    /// Adds what a thread did last before the current time. Returns where the walk continues.
    fn continue_from_thread(&mut self, number: usize) -> Position {
        let thread = &self.trace.threads[number];
        let lane = Some(thread.lane);
        let piece = thread.piece_before(self.time);
        if let Some(event) = piece.event
            && let Some(activity) = self.trace.awaited_activity(number, event, self.time)
        {
            let done = self.trace.activity(activity).end.min(self.time);
            if done > piece.start {
                self.add_segment(done, Bound::Synchronization, lane, Some(event));
                return Position::Device(activity);
            }
        }
        if self.trace.main_thread == Some(number) {
            if let Some((busy, backward)) = self.backward_before(self.time)
                && busy > piece.start
                && !piece.event.is_some_and(|event| self.trace.events[event].kind.is_call())
            {
                self.add_segment(busy, Bound::Cpu, lane, piece.event);
                return Position::Thread(backward);
            }
        } else if piece.event.is_none()
            && let Some(main_thread) = self.trace.main_thread
            && self.was_active_since(main_thread, piece.start)
        {
            return Position::Thread(main_thread);
        }
        let is_loading =
            piece.event.is_some_and(|event| self.trace.events[event].kind == Kind::DataLoading);
        let bound = if is_loading { Bound::DataLoading } else { Bound::Cpu };
        self.add_segment(piece.start, bound, lane, piece.event);
        Position::Thread(number)
    }

    /// Returns the autograd thread that was last in a span before `time`, and the end of that time.
    fn backward_before(&self, time: i64) -> Option<(i64, usize)> {
        let threads = self.trace.threads.iter().enumerate();
        let backward = threads.filter(|(number, thread)| {
            thread.is_backward && self.trace.main_thread != Some(*number)
        });
        backward.filter_map(|(number, thread)| Some((thread.last_busy(time)?, number))).max()
    }

    /// Whether a thread began or ended a span between `since` and the current time. True if `since`
    /// is `i64::MIN`.
    fn was_active_since(&self, thread: usize, since: i64) -> bool {
        let piece = self.trace.threads[thread].piece_before(self.time);
        since == i64::MIN || piece.start > since || piece.end == self.time
    }

    /// Adds an activity, and why it did not begin earlier. Returns where the walk continues.
    fn continue_from_activity(&mut self, id: ActivityId) -> Option<Position> {
        let Activity { start, event, call, .. } = *self.trace.activity(id);
        let (lane, kind) = (self.trace.events[event].lane, self.trace.events[event].kind);
        let bound = match kind {
            Kind::Communication => Bound::GpuCommunication,
            Kind::Memory | Kind::Pageable => Bound::GpuMemory,
            _ => Bound::GpuCompute,
        };
        self.add_segment(start, bound, Some(lane), Some(event));

        let predecessor = self.find_predecessor(id);
        let call = call.map(|call| &self.trace.events[call]);
        let launched = call.map_or(i64::MIN, |call| call.end.min(start));
        let ready = predecessor.map_or(launched, |before| launched.max(before.end));
        if start.saturating_sub(ready) > MAX_START_DELAY_NANOS
            && let Some(other) = self.find_delaying_activity(id, ready)
        {
            let done = self.trace.activity(other).end.min(start);
            self.add_segment(done, Bound::GpuKernelKernelOverhead, Some(lane), Some(event));
            return Some(Position::Device(other));
        }
        if let Some(call) = call
            && let launch_start = call.start.min(start)
            && predecessor.is_none_or(|before| before.end < launch_start)
            && let Some(thread) = self.trace.thread(call.lane)
        {
            self.add_segment(launch_start, Bound::GpuKernelLaunchOverhead, Some(lane), Some(event));
            return Some(Position::Thread(thread));
        }
        if let Some(Predecessor { end, id }) = predecessor {
            self.add_segment(end, Bound::GpuKernelKernelOverhead, Some(lane), Some(event));
            return Some(Position::Device(id));
        }
        self.trace.main_thread.map(Position::Thread)
    }

    /// Returns the activity that probably delayed another one, which was ready long before it
    /// began. It is inferred from times: an activity of the device that ended just before the other
    /// began. If there is none, a kernel that was running on the device and may have left no room
    /// until its last blocks.
    fn find_delaying_activity(&self, id: ActivityId, ready: i64) -> Option<ActivityId> {
        let Activity { start, event, .. } = *self.trace.activity(id);
        let device = device_of(self.trace.events[event].lane);
        let ended = self.trace.last_ended(Some(device), start).filter(|&other| {
            let done = self.trace.activity(other).end;
            done > ready && start.saturating_sub(done) <= MAX_WAKE_DELAY_NANOS
        });
        ended.or_else(|| {
            let streams = &self.trace.streams;
            let first = streams.partition_point(|stream| device_of(stream.lane) < device);
            let count = streams[first..].partition_point(|stream| device_of(stream.lane) == device);
            let others = (first..first + count).filter(|&stream| stream != id.stream);
            let running =
                others.filter_map(|stream| self.trace.last_launched(stream, i64::MAX, start));
            let running = running.filter(|&other| {
                let other = self.trace.activity(other);
                let kind = self.trace.events[other.event].kind;
                other.end > start && kind == Kind::Compute
            });
            running.max_by_key(|&other| (self.trace.activity(other).start, other))
        })
    }

    /// Returns the predecessor of an activity that ended last, on its own stream or on a stream
    /// that it waits for.
    fn find_predecessor(&self, id: ActivityId) -> Option<Predecessor> {
        let stream = &self.trace.streams[id.stream];
        let activity = self.trace.activity(id);
        let previous = id.number.checked_sub(1).map(|number| &stream.activities[number]);
        let on_stream =
            previous.map(|previous| ActivityId { stream: id.stream, number: previous.latest });
        let since = previous.map_or(i64::MIN, |previous| previous.launch_time);
        let first = stream.waits.partition_point(|wait| wait.time <= since);
        let waits =
            stream.waits[first..].iter().take_while(|wait| wait.time <= activity.launch_time);
        let others = waits.map(|wait| wait.awaited).filter(|&other| {
            let end = self.trace.activity(other).end;
            end.saturating_sub(activity.start) <= SKEW_NANOS
        });
        let all =
            on_stream.into_iter().chain(others).map(|before| (before, self.trace.activity(before)));
        let begun = all.filter(|(_, before)| before.start < activity.start);
        begun.map(|(id, before)| Predecessor { end: before.end.min(activity.start), id }).max()
    }

    fn into_path(mut self) -> Vec<Segment> {
        self.segments.reverse();
        self.segments
    }
}
