//! The memory pool of one query. It signals when all memory of the query is released, which an
//! answer awaits before it reports an error.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use tokio::sync::oneshot;

/// A pool that delegates to the one that all queries share. Each reservation holds a reference to
/// it, so it is dropped together with the last reservation.
#[derive(Debug)]
pub(super) struct QueryMemory {
    shared: Arc<dyn MemoryPool>,
    _release_signal: oneshot::Sender<()>,
}

impl QueryMemory {
    /// Returns the pool of a new query, and a receiver that resolves (to an error) once the pool is
    /// dropped.
    pub(super) fn new(shared: Arc<dyn MemoryPool>) -> (Self, oneshot::Receiver<()>) {
        let (release_signal, memory_released) = oneshot::channel();
        (Self { shared, _release_signal: release_signal }, memory_released)
    }
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &'static str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.shared.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.shared.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.shared.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.shared.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.shared.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.shared.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.shared.memory_limit()
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "query of {}", self.shared)
    }
}
