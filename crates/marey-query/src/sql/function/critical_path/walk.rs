//! Finds the critical path through a window of time by a walk backwards from its end.
//!
//! At each moment, one thread or one device activity is on the path. The walk continues with the
//! event that it waited for last. A device activity begins once three things have happened: the
//! previous activity of its stream has ended, the activities of other streams that it waits for
//! have ended, and it is launched. The walk follows the latest of these. A thread continues with
//! itself, unless it returns from a call that waited for a device, or is idle while the thread that
//! it works for is active. So each moment is in exactly one segment, and the segments add up to the
//! window.

use super::event::{Bound, Event, EventKind, SKEW_NANOS, Segment, device_of};
use super::trace::{Activity, ActivityId, Position, WindowTrace, indices_of_kind};

/// Longest time in nanoseconds that an activity takes to start once it is launched and its stream
/// is free. A longer gap has another reason. The view `gpu_gaps` uses the same value.
const MAX_START_DELAY_NANOS: i64 = 30_000;

/// Longest time in nanoseconds between the end of an activity on another stream and the start of an
/// activity that is assumed to have waited for it, if no wait was recorded.
const MAX_WAKE_DELAY_NANOS: i64 = 10_000;

/// Returns the path through the window from `start_nanos` to `end_nanos`: segments in ascending
/// order that cover the window without gaps. The walk begins with the last activity if it ends at
/// or after the end of the window, otherwise with the thread of the last step. The time is
/// proportional to n log n.
pub(super) fn critical_path(events: &[Event], start_nanos: i64, end_nanos: i64) -> Vec<Segment> {
    if start_nanos >= end_nanos {
        return Vec::new();
    }
    let mut walk = Walk {
        trace: WindowTrace::new(events),
        start_nanos,
        end_nanos,
        time_nanos: end_nanos,
        segments: Vec::new(),
    };
    walk.run();
    walk.into_path()
}

/// Returns the window of the path: from the first step to the last, or all events if there are no
/// steps.
pub(super) fn find_window(events: &[Event]) -> Option<(i64, i64)> {
    let window_of = |is_counted: fn(EventKind) -> bool| {
        let counted = events.iter().filter(|event| is_counted(event.kind));
        counted.fold(None, |window: Option<(i64, i64)>, event| {
            let (start_nanos, end_nanos) = window.unwrap_or((event.start_nanos, event.start_nanos));
            Some((
                start_nanos.min(event.start_nanos),
                end_nanos.max(event.end_nanos).max(event.start_nanos),
            ))
        })
    };
    window_of(|kind| kind == EventKind::Step)
        .or_else(|| window_of(|kind| kind.is_host() || kind.is_device()))
}

/// Returns the parts of a path in each step, each with the index of the step's event. If there are
/// no steps, returns the whole path with `None`. Steps may overlap.
pub(super) fn split_by_step(path: &[Segment], events: &[Event]) -> Vec<(Option<usize>, Segment)> {
    let mut steps = indices_of_kind(events, |kind| kind == EventKind::Step);
    if steps.is_empty() {
        return path.iter().map(|&segment| (None, segment)).collect();
    }
    steps.retain(|&step| events[step].start_nanos < events[step].end_nanos);
    steps.sort_by_key(|&step| (events[step].start_nanos, events[step].end_nanos));
    let mut step_segments = Vec::new();
    for step in steps {
        let (start_nanos, end_nanos) = (events[step].start_nanos, events[step].end_nanos);
        let first = path.partition_point(|segment| segment.end_nanos <= start_nanos);
        let inner_segments =
            path[first..].iter().take_while(|segment| segment.start_nanos < end_nanos);
        step_segments.extend(inner_segments.map(|&segment| {
            let (start_nanos, end_nanos) =
                (segment.start_nanos.max(start_nanos), segment.end_nanos.min(end_nanos));
            (Some(step), Segment { start_nanos, end_nanos, ..segment })
        }));
    }
    step_segments
}

/// The activity that another one had to wait for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Predecessor {
    /// The time from which the other activity no longer had to wait.
    end_nanos: i64,
    id: ActivityId,
}

/// The state of the walk.
struct Walk<'a> {
    trace: WindowTrace<'a>,
    start_nanos: i64,
    end_nanos: i64,
    /// The current time. Everything later is in `segments`.
    time_nanos: i64,
    /// In descending order of time.
    segments: Vec<Segment>,
}

