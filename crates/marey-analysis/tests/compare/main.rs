//! What two runs differ in, and whether that may pass: from plain numbers.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]
#![expect(clippy::float_cmp, reason = "numbers are taken over as they are")]

mod comparison;
mod properties;
mod render;
