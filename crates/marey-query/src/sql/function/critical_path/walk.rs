//! The critical path: what the end of a window of time waited for, back to its beginning.
//!
//! It is walked backwards. At each moment one thing is on the path, a thread or an activity of a
//! device, and it got there because of one other: the walk goes on with that. An activity began
//! once the one before it on its stream had ended, once that of another stream which it waits for
//! had, and once it was launched: the last of these is what it waited for. A thread goes on with
//! itself, until it comes out of a call that waited for a device, or was idle while the thread that
//! it works for was not. So each moment is in one segment, and the segments add up to the window.

use super::event::{Bound, Event, Kind, SKEW_NANOS, Segment, device_of};
use super::trace::{Activity, Place, Position, Trace, indices};

/// What starting an activity costs at most, in nanoseconds, once it is launched and its turn: a
/// longer gap has another reason. `gpu_gaps` has the same.
const STARTING_NANOS: i64 = 30_000;

/// How soon after the end of another stream's activity one begins that waited for it, where no
/// record says so.
const PROMPT_NANOS: i64 = 10_000;

/// The path through the window from `start` to `end`: ascending, gapless, as long as the window.
/// It begins with the activity that ended last if the window's end is not after that, else with the
/// thread of the last step. Takes n log n.
pub(super) fn critical_path(events: &[Event], start: i64, end: i64) -> Vec<Segment> {
    if start >= end {
        return Vec::new();
    }
    let mut walk = Walk { trace: Trace::new(events), start, end, at: end, segments: Vec::new() };
    walk.walk();
    walk.finished()
}

/// The window that the path of these events goes through: of the steps, or of everything.
pub(super) fn window(events: &[Event]) -> Option<(i64, i64)> {
    let around = |is_counted: fn(Kind) -> bool| {
        let counted = events.iter().filter(|event| is_counted(event.kind));
        counted.fold(None, |window: Option<(i64, i64)>, event| {
            let (start, end) = window.unwrap_or((event.start, event.start));
            Some((start.min(event.start), end.max(event.end).max(event.start)))
        })
    };
    around(|kind| kind == Kind::Step).or_else(|| around(|kind| kind.is_host() || kind.is_device()))
}

/// The parts of a path in each step, with where the step is in the slice; all of it, with none, if
/// there is no step. Steps may overlap.
pub(super) fn by_step(path: &[Segment], events: &[Event]) -> Vec<(Option<usize>, Segment)> {
    let mut steps = indices(events, |kind| kind == Kind::Step);
    if steps.is_empty() {
        return path.iter().map(|&segment| (None, segment)).collect();
    }
    steps.retain(|&step| events[step].start < events[step].end);
    steps.sort_by_key(|&step| (events[step].start, events[step].end));
    let mut parts = Vec::new();
    for step in steps {
        let (start, end) = (events[step].start, events[step].end);
        let first = path.partition_point(|segment| segment.end <= start);
        let inside = path[first..].iter().take_while(|segment| segment.start < end);
        parts.extend(inside.map(|&segment| {
            let part = (segment.start.max(start), segment.end.min(end));
            (Some(step), Segment { start: part.0, end: part.1, ..segment })
        }));
    }
    parts
}

/// The walk back, and what it has met.
struct Walk<'a> {
    trace: Trace<'a>,
    start: i64,
    end: i64,
    /// What is later is in segments.
    at: i64,
    /// Descending.
    segments: Vec<Segment>,
}

