//! The GPU data sources of the recorder, inside the profiled process: CUPTI, NVML and NVTX.
//!
//! Each vendor library is loaded at run time by `dlopen`. None is needed to build; without them,
//! only the host side is recorded. The sources deliver events to `marey-record`, which attributes
//! them to sessions and contexts.
//!
//! **Callers.** Only `marey-capi`, which is `libmarey.so`.
//!
//! **Constraints.** A callback of a vendor library takes no lock that is held around calls of that
//! library, does not allocate on the fast path, and does not unwind. Loaded libraries are never
//! unloaded. The crate contains no vendor header. Its layouts are tables of offsets, which `cargo
//! xtask layout` compares with the vendor's headers. The crate uses neither tokio nor Arrow.

pub mod cupti;
pub mod level;
pub mod nvml;
pub mod nvtx;
pub mod probe;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex and ignores poisoning.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
