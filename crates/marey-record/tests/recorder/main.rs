//! Tests of the recorder through its API, `marey_record::api`.
//!
//! The recorder's state belongs to the process: tests run one at a time ([`harness::Fixture`]), and
//! a test that needs a process of its own runs this program again ([`harness::Subprocess`]).

#![cfg(test)]
#![cfg(not(loom))]

mod concurrency;
mod counters;
mod detached;
mod devices;
mod documents;
mod endpoint;
mod environment;
mod files;
mod forks;
mod harness;
mod instants;
mod kills;
mod metrics;
mod msgpack;
mod performance;
mod phases;
mod profile;
mod rings;
mod runs;
mod schedules;
mod scopes;
mod sessions;
mod spool;
mod stalls;
mod steps;
mod system;
mod tasks;
mod threads;
mod traces;