impl Walk<'_> {
    fn walk(&mut self) {
        let mut position = self.last();
        // Each step but a few in a row gets on in time by a piece or an activity at least.
        let mut steps = 16 + 8 * self.trace.events.len();
        while let Some(now) = position
            && self.at > self.start
            && steps > 0
        {
            steps -= 1;
            position = match now {
                Position::Thread(thread) => Some(self.on_thread(thread)),
                Position::Device(place) => self.on_device(place),
            };
        }
        self.take(self.start, Bound::Unknown, None, None);
    }

    /// Who finished last.
    fn last(&mut self) -> Option<Position> {
        let trace = &self.trace;
        let launched = (0..trace.streams.len())
            .filter_map(|stream| trace.last_launched(stream, self.end, i64::MAX));
        let last = launched.max_by_key(|&place| trace.activity(place).end);
        let last =
            last.filter(|&place| trace.home.is_none() || trace.activity(place).end >= self.end);
        if let Some(place) = last {
            self.at = self.at.max(trace.activity(place).end);
            return Some(Position::Device(place));
        }
        trace.home.map(Position::Thread)
    }

    /// Gives the time back to a moment to a segment.
    fn take(&mut self, start: i64, bound: Bound, lane: Option<u64>, event: Option<usize>) {
        let (from, to) = (start.max(self.start), self.at.min(self.end));
        self.at = self.at.min(start);
        if from >= to {
            return;
        }
        match self.segments.last_mut() {
            Some(last) if (last.bound, last.lane, last.event) == (bound, lane, event) => {
                last.start = from;
            }
            _ => self.segments.push(Segment { start: from, end: to, bound, lane, event }),
        }
    }

    fn on_thread(&mut self, number: usize) -> Position {
        let thread = &self.trace.threads[number];
        let lane = Some(thread.lane);
        let piece = thread.piece_before(self.at);
        if let Some(event) = piece.event
            && let Some(place) = self.trace.waited_for(number, event, self.at)
        {
            let done = self.trace.activity(place).end.min(self.at);
            if done > piece.start {
                self.take(done, Bound::Synchronization, lane, Some(event));
                return Position::Device(place);
            }
        }
        if self.trace.home == Some(number) {
            if let Some((busy, backward)) = self.backward_before(self.at)
                && busy > piece.start
                && !piece.event.is_some_and(|event| self.trace.events[event].kind.is_call())
            {
                self.take(busy, Bound::Cpu, lane, piece.event);
                return Position::Thread(backward);
            }
        } else if piece.event.is_none()
            && let Some(home) = self.trace.home
            && self.worked(home, piece.start)
        {
            return Position::Thread(home);
        }
        let is_loading =
            piece.event.is_some_and(|event| self.trace.events[event].kind == Kind::DataLoading);
        let bound = if is_loading { Bound::DataLoading } else { Bound::Cpu };
        self.take(piece.start, bound, lane, piece.event);
        Position::Thread(number)
    }

    /// The thread of autograd that was in a span last, and until when.
    fn backward_before(&self, at: i64) -> Option<(i64, usize)> {
        let threads = self.trace.threads.iter().enumerate();
        let backward = threads
            .filter(|(number, thread)| thread.is_backward && self.trace.home != Some(*number));
        backward.filter_map(|(number, thread)| Some((thread.last_busy(at)?, number))).max()
    }

    /// Whether a thread began or ended a span after a moment, up to now; or there was no moment.
    fn worked(&self, thread: usize, since: i64) -> bool {
        let piece = self.trace.threads[thread].piece_before(self.at);
        since == i64::MIN || piece.start > since || piece.end == self.at
    }

    fn on_device(&mut self, place: Place) -> Option<Position> {
        let Activity { start, event, call, .. } = *self.trace.activity(place);
        let (lane, kind) = (self.trace.events[event].lane, self.trace.events[event].kind);
        let bound = match kind {
            Kind::Communication => Bound::GpuCommunication,
            Kind::Memory | Kind::Pageable => Bound::GpuMemory,
            _ => Bound::GpuCompute,
        };
        self.take(start, bound, Some(lane), Some(event));

        let before = self.before(place);
        let call = call.map(|call| &self.trace.events[call]);
        let launch = call.map(|call| (call.start.min(start), call.end.min(start), call.lane));
        let launched = launch.map_or(i64::MIN, |launch| launch.1);
        let ready = before.map_or(launched, |before| launched.max(before.0));
        if start.saturating_sub(ready) > STARTING_NANOS
            && let Some(other) = self.held_up_by(place, ready)
        {
            let done = self.trace.activity(other).end.min(start);
            self.take(done, Bound::GpuKernelKernelOverhead, Some(lane), Some(event));
            return Some(Position::Device(other));
        }
        if let Some((began, _, thread)) = launch
            && before.is_none_or(|before| before.0 < began)
            && let Some(thread) = self.trace.thread(thread)
        {
            self.take(began, Bound::GpuKernelLaunchOverhead, Some(lane), Some(event));
            return Some(Position::Thread(thread));
        }
        if let Some((done, place)) = before {
            self.take(done, Bound::GpuKernelKernelOverhead, Some(lane), Some(event));
            return Some(Position::Device(place));
        }
        self.trace.home.map(Position::Thread)
    }

    /// What an activity waited for that could have begun long before, as far as times tell: what
    /// ended on its device just before it began, which it was told to wait for; or what had its
    /// device at that time, and no room for it until its last blocks.
    fn held_up_by(&self, place: Place, ready: i64) -> Option<Place> {
        let Activity { start, event, .. } = *self.trace.activity(place);
        let device = device_of(self.trace.events[event].lane);
        let ended = self.trace.last_ended(Some(device), start).filter(|&other| {
            let done = self.trace.activity(other).end;
            done > ready && start.saturating_sub(done) <= PROMPT_NANOS
        });
        ended.or_else(|| {
            let streams = &self.trace.streams;
            let first = streams.partition_point(|stream| device_of(stream.lane) < device);
            let count = streams[first..].partition_point(|stream| device_of(stream.lane) == device);
            let others = (first..first + count).filter(|&stream| stream != place.stream);
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

    /// What ended last of what an activity comes after: on its stream, and on those that it was
    /// told to wait for; and when that left the device to it.
    fn before(&self, place: Place) -> Option<(i64, Place)> {
        let stream = &self.trace.streams[place.stream];
        let activity = self.trace.activity(place);
        let previous = place.number.checked_sub(1).map(|number| &stream.activities[number]);
        let on_stream =
            previous.map(|previous| Place { stream: place.stream, number: previous.latest });
        let since = previous.map_or(i64::MIN, |previous| previous.launched);
        let first = stream.waits.partition_point(|wait| wait.0 <= since);
        let waits = stream.waits[first..].iter().take_while(|wait| wait.0 <= activity.launched);
        let others = waits.map(|wait| wait.1).filter(|&other| {
            let end = self.trace.activity(other).end;
            end.saturating_sub(activity.start) <= SKEW_NANOS
        });
        let all =
            on_stream.into_iter().chain(others).map(|before| (before, self.trace.activity(before)));
        let begun = all.filter(|(_, before)| before.start < activity.start);
        begun.map(|(place, before)| (before.end.min(activity.start), place)).max()
    }

    fn finished(mut self) -> Vec<Segment> {
        self.segments.reverse();
        self.segments
    }
}
