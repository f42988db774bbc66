//! Events, in the order in which a walk looks for them.

use std::cmp::Reverse;

use super::event::{ALL_STREAMS, Event, Kind, SKEW_NANOS, device_of};

pub(super) fn indices(events: &[Event], is_wanted: impl Fn(Kind) -> bool) -> Vec<usize> {
    (0..events.len()).filter(|&event| is_wanted(events[event].kind)).collect()
}

/// A part of a thread's time in which its innermost span stays the same, or it is in none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) event: Option<usize>,
}

/// A thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) lane: u64,
    /// Ascending and gapless from its first span to the end of its last.
    pub(super) pieces: Vec<Piece>,
    pub(super) is_backward: bool,
    /// When it launched something on a stream, and on which, ascending.
    pub(super) launches: Vec<(i64, usize)>,
}

impl Thread {
    /// What it did just before a moment: the piece that begins before and does not end before.
    pub(super) fn piece_before(&self, at: i64) -> Piece {
        let count = self.pieces.partition_point(|piece| piece.start < at);
        let last_end = match count.checked_sub(1).map(|last| self.pieces[last]) {
            Some(last) if last.end >= at => return last,
            Some(last) => last.end,
            None => i64::MIN,
        };
        let end = self.pieces.get(count).map_or(i64::MAX, |next| next.start);
        Piece { start: last_end, end, event: None }
    }

    /// When it was last in a span, up to a moment.
    pub(super) fn last_busy(&self, at: i64) -> Option<i64> {
        let count = self.pieces.partition_point(|piece| piece.start < at);
        // A piece without a span has one with before it.
        let mut last = self.pieces[..count].iter().rev();
        last.find(|piece| piece.event.is_some()).map(|piece| piece.end.min(at))
    }
}

/// An activity on its stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activity {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) event: usize,
    pub(super) call: Option<usize>,
    /// When it had been launched at the latest: not after any that came later on the stream.
    pub(super) launched: i64,
    /// Which one, up to this, ends last.
    pub(super) latest: usize,
}

/// A stream of a device.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) lane: u64,
    /// Ascending by start.
    pub(super) activities: Vec<Activity>,
    /// When it was told to wait, and for what, ascending.
    pub(super) waits: Vec<(i64, Place)>,
}

/// An activity: the number of its stream, and its own there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) stream: usize,
    pub(super) number: usize,
}

/// Where the walk is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Position {
    Thread(usize),
    Device(Place),
}

/// Events, in the order in which they are looked for.
pub(super) struct Trace<'a> {
    pub(super) events: &'a [Event],
    pub(super) threads: Vec<Thread>,
    /// The thread that the others work for.
    pub(super) home: Option<usize>,
    pub(super) streams: Vec<Stream>,
    /// Correlation of calls and the first call that has it, ascending.
    pub(super) calls: Vec<(u64, usize)>,
    /// Correlation of calls and what they waited for, ascending.
    pub(super) host_waits: Vec<(u64, usize)>,
    /// Device, end and place of each activity, ascending.
    pub(super) ends: Vec<(u64, i64, Place)>,
    /// Correlation, end and place of those that have one, ascending.
    pub(super) launched: Vec<(u64, i64, Place)>,
}

impl<'a> Trace<'a> {
    pub(super) fn new(events: &'a [Event]) -> Self {
        let mut trace = Self {
            events,
            threads: threads(events),
            home: None,
            streams: Vec::new(),
            calls: by_correlation(events, Kind::is_call),
            host_waits: by_correlation(events, |kind| kind == Kind::HostWait),
            ends: Vec::new(),
            launched: Vec::new(),
        };
        trace.home = trace.find_home();
        trace.add_streams();
        trace.add_waits();
        trace
    }

