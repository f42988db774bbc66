//! What a spool says, frame by frame.

use crate::context::NodeKind;
use crate::loss::LossCause;
use crate::metric::MetricValue;
use crate::profile::{Overhead, Process};

use super::device::{Activity, Device, Shape};

/// One frame of a spool.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// The process that writes. Its duration and completeness are not known yet: see [`Frame::End`].
    Process(Process),
    /// The same moment on two clocks. The first pair is taken at the start, the last at the end.
    Clock {
        /// On the monotonic clock, which all other times are of.
        monotonic_nanos: i64,
        /// Since 1970.
        unix_nanos: i64,
    },
    /// Texts with the ids `first`, `first + 1`, and so on. An id is defined once, before its use.
    Strings {
        /// Id of the first text.
        first: u32,
        /// The texts.
        texts: Vec<String>,
    },
    /// A thread, before anything else speaks of it. Again, if its name changes.
    Thread {
        /// Its number within the process.
        thread: u32,
        /// Its id in the system.
        os_id: u64,
        /// Its name, which may be empty.
        name: String,
    },
    /// Nodes of a thread with the ids `first`, `first + 1`, and so on. An id is defined once on its
    /// thread, before its use.
    Nodes {
        /// The thread.
        thread: u32,
        /// Id of the first node.
        first: u32,
        /// The nodes.
        nodes: Vec<NodeDef>,
    },
    /// Scopes that a thread left, in order of their ends.
    Spans {
        /// The thread.
        thread: u32,
        /// The sessions that recorded them, one bit each.
        sessions: u64,
        /// The scopes.
        spans: Vec<Span>,
    },
    /// Values of user metrics, in order of time.
    Values {
        /// The thread.
        thread: u32,
        /// The sessions that recorded them, one bit each.
        sessions: u64,
        /// The values.
        values: Vec<Value>,
    },
    /// The scopes that are open on a thread at this moment, outermost first. A later frame of the
    /// same thread replaces this one.
    Open {
        /// The thread.
        thread: u32,
        /// Node and start in nanoseconds of each.
        spans: Vec<(u32, i64)>,
    },
    /// What counters of the machine said, in order of time. They are of no thread.
    Counters(Vec<Counter>),
    /// Something happened to a session.
    Session {
        /// Number of the session: its bit in the masks of spans and values.
        session: u32,
        /// What happened.
        event: SessionEvent,
        /// The session's name.
        name: String,
        /// When.
        time_nanos: i64,
    },
    /// Which scopes of the next frame of the thread's spans are launches.
    Launches {
        /// The thread.
        thread: u32,
        /// Position among the spans, ascending, and the number that the launch shares with what it
        /// launched.
        launches: Vec<(u32, u32)>,
    },
    /// A device of the process. A later frame with its number replaces this one.
    Device(Device),
    /// Shapes of activities with the ids `first`, `first + 1`, and so on. An id is defined once, before
    /// its use.
    Shapes {
        /// Id of the first shape.
        first: u32,
        /// The shapes.
        shapes: Vec<Shape>,
    },
    /// What devices did, in any order.
    Activities {
        /// The sessions that saw the launches, one bit each.
        sessions: u64,
        /// The activities.
        activities: Vec<Activity>,
    },
    /// Something about the process. A later frame with its key replaces this one.
    Note {
        /// What it is.
        key: String,
        /// The value as JSON.
        value: String,
    },
    /// What was lost so far, by cause. A later frame replaces this one.
    Losses(Vec<(LossCause, u64)>),
    /// What recording has cost so far. A later frame replaces this one.
    Overhead(Overhead),
    /// The spool is complete; nothing follows.
    End,
}

/// A node of a thread's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeDef {
    /// The node above, whose id is smaller. A root names itself.
    pub parent: u32,
    /// What it stands for.
    pub kind: NodeKind,
    /// Id of its name.
    pub name: u32,
}

/// A scope that was entered and left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its node.
    pub node: u32,
    /// When it was entered.
    pub start_nanos: i64,
    /// When it was left.
    pub end_nanos: i64,
}

impl Span {
    /// How long it was open; 0 where the clock went backwards.
    pub const fn duration_nanos(&self) -> u64 {
        if self.end_nanos < self.start_nanos {
            return 0;
        }
        self.end_nanos.abs_diff(self.start_nanos)
    }
}

/// A value that was added to a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The node that it belongs to.
    pub node: u32,
    /// When it was added.
    pub time_nanos: i64,
    /// Id of the metric's name.
    pub metric: u32,
    /// The value.
    pub value: MetricValue,
}

/// What a counter of the machine said at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counter {
    /// When it was read.
    pub time_nanos: i64,
    /// Id of its name.
    pub name: u32,
    /// Number of the device that it is of, if it is of one.
    pub device: Option<u32>,
    /// The value.
    pub value: f64,
}

/// What can happen to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// It exists from here on, and records.
    Started,
    /// It records again.
    Activated,
    /// It stops to record for a while.
    Deactivated,
    /// It enters the phase of this number; it starts in phase 0.
    Phase(u32),
    /// It has written its file and is gone.
    Finalized,
}
