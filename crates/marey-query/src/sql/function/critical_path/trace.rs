//! The events of a process, indexed for the walk along its critical path: the timelines of threads
//! and streams, and the calls and waits that link them.

use std::cmp::Reverse;

use super::event::{ALL_STREAMS, Event, Kind, SKEW_NANOS, device_of};

pub(super) fn indices_of_kind(events: &[Event], is_wanted: impl Fn(Kind) -> bool) -> Vec<usize> {
    (0..events.len()).filter(|&event| is_wanted(events[event].kind)).collect()
}

/// A part of a thread's time in which the same span is innermost, or in which there is no span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) event: Option<usize>,
}

/// The timeline of a thread.
#[derive(Debug)]
pub(super) struct PathThread {
    pub(super) lane: u64,
    /// Ascending and without gaps, from the start of the first span to the end of the last.
    pub(super) pieces: Vec<Piece>,
    pub(super) is_backward: bool,
    /// The launches by this thread, in ascending order.
    pub(super) launches: Vec<StreamLaunch>,
}

impl PathThread {
    /// Returns the piece just before a moment: it begins before `time`, and ends at or after it.
    pub(super) fn piece_before(&self, time: i64) -> Piece {
        let count = self.pieces.partition_point(|piece| piece.start < time);
        let last_end = match count.checked_sub(1).map(|last| self.pieces[last]) {
            Some(last) if last.end >= time => return last,
            Some(last) => last.end,
            None => i64::MIN,
        };
        let end = self.pieces.get(count).map_or(i64::MAX, |next| next.start);
        Piece { start: last_end, end, event: None }
    }

    /// Returns the last moment up to `time` at which the thread was in a span.
    pub(super) fn last_busy(&self, time: i64) -> Option<i64> {
        let count = self.pieces.partition_point(|piece| piece.start < time);
        // The search is short, because a piece without a span follows one with a span.
        let mut last = self.pieces[..count].iter().rev();
        last.find(|piece| piece.event.is_some()).map(|piece| piece.end.min(time))
    }
}

/// A launch into a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StreamLaunch {
    pub(super) time: i64,
    pub(super) stream: usize,
}

/// An activity in its stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activity {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) event: usize,
    pub(super) call: Option<usize>,
    /// The latest possible launch time. A stream executes activities in the order of their
    /// launches, so it is no later than that of any later activity in the stream.
    pub(super) launch_time: i64,
    /// Index of the activity that ends last among those up to and including this one.
    pub(super) latest: usize,
}

/// A stream of a device.
#[derive(Debug)]
pub(super) struct PathStream {
    pub(super) lane: u64,
    /// In ascending order of start.
    pub(super) activities: Vec<Activity>,
    /// In ascending order.
    pub(super) waits: Vec<StreamWait>,
}

/// The wait of a stream for an activity of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StreamWait {
    /// When the stream was made to wait.
    pub(super) time: i64,
    pub(super) awaited: ActivityId,
}

/// The end of an activity, by its device or by its correlation id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ActivityEnd {
    /// The device or the correlation id.
    pub(super) key: u64,
    pub(super) end: i64,
    pub(super) id: ActivityId,
}

/// The identity of an activity: the index of its stream, and its index within the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ActivityId {
    pub(super) stream: usize,
    pub(super) number: usize,
}

/// The current position of the walk.
#[derive(Clone, Copy, Debug)]
pub(super) enum Position {
    Thread(usize),
    Device(ActivityId),
}

/// The events of a group with the indexes that the walk needs.
pub(super) struct WindowTrace<'a> {
    pub(super) events: &'a [Event],
    pub(super) threads: Vec<PathThread>,
    /// The main thread, for which the other threads work.
    pub(super) main_thread: Option<usize>,
    pub(super) streams: Vec<PathStream>,
    /// Correlation ids, each with the first call that has it, in ascending order.
    pub(super) calls: Vec<(u64, usize)>,
    /// Correlation ids, each with a record of a host wait, in ascending order.
    pub(super) host_waits: Vec<(u64, usize)>,
    /// The ends of all activities by device, in ascending order.
    pub(super) ends_by_device: Vec<ActivityEnd>,
    /// The ends of the activities that have a correlation id by that, in ascending order.
    pub(super) ends_by_correlation: Vec<ActivityEnd>,
}

