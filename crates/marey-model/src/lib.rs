//! The words of marey.
//!
//! Everything two crates must agree on is said here, once: ids, kinds of context node, the names
//! and units of the metrics that marey writes, the causes of loss, the environment variables, a
//! profile at rest ([`profile`]), quantiles that merge ([`sketch`]), and the bytes in which a trace
//! leaves the process ([`spool`]).
//! The Python constants and the reference pages are generated from these tables (`cargo xtask
//! codegen`).
//!
//! **Constraints.** This crate opens no file and no socket, knows neither Arrow nor Python, holds
//! no state, and forbids unsafe code. Both halves of marey use it: the recorder inside the profiled
//! process and the tools outside it.
//!
//! Start reading at [`context::NodeKind`], then [`metric`].
//!
//! ```
//! use marey_model::metric::{MetricName, Aggregation};
//!
//! let name = MetricName::parse("cpu_time (ns)(exc)");
//! assert_eq!(name.key(), "cpu_time (ns)");
//! assert_eq!(name.aggregation(), Aggregation::Exclusive);
//! ```

#![forbid(unsafe_code)]

pub mod args;
pub mod backend;
pub mod context;
pub mod counter;
pub mod env;
pub mod gpu_time;
pub mod loss;
pub mod metric;
pub mod printable;
pub mod profile;
pub mod quantity;
pub mod rank;
pub mod redact;
pub mod run;
pub mod sketch;
pub mod spool;
pub mod table;
pub mod wall;
