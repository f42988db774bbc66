//! The vocabulary and the file formats that the recorder and the readers share.
//!
//! Declares ids, kinds of context node, names and units of metrics, causes of loss, environment
//! variables, the profile type ([`profile`]), mergeable quantile sketches ([`sketch`]), the codec
//! of the spool ([`spool`]), and the writers of profiles ([`hatchet`]) and trace events
//! ([`trace_json`], [`proton_trace`]). The Python constants and the reference pages are generated
//! from these tables (`cargo xtask codegen`).
//!
//! **Constraints.** This crate opens no file and no socket, depends on neither Arrow nor Python,
//! holds no state, and forbids unsafe code. The recorder inside the profiled process and the tools
//! outside it both use it.
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
pub mod endpoint;
pub mod env;
pub mod gpu_time;
pub mod hatchet;
pub mod json;
pub mod json_member;
pub mod loss;
pub mod memory;
pub mod metric;
pub mod op_cost;
pub mod printable;
pub mod profile;
pub mod proton_trace;
pub mod quantity;
pub mod rank;
pub mod redact;
pub mod run;
pub mod setting;
pub mod sketch;
pub mod spool;
pub mod table;
pub mod trace_json;
pub mod wall;