    /// The thread of the last step; without steps, the one that is longest in spans.
    pub(super) fn find_home(&self) -> Option<usize> {
        let steps = self.events.iter().filter(|event| event.kind == Kind::Step);
        let of_steps = steps.max_by_key(|step| (step.end, step.start)).and_then(|step| {
            self.threads.binary_search_by_key(&step.lane, |thread| thread.lane).ok()
        });
        of_steps.or_else(|| {
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
        let mut order = indices(events, Kind::is_device);
        order.retain(|&event| events[event].start < events[event].end);
        order.sort_by_key(|&event| {
            let event = &events[event];
            (event.lane, event.start, event.end, event.correlation)
        });
        for of_stream in order.chunk_by(|&a, &b| events[a].lane == events[b].lane) {
            let stream = self.streams.len();
            let mut activities: Vec<Activity> = Vec::with_capacity(of_stream.len());
            for (number, &event) in of_stream.iter().enumerate() {
                let Event { start, end, correlation, .. } = events[event];
                let call = self.call(correlation);
                let launched = call.map_or(start, |call| events[call].start.min(start));
                let latest = match activities.last().map(|last| last.latest) {
                    Some(latest) if activities[latest].end > end => latest,
                    _ => number,
                };
                activities.push(Activity { start, end, event, call, launched, latest });
                let place = Place { stream, number };
                self.ends.push((device_of(events[event].lane), end, place));
                if correlation != 0 {
                    self.launched.push((correlation, end, place));
                }
                if let Some(call) = call
                    && let Some(thread) = self.thread(events[call].lane)
                {
                    self.threads[thread].launches.push((events[call].start, stream));
                }
            }
            let mut launched = i64::MAX;
            for activity in activities.iter_mut().rev() {
                launched = launched.min(activity.launched);
                activity.launched = launched;
            }
            let lane = of_stream.first().map_or(0, |&event| events[event].lane);
            self.streams.push(Stream { lane, activities, waits: Vec::new() });
        }
        self.ends.sort_unstable();
        self.launched.sort_unstable();
        for thread in &mut self.threads {
            thread.launches.sort_unstable();
        }
    }

    pub(super) fn add_waits(&mut self) {
        for wait in indices(self.events, |kind| kind == Kind::StreamWait) {
            let wait = &self.events[wait];
            if let Some(call) = self.call(wait.correlation)
                && let Some(stream) = self.stream(wait.lane)
                && let Some(on) = self.stream(wait.on_lane)
                && on != stream
            {
                let told = self.events[call].start;
                let recorded = self.call(wait.on_correlation);
                let until = recorded.map_or(told, |call| self.events[call].start);
                if let Some(place) = self.last_launched(on, until, i64::MAX) {
                    self.streams[stream].waits.push((told, place));
                }
            }
        }
        for stream in &mut self.streams {
            stream.waits.sort_unstable();
        }
    }

    pub(super) fn call(&self, correlation: u64) -> Option<usize> {
        first(&self.calls, correlation)
    }

    pub(super) fn thread(&self, lane: u64) -> Option<usize> {
        self.threads.binary_search_by_key(&lane, |thread| thread.lane).ok()
    }

    pub(super) fn stream(&self, lane: u64) -> Option<usize> {
        self.streams.binary_search_by_key(&lane, |stream| stream.lane).ok()
    }

    pub(super) fn activity(&self, place: Place) -> &Activity {
        &self.streams[place.stream].activities[place.number]
    }

    /// Of what a stream was given before a moment and began before another, what ends last.
    pub(super) fn last_launched(
        &self,
        stream: usize,
        before: i64,
        began_before: i64,
    ) -> Option<Place> {
        let activities = &self.streams[stream].activities;
        let launched = activities.partition_point(|activity| activity.launched < before);
        let begun = activities.partition_point(|activity| activity.start < began_before);
        let last = launched.min(begun).checked_sub(1)?;
        Some(Place { stream, number: activities[last].latest })
    }

    /// The activity of a device, or of all, that ended last up to a moment.
    pub(super) fn last_ended(&self, device: Option<u64>, at: i64) -> Option<Place> {
        let of_device = |device: u64| {
            let count = self.ends.partition_point(|end| (end.0, end.1) <= (device, at));
            let last = count.checked_sub(1).map(|last| self.ends[last])?;
            (last.0 == device).then_some((last.1, last.2))
        };
        let last = if let Some(device) = device {
            of_device(device)
        } else {
            let devices = self.streams.chunk_by(|a, b| device_of(a.lane) == device_of(b.lane));
            devices.filter_map(|streams| of_device(device_of(streams[0].lane))).max()
        };
        last.map(|(_, place)| place)
    }

    /// What a call that ran until `at` waited for, if it is one that waits.
    pub(super) fn waited_for(&self, thread: usize, call: usize, at: i64) -> Option<Place> {
        let Event { kind, start, correlation, .. } = self.events[call];
        let all = |is_counted: &dyn Fn(u64) -> bool| {
            let streams =
                (0..self.streams.len()).filter(|&stream| is_counted(self.streams[stream].lane));
            let last = streams.filter_map(|stream| self.last_launched(stream, start, at));
            last.max_by_key(|&place| self.activity(place).end)
        };
        if kind.is_call()
            && let Some(wait) = first(&self.host_waits, correlation)
        {
            let wait = &self.events[wait];
            if wait.on_lane & u64::from(ALL_STREAMS) == u64::from(ALL_STREAMS) {
                return all(&|lane| device_of(lane) == device_of(wait.on_lane));
            }
            let recorded = self.call(wait.on_correlation);
            let before = recorded.map_or(start, |call| self.events[call].start.min(start));
            return self.last_launched(self.stream(wait.on_lane)?, before, at);
        }
        match kind {
            Kind::SyncDevice => all(&|_| true),
            Kind::SyncStream => {
                let launches = &self.threads[thread].launches;
                let count = launches.partition_point(|launch| launch.0 < start);
                let stream = launches[count.checked_sub(1)?].1;
                self.last_launched(stream, start, at)
            }
            Kind::SyncEvent => self.last_ended(None, at),
            Kind::Copy | Kind::Call => self.copied(kind, correlation, at),
            _ => None,
        }
    }

    /// What a call copied, if it waits for such copies and this was done when it returned.
    pub(super) fn copied(&self, kind: Kind, correlation: u64, at: i64) -> Option<Place> {
        let until = at.saturating_add(SKEW_NANOS);
        let count = self.launched.partition_point(|of| (of.0, of.1) <= (correlation, until));
        let (found, _, place) = self.launched[count.checked_sub(1)?];
        let activity = self.activity(place);
        let waits = kind == Kind::Copy || self.events[activity.event].kind == Kind::Pageable;
        (correlation != 0 && found == correlation && waits && activity.start < at).then_some(place)
    }
}

/// The first of a correlation.
pub(super) fn first(sorted: &[(u64, usize)], correlation: u64) -> Option<usize> {
    let found = sorted.get(sorted.partition_point(|entry| entry.0 < correlation))?;
    (found.0 == correlation).then_some(found.1)
}

/// Those that have a correlation, by it, and then by start; of calls inside each other, the outermost
/// comes first.
pub(super) fn by_correlation(
    events: &[Event],
    is_wanted: impl Fn(Kind) -> bool,
) -> Vec<(u64, usize)> {
    let mut order = indices(events, is_wanted);
    order.retain(|&event| events[event].correlation != 0);
    order.sort_by_key(|&event| {
        let Event { correlation, start, end, .. } = events[event];
        (correlation, start, Reverse(end), event)
    });
    order.into_iter().map(|event| (events[event].correlation, event)).collect()
}

/// The threads by lane, each cut up by what is innermost.
pub(super) fn threads(events: &[Event]) -> Vec<Thread> {
    let mut order = indices(events, Kind::is_host);
    order.retain(|&event| events[event].start < events[event].end);
    order.sort_by_key(|&event| {
        (events[event].lane, events[event].start, Reverse(events[event].end), event)
    });
    let of_lanes = order.chunk_by(|&a, &b| events[a].lane == events[b].lane);
    let thread = |of_lane: &[usize]| Thread {
        lane: of_lane.first().map_or(0, |&event| events[event].lane),
        pieces: pieces(events, of_lane),
        is_backward: of_lane.iter().any(|&event| events[event].kind == Kind::Backward),
        launches: Vec::new(),
    };
    of_lanes.map(thread).collect()
}

/// Of spans by start, the outer first; one that outlasts the one around it is cut there.
pub(super) fn pieces(events: &[Event], spans: &[usize]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::with_capacity(spans.len() * 2);
    let mut open: Vec<(i64, usize)> = Vec::new();
    let mut reached = spans.first().map_or(0, |&span| events[span].start);
    let mut reach = |reached: &mut i64, end: i64, event: Option<usize>| {
        if end > *reached {
            pieces.push(Piece { start: *reached, end, event });
            *reached = end;
        }
    };
    for &span in spans {
        let (start, mut end) = (events[span].start, events[span].end);
        while let Some((end, event)) = open.pop_if(|outer| outer.0 <= start) {
            reach(&mut reached, end, Some(event));
        }
        reach(&mut reached, start, open.last().map(|outer| outer.1));
        if let Some(outer) = open.last() {
            end = end.min(outer.0);
        }
        open.push((end, span));
    }
    while let Some((end, event)) = open.pop() {
        reach(&mut reached, end, Some(event));
    }
    pieces
}
