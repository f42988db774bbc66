//! Enabled activity kinds, per client.

use crate::callback::MAX_SUBSCRIBERS;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of clients: the process, for functions without a subscriber argument, and each subscriber
/// in shared mode.
pub(crate) const CLIENT_COUNT: usize = 1 + MAX_SUBSCRIBERS;

pub(crate) const PROCESS_CLIENT: usize = 0;

pub(crate) const fn client_of_subscriber(subscriber: usize) -> usize {
    1 + subscriber
}

static ENABLED_KINDS: [AtomicU64; CLIENT_COUNT] = [const { AtomicU64::new(0) }; CLIENT_COUNT];

/// Union of the kinds of all clients.
static ENABLED_FOR_ANY_CLIENT: AtomicU64 = AtomicU64::new(0);

/// A set of clients, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clients(pub u8);

impl Clients {
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the set with only this client, if it is a member.
    pub(crate) const fn restricted_to(self, client: usize) -> Self {
        Self(self.0 & 1 << client)
    }

    pub(crate) fn indexes(self) -> impl Iterator<Item = usize> {
        (0..CLIENT_COUNT).filter(move |client| self.0 & 1 << client != 0)
    }
}

/// Enables or disables a kind. Returns whether the kind exists.
pub(crate) fn enable(client: usize, kind: u32, is_enabled: bool) -> bool {
    if !(1..64).contains(&kind) {
        return false;
    }
    let bit = 1 << kind;
    if is_enabled {
        ENABLED_KINDS[client].fetch_or(bit, Ordering::Release);
    } else {
        ENABLED_KINDS[client].fetch_and(!bit, Ordering::Release);
    }
    update_enabled_for_any_client();
    true
}

/// Disables all kinds of a client.
pub(crate) fn disable(client: usize) {
    ENABLED_KINDS[client].store(0, Ordering::Release);
    update_enabled_for_any_client();
}

pub(crate) fn disable_all() {
    (0..CLIENT_COUNT).for_each(disable);
}

fn update_enabled_for_any_client() {
    let any = ENABLED_KINDS.iter().fold(0, |any, kinds| any | kinds.load(Ordering::Acquire));
    ENABLED_FOR_ANY_CLIENT.store(any, Ordering::Release);
}

/// Whether a client has enabled any kind.
pub(crate) fn is_recording(client: usize) -> bool {
    ENABLED_KINDS[client].load(Ordering::Acquire) != 0
}

#[inline]
pub(crate) fn is_enabled(kind: u32) -> bool {
    ENABLED_FOR_ANY_CLIENT.load(Ordering::Acquire) & (1 << kind) != 0
}

#[inline]
pub(crate) fn is_any_enabled(kinds: &[u32]) -> bool {
    let wanted = kinds.iter().fold(0, |bits, kind| bits | (1 << kind));
    ENABLED_FOR_ANY_CLIENT.load(Ordering::Acquire) & wanted != 0
}

#[inline]
pub(crate) fn enabled_clients(kind: u32) -> Clients {
    let clients = ENABLED_KINDS.iter().enumerate();
    Clients(clients.fold(0, |enabled_clients, (client, kinds)| {
        enabled_clients | ((kinds.load(Ordering::Acquire) >> kind & 1) as u8) << client
    }))
}
