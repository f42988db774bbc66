//! NVIDIA: CUPTI, the interface through which the driver tells of launches and activities.
//!
//! [`abi`]: what the interface looks like. [`library`]: finding and loading it, by [`search`], after
//! the [`driver`]. [`unavailable`]: why it cannot be had. [`session`]: recording by it, from `subscription.rs`
//! (alone, or beside other tools) over `callback.rs` (the program's threads: launches, and every call of the
//! [`interfaces`] that are asked for) and `delivery.rs` (buffers) to `reader.rs` (the decoder's thread).
//!
//! A record is of the launch whose number it has. The driver's launch tells where it belongs; a call of the
//! runtime around it has the same number and is a span alone, so nothing counts twice. Numbers that the program
//! puts upon its calls (`cuptiActivityPushExternalCorrelationId`) are asked for where calls are kept, since
//! the library writes them only beside records of calls. Beside other tools each subscriber has its own, and
//! those of others are not told to us.
//!
//! No function of libcupti is called before the driver is known to work: most versions only give an
//! error then, but 13.2 calls itself until the stack is full.

pub mod abi;
mod activity;
mod activity_calls;
mod buffers;
mod callback;
mod clock;
#[cfg(test)]
mod compiled;
mod delivery;
mod dl;
pub mod driver;
pub mod driver_error;
mod finish;
pub mod functions;
pub mod interfaces;
pub mod library;
mod names;
mod reader;
pub mod search;
pub mod session;
pub(crate) mod subscription;
pub mod unavailable;

/// Makes calls of CUDA that are not recorded as the program's.
pub(crate) fn unseen<T>(act: impl FnOnce() -> T) -> T {
    callback::ours(act)
}