impl Walk<'_> {
    fn run(&mut self) {
        let mut position = self.last_position();
        // Nearly every iteration moves back in time by an interval or an activity. The limit ends a
        // walk that is stuck.
        let mut iterations_left = 16 + 8 * self.trace.events.len();
        while let Some(current) = position
            && self.time_nanos > self.start_nanos
            && iterations_left > 0
        {
            iterations_left -= 1;
            position = match current {
                Position::Thread(thread) => Some(self.continue_from_thread(thread)),
                Position::Device(activity) => self.continue_from_activity(activity),
            };
        }
        self.add_segment(self.start_nanos, Bound::Unknown, None, None);
    }

    /// Returns the position at the end of the window.
    fn last_position(&mut self) -> Option<Position> {
        let trace = &self.trace;
        let launched = (0..trace.streams.len())
            .filter_map(|stream| trace.last_launched(stream, self.end_nanos, i64::MAX));
        let last = launched.max_by_key(|&id| trace.activity(id).end_nanos);
        let last = last.filter(|&id| {
            trace.main_thread_index.is_none() || trace.activity(id).end_nanos >= self.end_nanos
        });
        if let Some(id) = last {
            self.time_nanos = self.time_nanos.max(trace.activity(id).end_nanos);
            return Some(Position::Device(id));
        }
        trace.main_thread_index.map(Position::Thread)
    }

    /// Moves back to `start_nanos`, and adds the time in between as a segment.
    fn add_segment(
        &mut self,
        start_nanos: i64,
        bound: Bound,
        lane: Option<u64>,
        event_index: Option<usize>,
    ) {
        let (segment_start_nanos, segment_end_nanos) =
            (start_nanos.max(self.start_nanos), self.time_nanos.min(self.end_nanos));
        self.time_nanos = self.time_nanos.min(start_nanos);
        if segment_start_nanos >= segment_end_nanos {
            return;
        }
        match self.segments.last_mut() {
            Some(last)
                if (last.bound, last.lane, last.event_index) == (bound, lane, event_index) =>
            {
                last.start_nanos = segment_start_nanos;
            }
            _ => self.segments.push(Segment {
                start_nanos: segment_start_nanos,
                end_nanos: segment_end_nanos,
                bound,
                lane,
                event_index,
            }),
        }
    }

    /// Adds what a thread did last before the current time. Returns where the walk continues.
    fn continue_from_thread(&mut self, thread_index: usize) -> Position {
        let thread = &self.trace.threads[thread_index];
        let lane = Some(thread.lane);
        let interval = thread.interval_before(self.time_nanos);
        if let Some(event_index) = interval.event_index
            && let Some(activity) =
                self.trace.awaited_activity(thread_index, event_index, self.time_nanos)
        {
            let done_nanos = self.trace.activity(activity).end_nanos.min(self.time_nanos);
            if done_nanos > interval.start_nanos {
                self.add_segment(done_nanos, Bound::Synchronization, lane, Some(event_index));
                return Position::Device(activity);
            }
        }
        if self.trace.main_thread_index == Some(thread_index) {
            if let Some((busy_until_nanos, backward)) = self.backward_before(self.time_nanos)
                && busy_until_nanos > interval.start_nanos
                && !interval
                    .event_index
                    .is_some_and(|event_index| self.trace.events[event_index].kind.is_call())
            {
                self.add_segment(busy_until_nanos, Bound::Cpu, lane, interval.event_index);
                return Position::Thread(backward);
            }
        } else if interval.event_index.is_none()
            && let Some(main_thread_index) = self.trace.main_thread_index
            && self.was_active_since(main_thread_index, interval.start_nanos)
        {
            return Position::Thread(main_thread_index);
        }
        let is_loading = interval.event_index.is_some_and(|event_index| {
            self.trace.events[event_index].kind == EventKind::DataLoading
        });
        let bound = if is_loading { Bound::DataLoading } else { Bound::Cpu };
        self.add_segment(interval.start_nanos, bound, lane, interval.event_index);
        Position::Thread(thread_index)
    }

    /// Returns the autograd thread that was last in a span before `time_nanos`, and the end of that
    /// time.
    fn backward_before(&self, time_nanos: i64) -> Option<(i64, usize)> {
        let threads = self.trace.threads.iter().enumerate();
        let backward = threads.filter(|(thread_index, thread)| {
            thread.is_backward && self.trace.main_thread_index != Some(*thread_index)
        });
        backward
            .filter_map(|(thread_index, thread)| {
                Some((thread.last_busy(time_nanos)?, thread_index))
            })
            .max()
    }

    /// Whether a thread began or ended a span between `since_nanos` and the current time. True if
    /// `since_nanos` is `i64::MIN`.
    fn was_active_since(&self, thread_index: usize, since_nanos: i64) -> bool {
        let interval = self.trace.threads[thread_index].interval_before(self.time_nanos);
        since_nanos == i64::MIN
            || interval.start_nanos > since_nanos
            || interval.end_nanos == self.time_nanos
    }

    /// Adds an activity, and why it did not begin earlier. Returns where the walk continues.
    fn continue_from_activity(&mut self, id: ActivityId) -> Option<Position> {
        let Activity { start_nanos, event_index, call_index, .. } = *self.trace.activity(id);
        let (lane, kind) =
            (self.trace.events[event_index].lane, self.trace.events[event_index].kind);
        let bound = match kind {
            EventKind::Communication => Bound::GpuCommunication,
            EventKind::Memory | EventKind::Pageable => Bound::GpuMemory,
            _ => Bound::GpuCompute,
        };
        self.add_segment(start_nanos, bound, Some(lane), Some(event_index));

        let predecessor = self.find_predecessor(id);
        let call = call_index.map(|call_index| &self.trace.events[call_index]);
        let launched_nanos = call.map_or(i64::MIN, |call| call.end_nanos.min(start_nanos));
        let ready_nanos =
            predecessor.map_or(launched_nanos, |before| launched_nanos.max(before.end_nanos));
        if start_nanos.saturating_sub(ready_nanos) > MAX_START_DELAY_NANOS
            && let Some(other) = self.find_delaying_activity(id, ready_nanos)
        {
            let done_nanos = self.trace.activity(other).end_nanos.min(start_nanos);
            self.add_segment(
                done_nanos,
                Bound::GpuKernelKernelOverhead,
                Some(lane),
                Some(event_index),
            );
            return Some(Position::Device(other));
        }
        if let Some(call) = call
            && let launch_start_nanos = call.start_nanos.min(start_nanos)
            && predecessor.is_none_or(|before| before.end_nanos < launch_start_nanos)
            && let Some(thread) = self.trace.thread_index(call.lane)
        {
            self.add_segment(
                launch_start_nanos,
                Bound::GpuKernelLaunchOverhead,
                Some(lane),
                Some(event_index),
            );
            return Some(Position::Thread(thread));
        }
        if let Some(Predecessor { end_nanos, id }) = predecessor {
            self.add_segment(
                end_nanos,
                Bound::GpuKernelKernelOverhead,
                Some(lane),
                Some(event_index),
            );
            return Some(Position::Device(id));
        }
        self.trace.main_thread_index.map(Position::Thread)
    }

    /// Returns the activity that probably delayed another one, which was ready long before it
    /// began. It is inferred from times: an activity of the device that ended just before the other
    /// began. If there is none, a kernel that was running on the device and may have left no room
    /// until its last blocks.
    fn find_delaying_activity(&self, id: ActivityId, ready_nanos: i64) -> Option<ActivityId> {
        let Activity { start_nanos, event_index, .. } = *self.trace.activity(id);
        let device = device_of(self.trace.events[event_index].lane);
        let ended_just_before = self.trace.last_ended(Some(device), start_nanos).filter(|&other| {
            let done_nanos = self.trace.activity(other).end_nanos;
            done_nanos > ready_nanos
                && start_nanos.saturating_sub(done_nanos) <= MAX_WAKE_DELAY_NANOS
        });
        ended_just_before.or_else(|| {
            let streams = &self.trace.streams;
            let first = streams.partition_point(|stream| device_of(stream.lane) < device);
            let count = streams[first..].partition_point(|stream| device_of(stream.lane) == device);
            let other_streams = (first..first + count).filter(|&stream| stream != id.stream_index);
            let running = other_streams
                .filter_map(|stream| self.trace.last_launched(stream, i64::MAX, start_nanos));
            let running = running.filter(|&other| {
                let other = self.trace.activity(other);
                let kind = self.trace.events[other.event_index].kind;
                other.end_nanos > start_nanos && kind == EventKind::Compute
            });
            running.max_by_key(|&other| (self.trace.activity(other).start_nanos, other))
        })
    }

    /// Returns the predecessor of an activity that ended last, on its own stream or on a stream
    /// that it waits for.
    fn find_predecessor(&self, id: ActivityId) -> Option<Predecessor> {
        let stream = &self.trace.streams[id.stream_index];
        let activity = self.trace.activity(id);
        let previous = id.activity_index.checked_sub(1).map(|number| &stream.activities[number]);
        let previous_on_stream = previous.map(|previous| ActivityId {
            stream_index: id.stream_index,
            activity_index: previous.latest_end_index,
        });
        let since_nanos = previous.map_or(i64::MIN, |previous| previous.launch_nanos);
        let first = stream.waits.partition_point(|wait| wait.time_nanos <= since_nanos);
        let waits = stream.waits[first..]
            .iter()
            .take_while(|wait| wait.time_nanos <= activity.launch_nanos);
        let awaited_activities = waits.map(|wait| wait.awaited).filter(|&other| {
            let end_nanos = self.trace.activity(other).end_nanos;
            end_nanos.saturating_sub(activity.start_nanos) <= SKEW_NANOS
        });
        let candidates = previous_on_stream
            .into_iter()
            .chain(awaited_activities)
            .map(|before| (before, self.trace.activity(before)));
        let begun_before =
            candidates.filter(|(_, before)| before.start_nanos < activity.start_nanos);
        begun_before
            .map(|(id, before)| Predecessor {
                end_nanos: before.end_nanos.min(activity.start_nanos),
                id,
            })
            .max()
    }

    fn into_path(mut self) -> Vec<Segment> {
        self.segments.reverse();
        self.segments
    }
}
