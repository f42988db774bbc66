//! Tests of the recorder through its API, `marey_record::api`.
//!
//! The recorder's state belongs to the process: tests run one at a time ([`harness::Fixture`]), and
//! a test that needs a process of its own runs this program again ([`harness::Subprocess`]).

#![cfg(not(loom))]

#[cfg(test)]
mod concurrency;
#[cfg(test)]
mod counters;
#[cfg(test)]
mod detached;
#[cfg(test)]
mod devices;
#[cfg(test)]
mod documents;
mod endpoint;
#[cfg(test)]
mod environment;
#[cfg(test)]
mod files;
#[cfg(test)]
mod forks;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod instants;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod msgpack;
#[cfg(test)]
mod performance;
mod phases;
#[cfg(test)]
mod profile;
#[cfg(test)]
mod rings;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod scopes;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod spool;
#[cfg(test)]
mod stalls;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod system;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod threads;
#[cfg(test)]
mod traces;
