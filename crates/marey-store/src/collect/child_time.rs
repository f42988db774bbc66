//! The time of ended spans whose parent has not ended yet, from which the self time of the parent
//! is computed.
//!
//! A spool contains a span once it has ended, so children come before their parent. The parent may
//! never come: a scope that is open while its session is paused or ends is not written. The time of
//! its children must not count for the next span of the node, which begins later than all of them.
//! So times are kept in groups, one for each period in which no span was lost.

/// Maximum number of groups of a node. When it is exceeded, the two oldest are merged. A scope
/// around a whole program would otherwise collect groups without end.
const MAX_GROUPS: usize = 32;

/// Time of the direct children of a node's open spans.
#[derive(Clone, Debug, Default)]
pub(super) struct ChildTime {
    groups: Vec<ChildGroup>,
}

/// The time of children between which no span was lost.
#[derive(Clone, Copy, Debug)]
struct ChildGroup {
    epoch: u64,
    /// The latest start of a child.
    last_start_nanos: i64,
    nanos: i64,
}

impl ChildTime {
    /// Adds a child that has ended. `epoch` changes whenever a parent may have been lost.
    #[inline]
    pub(super) fn add(&mut self, epoch: u64, start_nanos: i64, duration_nanos: i64) {
        match self.groups.last_mut() {
            Some(group) if group.epoch == epoch => group.add(start_nanos, duration_nanos),
            _ => {
                if self.groups.len() == MAX_GROUPS {
                    let oldest = self.groups.remove(0);
                    self.groups[0].add(oldest.last_start_nanos, oldest.nanos);
                }
                let last_start_nanos = start_nanos;
                self.groups.push(ChildGroup { epoch, last_start_nanos, nanos: duration_nanos });
            }
        }
    }

    /// Returns the time inside a span that began at `start_nanos`.
    pub(super) fn nanos_since(&self, start_nanos: i64) -> i64 {
        let inner_groups = self.groups.iter().filter(|group| group.last_start_nanos >= start_nanos);
        inner_groups.fold(0, |sum, group| sum.saturating_add(group.nanos))
    }

    /// Returns the time inside a span that has ended, and removes all times.
    #[inline]
    pub(super) fn take_nanos_since(&mut self, start_nanos: i64) -> i64 {
        let nanos = self.nanos_since(start_nanos);
        self.groups.clear();
        nanos
    }
}

impl ChildGroup {
    fn add(&mut self, start_nanos: i64, duration_nanos: i64) {
        self.last_start_nanos = self.last_start_nanos.max(start_nanos);
        self.nanos = self.nanos.saturating_add(duration_nanos);
    }
}
