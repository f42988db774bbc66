//! Records NVIDIA devices through CUPTI: launches from its callbacks, activities from its activity
//! records.
//!
//! [`abi`] declares the binary interface. [`library`] loads libcupti, found by [`search`], once the
//! [`driver`] is available; [`unavailable`] lists the reasons why that fails. [`session`] records:
//! `subscription.rs` (exclusive or shared), `callback.rs` (launches and calls of the selected
//! [`interfaces`], on the program's threads), `delivery.rs` (activity buffers), `reader.rs` (the
//! decoder's thread).
//!
//! A record belongs to the launch with its correlation id. The driver call of a launch determines
//! the context. A runtime call around it has the same correlation id and is only a span, so nothing
//! is counted twice. External correlation ids that the program pushes
//! (`cuptiActivityPushExternalCorrelationId`) are enabled only if calls are recorded, because CUPTI
//! writes them only beside API records. In shared mode, each subscriber has its own external
//! correlation ids, which other subscribers do not see.
//!
//! No function of libcupti is called before the driver is known to work. Without a driver, most
//! versions return an error, but 13.2 recurses until the stack overflows.

pub mod abi;
mod activity;
mod buffers;
mod callback;
mod clock;
mod delivery;
mod dl;
pub mod driver;
pub mod driver_error;
#[cfg(test)]
mod fake_library;
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

pub(crate) use self::callback::without_recording;
