//! Stamps: the properties that many spans share besides their context. These are the sessions, the
//! phase, and whether the span is open. A collection keeps each combination once, and spans refer
//! to it by position.

use std::collections::HashMap;

/// The sessions and the phase of spans, and whether they are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stamp {
    pub(super) sessions: u64,
    pub(super) phase: u32,
    pub(super) is_open: bool,
}

/// The stamps of a spool, each once.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    stamps: Vec<Stamp>,
    /// The position of each stamp in `stamps`.
    positions: HashMap<Stamp, u32>,
}

impl Stamps {
    /// Returns the position of a stamp.
    pub(super) fn position(&mut self, stamp: Stamp) -> u32 {
        *self.positions.entry(stamp).or_insert_with(|| {
            self.stamps.push(stamp);
            self.stamps.len() as u32 - 1
        })
    }

    /// Returns all stamps by position.
    pub(super) fn into_vec(self) -> Vec<Stamp> {
        self.stamps
    }
}
