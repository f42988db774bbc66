//! The frames of a spool: the records of which the file consists.

use crate::context::NodeKind;
use crate::loss::LossCause;
use crate::metric::MetricValue;
use crate::profile::{Overhead, Process};

use super::collective::Collective;
use super::device::{Activity, ActivityShape, Device};
use super::sample::Sample;
use super::variable::Variable;

/// A frame of a spool.
#[derive(Clone, Debug, PartialEq)]
pub enum SpoolFrame {
    /// The recording process. Its duration and completeness are still unknown: see [`SpoolFrame::End`].
    Process(Process),
    /// Simultaneous readings of two clocks. The first pair is taken at the start, the last at the
    /// end.
    Clock {
        /// Monotonic clock, to which all other timestamps refer.
        monotonic_nanos: i64,
        /// Wall clock since 1970.
        unix_nanos: i64,
    },
    /// Texts with the ids `first_id`, `first_id + 1`, and so on. An id is defined once, before its
    /// use.
    Strings {
        /// Id of the first text.
        first_id: u32,
        /// The texts.
        texts: Vec<String>,
    },
    /// A thread, defined before any other frame refers to it. Repeated if its name changes.
    Thread {
        /// Thread number within the process.
        thread: u32,
        /// Thread id in the operating system.
        os_id: u64,
        /// Name; may be empty.
        name: String,
    },
    /// Nodes of a thread with the ids `first_id`, `first_id + 1`, and so on. An id is defined once
    /// on its thread, before its use.
    Nodes {
        /// The thread.
        thread: u32,
        /// Id of the first node.
        first_id: u32,
        /// The nodes.
        nodes: Vec<NodeDef>,
    },
    /// Scopes that ended on a thread, ordered by their end.
    Spans {
        /// The thread.
        thread: u32,
        /// Bit mask of the sessions that recorded the scopes.
        sessions: u64,
        /// The scopes.
        spans: Vec<Span>,
    },
    /// Values of user metrics, ordered by time.
    Values {
        /// The thread.
        thread: u32,
        /// Bit mask of the sessions that recorded the values.
        sessions: u64,
        /// The values.
        values: Vec<RecordedValue>,
    },
    /// The open scopes of a thread, outermost first. Replaces earlier frames for the thread.
    Open {
        /// The thread.
        thread: u32,
        /// Node and start time of each.
        spans: Vec<(u32, i64)>,
    },
    /// Samples of hardware counters, ordered by time. They belong to no thread.
    Counters(Vec<Counter>),
    /// A session event.
    Session {
        /// Session number: the position of its bit in the masks of spans and values.
        session: u32,
        /// Event.
        event: SessionEvent,
        /// Name of the session.
        name: String,
        /// Timestamp.
        time_nanos: i64,
    },
    /// The scopes in the thread's next `Spans` frame that are launches.
    Launches {
        /// The thread.
        thread: u32,
        /// Position among the spans, ascending, and correlation id of the launch.
        launches: Vec<(u32, u32)>,
    },
    /// The operators in the thread's next `Spans` frame that take part in a backward pass.
    Autograd {
        /// The thread.
        thread: u32,
        /// The operators, ordered by position.
        calls: Vec<AutogradCall>,
    },
    /// Arguments of spans with the ids `first_id`, `first_id + 1`, and so on. An id is defined
    /// once, before its use.
    SpanArgs {
        /// Id of the first arguments.
        first_id: u32,
        /// JSON objects.
        texts: Vec<String>,
    },
    /// The scopes in the thread's next `Spans` frame that have arguments.
    ArgsOfSpans {
        /// The thread.
        thread: u32,
        /// Position among the spans, ascending, and id of the arguments.
        args: Vec<(u32, u32)>,
    },
    /// A device of the process. Replaces earlier frames with the same device number.
    Device(Device),
    /// Shapes of activities with the ids `first_id`, `first_id + 1`, and so on. An id is defined
    /// once, before its use.
    Shapes {
        /// Id of the first shape.
        first_id: u32,
        /// The shapes.
        shapes: Vec<ActivityShape>,
    },
    /// Activities of devices, in any order.
    Activities {
        /// Bit mask of the sessions that recorded the launches.
        sessions: u64,
        /// The activities.
        activities: Vec<Activity>,
    },
    /// Collectives of the process, ordered by their calls.
    Collectives(Vec<Collective>),
    /// Samples of call stacks, ordered by time.
    Samples {
        /// The thread that sampled, which has the nodes of the stacks.
        thread: u32,
        /// The samples.
        samples: Vec<Sample>,
    },
    /// Values of watched variables, ordered by time.
    Variables(Vec<Variable>),
    /// Metadata of the process. Replaces earlier frames with the same key.
    Note {
        /// Key.
        key: String,
        /// Value as JSON.
        value: String,
    },
    /// Losses so far, by cause. Replaces earlier frames.
    Losses(Vec<(LossCause, u64)>),
    /// Cost of recording so far. Replaces earlier frames.
    Overhead(Overhead),
    /// The end of a complete spool; no frame follows.
    End,
}

/// A node of a thread's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeDef {
    /// Parent, whose id is smaller. A root is its own parent.
    pub parent_id: u32,
    /// Kind.
    pub kind: NodeKind,
    /// Text id of the name.
    pub name_id: u32,
}

/// An operator that took part in a backward pass: a forward operator that made a node of the
/// autograd graph, or the call of such a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutogradCall {
    /// Position among the spans of the frame.
    pub span_index: u32,
    /// Number of the node, given out by the thread that ran the forward operator.
    pub sequence: u64,
    /// For a node's call, the operating system's id of that thread; 0 for a forward operator.
    pub forward_os_id: u64,
}

/// A scope that was entered and left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Node id.
    pub node_id: u32,
    /// Start time.
    pub start_nanos: i64,
    /// End time.
    pub end_nanos: i64,
}

impl Span {
    /// Returns the duration; 0 if the clock went backwards.
    pub const fn duration_nanos(&self) -> u64 {
        if self.end_nanos < self.start_nanos {
            return 0;
        }
        self.end_nanos.abs_diff(self.start_nanos)
    }
}

/// A value of a user metric.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedValue {
    /// Node id.
    pub node_id: u32,
    /// Time of recording.
    pub time_nanos: i64,
    /// Text id of the metric's name.
    pub name_id: u32,
    /// Value.
    pub value: MetricValue,
}

/// A sample of a hardware counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counter {
    /// Time of the reading.
    pub time_nanos: i64,
    /// Text id of the name.
    pub name_id: u32,
    /// Device number; `None` if the counter is not of a device.
    pub device: Option<u32>,
    /// Value.
    pub value: f64,
}

/// An event in the life of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// The session was created and records.
    Started,
    /// The session resumed recording.
    Activated,
    /// The session paused recording.
    Deactivated,
    /// The session entered the phase with this number; it starts in phase 0.
    Phase(u32),
    /// The session has written its output files and ended.
    Finalized,
}
