//! The events of a process, indexed for the walk along its critical path: the timelines of threads
//! and streams, and the calls and waits that link them.

use std::cmp::Reverse;

use super::event::{ALL_STREAMS, Event, EventKind, SKEW_NANOS, device_of};

pub(super) fn indices_of_kind(
    events: &[Event],
    is_wanted: impl Fn(EventKind) -> bool,
) -> Vec<usize> {
    (0..events.len()).filter(|&event| is_wanted(events[event].kind)).collect()
}

/// A part of a thread's time in which the same span is innermost, or in which there is no span.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadInterval {
    pub(super) start_nanos: i64,
    pub(super) end_nanos: i64,
    pub(super) event_index: Option<usize>,
}

/// The timeline of a thread.
#[derive(Debug)]
pub(super) struct PathThread {
    pub(super) lane: u64,
    /// Ascending and without gaps, from the start of the first span to the end of the last.
    pub(super) intervals: Vec<ThreadInterval>,
    pub(super) is_backward: bool,
    /// The launches by this thread, in ascending order.
    pub(super) launches: Vec<StreamLaunch>,
}

impl PathThread {
    /// Returns the interval just before a moment: it begins before `time_nanos`, and ends at or
    /// after it.
    pub(super) fn interval_before(&self, time_nanos: i64) -> ThreadInterval {
        let count = self.intervals.partition_point(|interval| interval.start_nanos < time_nanos);
        let last_end_nanos = match count.checked_sub(1).map(|last| self.intervals[last]) {
            Some(last) if last.end_nanos >= time_nanos => return last,
            Some(last) => last.end_nanos,
            None => i64::MIN,
        };
        let end_nanos = self.intervals.get(count).map_or(i64::MAX, |next| next.start_nanos);
        ThreadInterval { start_nanos: last_end_nanos, end_nanos, event_index: None }
    }

    /// Returns the last moment up to `time_nanos` at which the thread was in a span.
    pub(super) fn last_busy(&self, time_nanos: i64) -> Option<i64> {
        let count = self.intervals.partition_point(|interval| interval.start_nanos < time_nanos);
        // The search is short, because an interval without a span follows one with a span.
        let mut last = self.intervals[..count].iter().rev();
        last.find(|interval| interval.event_index.is_some())
            .map(|interval| interval.end_nanos.min(time_nanos))
    }
}

/// A launch into a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StreamLaunch {
    pub(super) time_nanos: i64,
    pub(super) stream_index: usize,
}

/// An activity in its stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activity {
    pub(super) start_nanos: i64,
    pub(super) end_nanos: i64,
    pub(super) event_index: usize,
    pub(super) call_index: Option<usize>,
    /// The latest possible launch time. A stream executes activities in the order of their
    /// launches, so it is no later than that of any later activity in the stream.
    pub(super) launch_nanos: i64,
    /// Index of the activity that ends last among those up to and including this one.
    pub(super) latest_end_index: usize,
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
    pub(super) time_nanos: i64,
    pub(super) awaited: ActivityId,
}

/// The end of an activity, by its device or by its correlation id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ActivityEnd {
    /// The device or the correlation id.
    pub(super) key: u64,
    pub(super) end_nanos: i64,
    pub(super) id: ActivityId,
}

