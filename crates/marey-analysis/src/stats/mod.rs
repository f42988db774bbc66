//! Statistics over step times for comparisons and gates: percentiles, bootstrap intervals, and
//! robust slopes.
//!
//! Callers must filter out values that are not finite, because nothing here checks for them.

mod blocks;
mod bootstrap;
mod describe;
mod slope;
mod split_mix;

pub use bootstrap::{Bootstrap, Interval, RESAMPLES, Resamples};
pub use describe::{Stat, mad, mean, median, percentile};
pub use slope::theil_sen;
