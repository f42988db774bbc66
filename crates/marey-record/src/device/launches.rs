//! The log of a thread's launches: a ring buffer on their way to the decoder.

use crate::losses;
use crate::ring::{Pushed, RECORD_BYTES, Record, RingBuffer};
use crate::settings;
use marey_model::loss::LossCause;
use marey_model::setting::Setting;

use super::source;

/// The log of launches of a thread.
#[derive(Debug)]
pub(crate) struct Launches(RingBuffer);

/// A launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// The correlation id.
    pub(crate) correlation_id: u32,
    /// Identifies the phases of the sessions at the launch; see [`crate::control::Control::stamp`].
    pub(crate) stamp: u32,
    /// The node in the tree of scopes. The next field is the node in the tree of Python frames.
    pub(crate) shadow_node: u32,
    pub(crate) python_node: u32,
    /// The sessions that see the launch.
    pub(crate) sessions: u64,
    /// Whether the node stands for the kernel itself: a launch hook has named it.
    pub(crate) is_named: bool,
    /// Whether no activity will follow: the call failed, or became a node of a graph.
    pub(crate) is_cancelled: bool,
    /// The kind of work.
    pub(crate) kind: LaunchKind,
}

/// The kind of work that an API call launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchKind {
    /// A kernel, which leaves one record.
    Kernel,
    /// A copy or a fill, which leaves one record.
    Memory,
    /// A graph, which leaves any number of records.
    Graph,
    /// A wait for a device or a copy of no bytes, which may leave no record.
    Silent,
}

impl LaunchKind {
    const ALL: [Self; 4] = [Self::Kernel, Self::Memory, Self::Graph, Self::Silent];

    /// Returns the kind as encoded in the flags of a launch's record.
    #[inline(always)]
    pub(super) const fn flag_bits(self) -> u64 {
        (self as u64) << KIND_SHIFT
    }
}

/// The word of a launch's record with the correlation id and the stamp above it.
pub(super) const IDS_WORD: usize = 0;
/// The word of a launch's record with the flags below.
pub(super) const FLAGS_WORD: usize = 3;
const IS_NAMED: u64 = 1;
pub(super) const IS_CANCELLED: u64 = 2;
const KIND_SHIFT: u32 = 2;
pub(super) const KIND_MASK: u64 = 3 << KIND_SHIFT;

impl Launches {
    pub(crate) fn new() -> Self {
        Self(RingBuffer::new(settings::whole(Setting::LaunchBufferBytes) / RECORD_BYTES))
    }

    /// Logs a launch. Only the owner may call this.
    #[inline(always)]
    pub(crate) fn push(&self, launch: &Launch) {
        match self.0.push(launch.encode()) {
            Pushed::WithRoom => {}
            Pushed::BeyondHalf => source::request_drain(),
            Pushed::Refused => losses::count(LossCause::LaunchBuffer),
        }
    }

    /// Drains the logged records, oldest first.
    pub(super) fn drain(&self, receive: impl FnMut(Record)) {
        self.0.drain(receive);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Launch {
    #[inline(always)]
    pub(super) fn encode(&self) -> Record {
        let pack = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        [
            pack(self.correlation_id, self.stamp),
            pack(self.shadow_node, self.python_node),
            self.sessions,
            flag(self.is_named, IS_NAMED)
                | flag(self.is_cancelled, IS_CANCELLED)
                | self.kind.flag_bits(),
        ]
    }

    #[inline(always)]
    pub(super) fn decode([ids, nodes, sessions, flags]: Record) -> Self {
        Self {
            correlation_id: ids as u32,
            stamp: (ids >> 32) as u32,
            shadow_node: nodes as u32,
            python_node: (nodes >> 32) as u32,
            sessions,
            is_named: flags & IS_NAMED != 0,
            is_cancelled: flags & IS_CANCELLED != 0,
            kind: LaunchKind::ALL[((flags & KIND_MASK) >> KIND_SHIFT) as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logged_launches_are_taken_unchanged() {
        let launches = Launches::new();
        let launch = Launch {
            correlation_id: u32::MAX,
            stamp: 7,
            shadow_node: 3,
            python_node: u32::MAX - 1,
            sessions: 1 << 63,
            is_named: true,
            is_cancelled: false,
            kind: LaunchKind::Silent,
        };
        let other =
            Launch { is_named: false, is_cancelled: true, kind: LaunchKind::Kernel, ..launch };
        launches.push(&launch);
        launches.push(&other);
        let mut taken = Vec::new();
        launches.drain(|record| taken.push(Launch::decode(record)));
        assert_eq!(taken, [launch, other]);
        assert!(launches.is_empty());
    }
}
