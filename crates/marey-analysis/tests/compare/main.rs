//! Comparisons and gates, from plain numbers.

#![expect(clippy::unwrap_used, reason = "a panic fails the test at the right line")]
#![expect(clippy::float_cmp, reason = "expected values are exact")]

mod comparison;
mod properties;
mod render;