impl<'a> WindowTrace<'a> {
    pub(super) fn new(events: &'a [Event]) -> Self {
        let mut trace = Self {
            events,
            threads: build_threads(events),
            main_thread: None,
            streams: Vec::new(),
            calls: sort_by_correlation(events, Kind::is_call),
            host_waits: sort_by_correlation(events, |kind| kind == Kind::HostWait),
            ends_by_device: Vec::new(),
            ends_by_correlation: Vec::new(),
        };
        trace.main_thread = trace.find_main_thread();
        trace.add_streams();
        trace.add_waits();
        trace
    }

    /// Returns the thread of the last step or, if there are no steps, the thread with most time in
    /// spans. Autograd threads come last.
    pub(super) fn find_main_thread(&self) -> Option<usize> {
        let steps = self.events.iter().filter(|event| event.kind == Kind::Step);
        let step_thread = steps.max_by_key(|step| (step.end, step.start)).and_then(|step| {
            self.threads.binary_search_by_key(&step.lane, |thread| thread.lane).ok()
        });
        step_thread.or_else(|| {
            (0..self.threads.len()).max_by_key(|&number| {
                let thread = &self.threads[number];
                let busy = thread.pieces.iter().filter(|piece| piece.event.is_some());
                let nanos = busy
                    .fold(0_u64, |sum, piece| sum.saturating_add(piece.end.abs_diff(piece.start)));
                (!thread.is_backward, nanos, Reverse(number))
            })
        })
    }

    pub(super) fn add_streams(&mut self) {
        let events = self.events;
        let mut order = indices_of_kind(events, Kind::is_device);
        order.retain(|&event| events[event].start < events[event].end);
        order.sort_by_key(|&event| {
            let event = &events[event];
            (event.lane, event.start, event.end, event.correlation)
        });
        for stream_events in order.chunk_by(|&event, &next| events[event].lane == events[next].lane)
        {
            let stream = self.streams.len();
            let mut activities: Vec<Activity> = Vec::with_capacity(stream_events.len());
            for (number, &event) in stream_events.iter().enumerate() {
                let Event { start, end, correlation, .. } = events[event];
                let call = self.call(correlation);
                let launch_time = call.map_or(start, |call| events[call].start.min(start));
                let latest = match activities.last().map(|last| last.latest) {
                    Some(latest) if activities[latest].end > end => latest,
                    _ => number,
                };
                activities.push(Activity { start, end, event, call, launch_time, latest });
                let id = ActivityId { stream, number };
                let device = device_of(events[event].lane);
                self.ends_by_device.push(ActivityEnd { key: device, end, id });
                if correlation != 0 {
                    self.ends_by_correlation.push(ActivityEnd { key: correlation, end, id });
                }
                if let Some(call) = call
                    && let Some(thread) = self.thread(events[call].lane)
                {
                    let launch = StreamLaunch { time: events[call].start, stream };
                    self.threads[thread].launches.push(launch);
                }
            }
            let mut launch_time = i64::MAX;
            for activity in activities.iter_mut().rev() {
                launch_time = launch_time.min(activity.launch_time);
                activity.launch_time = launch_time;
            }
            let lane = stream_events.first().map_or(0, |&event| events[event].lane);
            self.streams.push(PathStream { lane, activities, waits: Vec::new() });
        }
        self.ends_by_device.sort_unstable();
        self.ends_by_correlation.sort_unstable();
        for thread in &mut self.threads {
            thread.launches.sort_unstable();
        }
    }

