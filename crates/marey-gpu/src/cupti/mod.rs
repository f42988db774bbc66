//! NVIDIA: CUPTI, the interface through which the driver tells of launches and activities.
//!
//! [`abi`]: what the interface looks like. [`library`]: finding and loading it, by [`search`], after
//! the [`driver`]. [`unavailable`]: why it cannot be had.
//!
//! No function of libcupti is called before the driver is known to work: most versions only give an
//! error then, but 13.2 calls itself until the stack is full.

pub mod abi;
mod activity;
mod buffers;
mod callback;
mod clock;
#[cfg(test)]
mod compiled;
mod delivery;
mod dl;
pub mod driver;
pub mod driver_error;
pub mod functions;
pub mod interfaces;
pub mod library;
mod names;
mod reader;
pub mod search;
pub mod session;
mod subscription;
pub mod unavailable;
