//! Writing, opening, packing, merging and collecting runs, also corrupt ones.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod assemble;
mod collect;
mod hostile;
mod many_ranks;
mod merge;
mod old_runs;
mod pack;
mod read;
mod run;
mod sample;
mod write;