    pub(super) fn add_waits(&mut self) {
        for wait in indices_of_kind(self.events, |kind| kind == Kind::StreamWait) {
            let wait = &self.events[wait];
            if let Some(call) = self.call(wait.correlation)
                && let Some(stream) = self.stream(wait.lane)
                && let Some(awaited_stream) = self.stream(wait.on_lane)
                && awaited_stream != stream
            {
                let wait_time = self.events[call].start;
                let recorded = self.call(wait.on_correlation);
                let until = recorded.map_or(wait_time, |call| self.events[call].start);
                if let Some(awaited) = self.last_launched(awaited_stream, until, i64::MAX) {
                    self.streams[stream].waits.push(StreamWait { time: wait_time, awaited });
                }
            }
        }
        for stream in &mut self.streams {
            stream.waits.sort_unstable();
        }
    }

    pub(super) fn call(&self, correlation: u64) -> Option<usize> {
        first_event(&self.calls, correlation)
    }

    pub(super) fn thread(&self, lane: u64) -> Option<usize> {
        self.threads.binary_search_by_key(&lane, |thread| thread.lane).ok()
    }

    pub(super) fn stream(&self, lane: u64) -> Option<usize> {
        self.streams.binary_search_by_key(&lane, |stream| stream.lane).ok()
    }

    pub(super) fn activity(&self, id: ActivityId) -> &Activity {
        &self.streams[id.stream].activities[id.number]
    }

    /// Returns the activity of a stream that ends last among those that were launched before
    /// `before` and began before `began_before`.
    pub(super) fn last_launched(
        &self,
        stream: usize,
        before: i64,
        began_before: i64,
    ) -> Option<ActivityId> {
        let activities = &self.streams[stream].activities;
        let launched = activities.partition_point(|activity| activity.launch_time < before);
        let begun = activities.partition_point(|activity| activity.start < began_before);
        let last = launched.min(begun).checked_sub(1)?;
        Some(ActivityId { stream, number: activities[last].latest })
    }

    /// Returns the activity of a device, or of all devices, that ended last up to `time`.
    pub(super) fn last_ended(&self, device: Option<u64>, time: i64) -> Option<ActivityId> {
        let last_on_device = |device: u64| {
            let count =
                self.ends_by_device.partition_point(|end| (end.key, end.end) <= (device, time));
            let last = count.checked_sub(1).map(|last| self.ends_by_device[last])?;
            (last.key == device).then_some(last)
        };
        let last = if let Some(device) = device {
            last_on_device(device)
        } else {
            let devices = self
                .streams
                .chunk_by(|stream, next| device_of(stream.lane) == device_of(next.lane));
            let ends = devices.filter_map(|streams| last_on_device(device_of(streams[0].lane)));
            ends.max_by_key(|last| (last.end, last.id))
        };
        last.map(|last| last.id)
    }

    /// Returns the activity for which a call that was running until `time` waited, if the call
    /// waits.
    pub(super) fn awaited_activity(
        &self,
        thread: usize,
        call: usize,
        time: i64,
    ) -> Option<ActivityId> {
        let Event { kind, start, correlation, .. } = self.events[call];
        let last_of = |is_counted: &dyn Fn(u64) -> bool| {
            let streams =
                (0..self.streams.len()).filter(|&stream| is_counted(self.streams[stream].lane));
            let last = streams.filter_map(|stream| self.last_launched(stream, start, time));
            last.max_by_key(|&id| self.activity(id).end)
        };
        if kind.is_call()
            && let Some(wait) = first_event(&self.host_waits, correlation)
        {
            let wait = &self.events[wait];
            if wait.on_lane & u64::from(ALL_STREAMS) == u64::from(ALL_STREAMS) {
                return last_of(&|lane| device_of(lane) == device_of(wait.on_lane));
            }
            let recorded = self.call(wait.on_correlation);
            let before = recorded.map_or(start, |call| self.events[call].start.min(start));
            return self.last_launched(self.stream(wait.on_lane)?, before, time);
        }
        match kind {
            Kind::SyncDevice => last_of(&|_| true),
            Kind::SyncStream => {
                let launches = &self.threads[thread].launches;
                let count = launches.partition_point(|launch| launch.time < start);
                let stream = launches[count.checked_sub(1)?].stream;
                self.last_launched(stream, start, time)
            }
            Kind::SyncEvent => self.last_ended(None, time),
            Kind::Copy | Kind::Call => self.find_copy(kind, correlation, time),
            _ => None,
        }
    }

