//! The parts that several formats use. Nothing here imports a format or the registry.

pub(crate) mod decimal;
pub(crate) mod export;
pub(crate) mod format;
pub(crate) mod group_ranks;
pub(crate) mod import;
pub(crate) mod input;
pub(crate) mod interned;
pub(crate) mod json;
pub(crate) mod pickle;
pub(crate) mod protobuf;
pub(crate) mod rank_in_name;
pub(crate) mod trace_json;
pub(crate) mod weights;

/// The maximum depth of a tree or call stack that is read, in levels. A deeper one is treated as
/// damage.
pub const MAX_DEPTH: usize = 10_000;