/// The identity of an activity: the index of its stream, and its index within the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ActivityId {
    pub(super) stream_index: usize,
    pub(super) activity_index: usize,
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
    pub(super) main_thread_index: Option<usize>,
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
            main_thread_index: None,
            streams: Vec::new(),
            calls: sort_by_correlation(events, EventKind::is_call),
            host_waits: sort_by_correlation(events, |kind| kind == EventKind::HostWait),
            ends_by_device: Vec::new(),
            ends_by_correlation: Vec::new(),
        };
        trace.main_thread_index = trace.find_main_thread_index();
        trace.add_streams();
        trace.add_waits();
        trace
    }

    /// Returns the thread of the last step or, if there are no steps, the thread with most time in
    /// spans. Autograd threads come last.
    pub(super) fn find_main_thread_index(&self) -> Option<usize> {
        let steps = self.events.iter().filter(|event| event.kind == EventKind::Step);
        let step_thread =
            steps.max_by_key(|step| (step.end_nanos, step.start_nanos)).and_then(|step| {
                self.threads.binary_search_by_key(&step.lane, |thread| thread.lane).ok()
            });
        step_thread.or_else(|| {
            (0..self.threads.len()).max_by_key(|&thread_index| {
                let thread = &self.threads[thread_index];
                let busy_intervals =
                    thread.intervals.iter().filter(|interval| interval.event_index.is_some());
                let busy_nanos = busy_intervals.fold(0_u64, |sum, interval| {
                    sum.saturating_add(interval.end_nanos.abs_diff(interval.start_nanos))
                });
                (!thread.is_backward, busy_nanos, Reverse(thread_index))
            })
        })
    }

    pub(super) fn add_streams(&mut self) {
        let events = self.events;
        let mut activity_events = indices_of_kind(events, EventKind::is_device);
        activity_events.retain(|&event| events[event].start_nanos < events[event].end_nanos);
        activity_events.sort_by_key(|&event| {
            let event = &events[event];
            (event.lane, event.start_nanos, event.end_nanos, event.correlation_id)
        });
        for stream_events in
            activity_events.chunk_by(|&event, &next| events[event].lane == events[next].lane)
        {
            let stream_index = self.streams.len();
            let mut activities: Vec<Activity> = Vec::with_capacity(stream_events.len());
            for (activity_index, &event) in stream_events.iter().enumerate() {
                let Event { start_nanos, end_nanos, correlation_id, .. } = events[event];
                let call_index = self.call_index(correlation_id);
                let launch_nanos = call_index.map_or(start_nanos, |call_index| {
                    events[call_index].start_nanos.min(start_nanos)
                });
                let latest_end_index = match activities.last().map(|last| last.latest_end_index) {
                    Some(latest_end_index)
                        if activities[latest_end_index].end_nanos > end_nanos =>
                    {
                        latest_end_index
                    }
                    _ => activity_index,
                };
                activities.push(Activity {
                    start_nanos,
                    end_nanos,
                    event_index: event,
                    call_index,
                    launch_nanos,
                    latest_end_index,
                });
                let id = ActivityId { stream_index, activity_index };
                let device = device_of(events[event].lane);
                self.ends_by_device.push(ActivityEnd { key: device, end_nanos, id });
                if correlation_id != 0 {
                    self.ends_by_correlation.push(ActivityEnd {
                        key: correlation_id,
                        end_nanos,
                        id,
                    });
                }
                if let Some(call_index) = call_index
                    && let Some(thread_index) = self.thread_index(events[call_index].lane)
                {
                    let launch =
                        StreamLaunch { time_nanos: events[call_index].start_nanos, stream_index };
                    self.threads[thread_index].launches.push(launch);
                }
            }
            let mut launch_nanos = i64::MAX;
            for activity in activities.iter_mut().rev() {
                launch_nanos = launch_nanos.min(activity.launch_nanos);
                activity.launch_nanos = launch_nanos;
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
        for wait in indices_of_kind(self.events, |kind| kind == EventKind::StreamWait) {
            let wait = &self.events[wait];
            if let Some(call) = self.call_index(wait.correlation_id)
                && let Some(stream_index) = self.stream_index(wait.lane)
                && let Some(awaited_stream_index) = self.stream_index(wait.on_lane)
                && awaited_stream_index != stream_index
            {
                let wait_nanos = self.events[call].start_nanos;
                let recording_call_index = self.call_index(wait.on_correlation_id);
                let until_nanos =
                    recording_call_index.map_or(wait_nanos, |call| self.events[call].start_nanos);
                if let Some(awaited) =
                    self.last_launched(awaited_stream_index, until_nanos, i64::MAX)
                {
                    self.streams[stream_index]
                        .waits
                        .push(StreamWait { time_nanos: wait_nanos, awaited });
                }
            }
        }
        for stream in &mut self.streams {
            stream.waits.sort_unstable();
        }
    }

    pub(super) fn call_index(&self, correlation_id: u64) -> Option<usize> {
        first_event(&self.calls, correlation_id)
    }

    pub(super) fn thread_index(&self, lane: u64) -> Option<usize> {
        self.threads.binary_search_by_key(&lane, |thread| thread.lane).ok()
    }

    pub(super) fn stream_index(&self, lane: u64) -> Option<usize> {
        self.streams.binary_search_by_key(&lane, |stream| stream.lane).ok()
    }

    pub(super) fn activity(&self, id: ActivityId) -> &Activity {
        &self.streams[id.stream_index].activities[id.activity_index]
    }

    /// Returns the activity of a stream that ends last among those that were launched before
    /// `launched_before_nanos` and began before `began_before_nanos`.
    pub(super) fn last_launched(
        &self,
        stream_index: usize,
        launched_before_nanos: i64,
        began_before_nanos: i64,
    ) -> Option<ActivityId> {
        let activities = &self.streams[stream_index].activities;
        let launched_count =
            activities.partition_point(|activity| activity.launch_nanos < launched_before_nanos);
        let begun_count =
            activities.partition_point(|activity| activity.start_nanos < began_before_nanos);
        let last = launched_count.min(begun_count).checked_sub(1)?;
        Some(ActivityId { stream_index, activity_index: activities[last].latest_end_index })
    }

    /// Returns the activity of a device, or of all devices, that ended last up to `time_nanos`.
    pub(super) fn last_ended(&self, device: Option<u64>, time_nanos: i64) -> Option<ActivityId> {
        let last_on_device = |device: u64| {
            let count = self.ends_by_device.partition_point(|activity_end| {
                (activity_end.key, activity_end.end_nanos) <= (device, time_nanos)
            });
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
            ends.max_by_key(|last| (last.end_nanos, last.id))
        };
        last.map(|last| last.id)
    }

    /// Returns the activity for which a call that was running until `time_nanos` waited, if the
    /// call waits.
    pub(super) fn awaited_activity(
        &self,
        thread_index: usize,
        call_index: usize,
        time_nanos: i64,
    ) -> Option<ActivityId> {
        let Event { kind, start_nanos, correlation_id, .. } = self.events[call_index];
        let last_of = |is_counted: &dyn Fn(u64) -> bool| {
            let streams =
                (0..self.streams.len()).filter(|&stream| is_counted(self.streams[stream].lane));
            let last =
                streams.filter_map(|stream| self.last_launched(stream, start_nanos, time_nanos));
            last.max_by_key(|&id| self.activity(id).end_nanos)
        };
        if kind.is_call()
            && let Some(wait) = first_event(&self.host_waits, correlation_id)
        {
            let wait = &self.events[wait];
            if wait.on_lane & u64::from(ALL_STREAMS) == u64::from(ALL_STREAMS) {
                return last_of(&|lane| device_of(lane) == device_of(wait.on_lane));
            }
            let recording_call_index = self.call_index(wait.on_correlation_id);
            let launched_before_nanos = recording_call_index.map_or(start_nanos, |call_index| {
                self.events[call_index].start_nanos.min(start_nanos)
            });
            return self.last_launched(
                self.stream_index(wait.on_lane)?,
                launched_before_nanos,
                time_nanos,
            );
        }
        match kind {
            EventKind::SyncDevice => last_of(&|_| true),
            EventKind::SyncStream => {
                let launches = &self.threads[thread_index].launches;
                let count = launches.partition_point(|launch| launch.time_nanos < start_nanos);
                let stream = launches[count.checked_sub(1)?].stream_index;
                self.last_launched(stream, start_nanos, time_nanos)
            }
            EventKind::SyncEvent => self.last_ended(None, time_nanos),
            EventKind::Copy | EventKind::Call => self.find_copy(kind, correlation_id, time_nanos),
            _ => None,
        }
    }

    /// Returns the copy that a call has made, if calls of this kind wait for such copies and the
    /// copy had ended by `time_nanos`.
    pub(super) fn find_copy(
        &self,
        kind: EventKind,
        correlation_id: u64,
        time_nanos: i64,
    ) -> Option<ActivityId> {
        let until_nanos = time_nanos.saturating_add(SKEW_NANOS);
        let count = self
            .ends_by_correlation
            .partition_point(|entry| (entry.key, entry.end_nanos) <= (correlation_id, until_nanos));
        let ActivityEnd { key: last_correlation_id, id, .. } =
            self.ends_by_correlation[count.checked_sub(1)?];
        let activity = self.activity(id);
        let call_waits = kind == EventKind::Copy
            || self.events[activity.event_index].kind == EventKind::Pageable;
        (correlation_id != 0
            && last_correlation_id == correlation_id
            && call_waits
            && activity.start_nanos < time_nanos)
            .then_some(id)
    }
}

/// Returns the first event with a correlation id in a sorted list.
pub(super) fn first_event(sorted: &[(u64, usize)], correlation_id: u64) -> Option<usize> {
    let found = sorted.get(sorted.partition_point(|entry| entry.0 < correlation_id))?;
    (found.0 == correlation_id).then_some(found.1)
}

/// Returns the events with a correlation id, sorted by that id and then by start. Of nested calls,
/// the outermost comes first.
pub(super) fn sort_by_correlation(
    events: &[Event],
    is_wanted: impl Fn(EventKind) -> bool,
) -> Vec<(u64, usize)> {
    let mut event_indexes = indices_of_kind(events, is_wanted);
    event_indexes.retain(|&event| events[event].correlation_id != 0);
    event_indexes.sort_by_key(|&event| {
        let Event { correlation_id, start_nanos, end_nanos, .. } = events[event];
        (correlation_id, start_nanos, Reverse(end_nanos), event)
    });
    event_indexes.into_iter().map(|event| (events[event].correlation_id, event)).collect()
}

/// Returns the threads in the order of their lanes, each divided into intervals by innermost span.
pub(super) fn build_threads(events: &[Event]) -> Vec<PathThread> {
    let mut span_indexes = indices_of_kind(events, EventKind::is_host);
    span_indexes.retain(|&event| events[event].start_nanos < events[event].end_nanos);
    span_indexes.sort_by_key(|&event| {
        (events[event].lane, events[event].start_nanos, Reverse(events[event].end_nanos), event)
    });
    let spans_by_lane =
        span_indexes.chunk_by(|&event, &next| events[event].lane == events[next].lane);
    let thread = |lane_events: &[usize]| PathThread {
        lane: lane_events.first().map_or(0, |&event| events[event].lane),
        intervals: split_by_innermost_span(events, lane_events),
        is_backward: lane_events.iter().any(|&event| events[event].kind == EventKind::Backward),
        launches: Vec::new(),
    };
    spans_by_lane.map(thread).collect()
}

/// Divides spans into intervals. The spans are sorted by start, with outer ones first. A span that
/// ends after its parent is cut at the parent's end.
pub(super) fn split_by_innermost_span(events: &[Event], spans: &[usize]) -> Vec<ThreadInterval> {
    let mut intervals: Vec<ThreadInterval> = Vec::with_capacity(spans.len() * 2);
    let mut open_spans: Vec<(i64, usize)> = Vec::new();
    let mut covered_until_nanos = spans.first().map_or(0, |&span| events[span].start_nanos);
    let mut push_interval_until =
        |covered_until_nanos: &mut i64, end_nanos: i64, event_index: Option<usize>| {
            if end_nanos > *covered_until_nanos {
                intervals.push(ThreadInterval {
                    start_nanos: *covered_until_nanos,
                    end_nanos,
                    event_index,
                });
                *covered_until_nanos = end_nanos;
            }
        };
    for &span in spans {
        let (start_nanos, mut end_nanos) = (events[span].start_nanos, events[span].end_nanos);
        while let Some((end_nanos, event)) = open_spans.pop_if(|outer| outer.0 <= start_nanos) {
            push_interval_until(&mut covered_until_nanos, end_nanos, Some(event));
        }
        push_interval_until(
            &mut covered_until_nanos,
            start_nanos,
            open_spans.last().map(|outer| outer.1),
        );
        if let Some(outer) = open_spans.last() {
            end_nanos = end_nanos.min(outer.0);
        }
        open_spans.push((end_nanos, span));
    }
    while let Some((end_nanos, event)) = open_spans.pop() {
        push_interval_until(&mut covered_until_nanos, end_nanos, Some(event));
    }
    intervals
}
