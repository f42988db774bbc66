//! Answers for people and machines that build programs.

mod junit;
mod markdown;
pub mod show;

pub use junit::junit;
pub use markdown::markdown;
