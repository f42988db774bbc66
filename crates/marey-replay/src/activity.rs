//! The kinds of records that profilers want.

use crate::callback::MOST;
use std::sync::atomic::{AtomicU64, Ordering};

/// Those who get records: the process, for whom the calls without a subscriber are made, and each
/// subscriber beside others.
pub(crate) const CLIENTS: usize = 1 + MOST;

/// The process.
pub(crate) const PROCESS: usize = 0;

/// The client that a subscriber is.
pub(crate) const fn client_of(subscriber: usize) -> usize {
    1 + subscriber
}

static ENABLED: [AtomicU64; CLIENTS] = [const { AtomicU64::new(0) }; CLIENTS];

/// What any client wants.
static ANY: AtomicU64 = AtomicU64::new(0);

/// Some clients, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clients(pub u8);

impl Clients {
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// This one, if it is among them.
    pub(crate) const fn only(self, client: usize) -> Self {
        Self(self.0 & 1 << client)
    }

    pub(crate) fn numbers(self) -> impl Iterator<Item = usize> {
        (0..CLIENTS).filter(move |client| self.0 & 1 << client != 0)
    }
}

/// Whether the kind is one that libcupti knows, and from now on recorded or not.
pub(crate) fn enable(client: usize, kind: u32, is_enabled: bool) -> bool {
    if !(1..64).contains(&kind) {
        return false;
    }
    let bit = 1 << kind;
    if is_enabled {
        ENABLED[client].fetch_or(bit, Ordering::Release);
    } else {
        ENABLED[client].fetch_and(!bit, Ordering::Release);
    }
    sum_up();
    true
}

/// Stops recording for a client.
pub(crate) fn disable(client: usize) {
    ENABLED[client].store(0, Ordering::Release);
    sum_up();
}

/// Stops recording.
pub(crate) fn disable_all() {
    (0..CLIENTS).for_each(disable);
}

fn sum_up() {
    let any = ENABLED.iter().fold(0, |any, kinds| any | kinds.load(Ordering::Acquire));
    ANY.store(any, Ordering::Release);
}

/// Whether a client wants any kind.
pub(crate) fn is_recording(client: usize) -> bool {
    ENABLED[client].load(Ordering::Acquire) != 0
}

#[inline]
pub(crate) fn is_enabled(kind: u32) -> bool {
    ANY.load(Ordering::Acquire) & (1 << kind) != 0
}

#[inline]
pub(crate) fn is_any_enabled(kinds: &[u32]) -> bool {
    let wanted = kinds.iter().fold(0, |bits, kind| bits | (1 << kind));
    ANY.load(Ordering::Acquire) & wanted != 0
}

/// Who wants a kind.
#[inline]
pub(crate) fn wanting(kind: u32) -> Clients {
    let clients = ENABLED.iter().enumerate();
    Clients(clients.fold(0, |wanting, (client, kinds)| {
        wanting | ((kinds.load(Ordering::Acquire) >> kind & 1) as u8) << client
    }))
}
