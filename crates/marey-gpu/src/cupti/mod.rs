//! NVIDIA: CUPTI, the interface through which the driver tells of launches and activities.
//!
//! [`abi`]: what the interface looks like. [`library`]: finding and loading it, by [`search`], after
//! the [`driver`]. [`unavailable`]: why it cannot be had.

pub mod abi;
mod dl;
pub mod driver;
pub mod driver_error;
pub mod functions;
pub mod library;
pub mod search;
pub mod unavailable;