    /// Returns the copy that a call has made, if calls of this kind wait for such copies and the
    /// copy had ended by `time`.
    pub(super) fn find_copy(&self, kind: Kind, correlation: u64, time: i64) -> Option<ActivityId> {
        let until = time.saturating_add(SKEW_NANOS);
        let count = self
            .ends_by_correlation
            .partition_point(|entry| (entry.key, entry.end) <= (correlation, until));
        let ActivityEnd { key: found, id, .. } = self.ends_by_correlation[count.checked_sub(1)?];
        let activity = self.activity(id);
        let does_wait = kind == Kind::Copy || self.events[activity.event].kind == Kind::Pageable;
        (correlation != 0 && found == correlation && does_wait && activity.start < time)
            .then_some(id)
    }
}

/// Returns the first event with a correlation id in a sorted list.
pub(super) fn first_event(sorted: &[(u64, usize)], correlation: u64) -> Option<usize> {
    let found = sorted.get(sorted.partition_point(|entry| entry.0 < correlation))?;
    (found.0 == correlation).then_some(found.1)
}

/// Returns the events with a correlation id, sorted by that id and then by start. Of nested calls,
/// the outermost comes first.
pub(super) fn sort_by_correlation(
    events: &[Event],
    is_wanted: impl Fn(Kind) -> bool,
) -> Vec<(u64, usize)> {
    let mut order = indices_of_kind(events, is_wanted);
    order.retain(|&event| events[event].correlation != 0);
    order.sort_by_key(|&event| {
        let Event { correlation, start, end, .. } = events[event];
        (correlation, start, Reverse(end), event)
    });
    order.into_iter().map(|event| (events[event].correlation, event)).collect()
}

/// Returns the threads in the order of their lanes, each divided into pieces by innermost span.
pub(super) fn build_threads(events: &[Event]) -> Vec<PathThread> {
    let mut order = indices_of_kind(events, Kind::is_host);
    order.retain(|&event| events[event].start < events[event].end);
    order.sort_by_key(|&event| {
        (events[event].lane, events[event].start, Reverse(events[event].end), event)
    });
    let by_lane = order.chunk_by(|&event, &next| events[event].lane == events[next].lane);
    let thread = |lane_events: &[usize]| PathThread {
        lane: lane_events.first().map_or(0, |&event| events[event].lane),
        pieces: split_into_pieces(events, lane_events),
        is_backward: lane_events.iter().any(|&event| events[event].kind == Kind::Backward),
        launches: Vec::new(),
    };
    by_lane.map(thread).collect()
}

/// Divides spans into pieces. The spans are sorted by start, with outer ones first. A span that
/// ends after its parent is cut at the parent's end.
pub(super) fn split_into_pieces(events: &[Event], spans: &[usize]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::with_capacity(spans.len() * 2);
    let mut open: Vec<(i64, usize)> = Vec::new();
    let mut covered_until = spans.first().map_or(0, |&span| events[span].start);
    let mut push_piece_until = |covered_until: &mut i64, end: i64, event: Option<usize>| {
        if end > *covered_until {
            pieces.push(Piece { start: *covered_until, end, event });
            *covered_until = end;
        }
    };
    for &span in spans {
        let (start, mut end) = (events[span].start, events[span].end);
        while let Some((end, event)) = open.pop_if(|outer| outer.0 <= start) {
            push_piece_until(&mut covered_until, end, Some(event));
        }
        push_piece_until(&mut covered_until, start, open.last().map(|outer| outer.1));
        if let Some(outer) = open.last() {
            end = end.min(outer.0);
        }
        open.push((end, span));
    }
    while let Some((end, event)) = open.pop() {
        push_piece_until(&mut covered_until, end, Some(event));
    }
    pieces
}
