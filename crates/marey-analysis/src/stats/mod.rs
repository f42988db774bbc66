//! Statistics of what steps took.
//!
//! Values that are not finite are the caller's to leave out: nothing here looks for them.

mod blocks;
mod bootstrap;
mod describe;
mod slope;
mod split_mix;

pub use bootstrap::{Bootstrap, Interval, RESAMPLES, Resampled};
pub use describe::{Stat, mad, mean, median, percentile};
pub use slope::theil_sen;
