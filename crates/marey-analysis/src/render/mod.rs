//! Renders comparisons and verdicts as text: Markdown, and `JUnit` XML for CI.

mod junit;
mod markdown;
pub mod show;

pub use junit::junit;
pub use markdown::markdown;
