//! Time inside a span that has not ended yet.
//!
//! A span is told when it ends, so those inside it come first, and their time waits for it. Some wait
//! in vain: a scope that is open while its session is paused or ends is never told. What waits for it
//! must not be charged to the next span of the place. That one began later than all that lies inside
//! the lost one, so time is kept apart wherever a span may have been lost.

/// Groups of a place. Of more, the two oldest become one: a scope around a whole program never ends.
const MAX_GROUPS: usize = 32;

/// Time in spans directly inside those of a place that have not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Inside {
    groups: Vec<Group>,
}

/// Time in spans between which none was lost.
#[derive(Clone, Copy, Debug)]
struct Group {
    turn: u64,
    /// When the last of them to begin began.
    last_start_nanos: i64,
    nanos: i64,
}

impl Inside {
    /// A span has ended; with each `turn` one around it may have been lost.
    #[inline]
    pub(super) fn add(&mut self, turn: u64, start_nanos: i64, duration_nanos: i64) {
        match self.groups.last_mut() {
            Some(group) if group.turn == turn => group.add(start_nanos, duration_nanos),
            _ => {
                if self.groups.len() == MAX_GROUPS {
                    let oldest = self.groups.remove(0);
                    self.groups[0].add(oldest.last_start_nanos, oldest.nanos);
                }
                let last_start_nanos = start_nanos;
                self.groups.push(Group { turn, last_start_nanos, nanos: duration_nanos });
            }
        }
    }

    /// What is inside a span of the place that began then.
    pub(super) fn since(&self, start_nanos: i64) -> i64 {
        let inside = self.groups.iter().filter(|group| group.last_start_nanos >= start_nanos);
        inside.fold(0, |sum, group| sum.saturating_add(group.nanos))
    }

    /// The same, of a span that has ended: nothing waits any more.
    #[inline]
    pub(super) fn take(&mut self, start_nanos: i64) -> i64 {
        let nanos = self.since(start_nanos);
        self.groups.clear();
        nanos
    }
}

impl Group {
    fn add(&mut self, start_nanos: i64, duration_nanos: i64) {
        self.last_start_nanos = self.last_start_nanos.max(start_nanos);
        self.nanos = self.nanos.saturating_add(duration_nanos);
    }
}
