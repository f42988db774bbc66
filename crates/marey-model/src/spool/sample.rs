//! Samples of call stacks in a spool, with their encoding.

use super::error::Malformed;
use super::varint::{Fields, put_by_time, put_varint, read_by_time};

/// Why a sample was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SampleCause {
    /// The interval had passed.
    Interval,
    /// A scope with the name of `sample.scope` was open.
    Scope,
    /// The training step lasted longer than those before it.
    SlowStep,
    /// The signal of `sample.signal` arrived.
    Signal,
    /// The program, or `marey sample`, requested it.
    Request,
}

impl SampleCause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Self; 5] =
        [Self::Interval, Self::Scope, Self::SlowStep, Self::Signal, Self::Request];

    /// Returns the name that rows of `samples` have.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interval => "interval",
            Self::Scope => "scope",
            Self::SlowStep => "slow step",
            Self::Signal => "signal",
            Self::Request => "request",
        }
    }

    /// Returns the cause with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// A sample of a thread's call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time of the sample.
    pub time_nanos: i64,
    /// Time for which this sample stands, which is the time since the previous check; 0 for a
    /// signal or a request.
    pub duration_nanos: u64,
    /// The operating system's id of the sampled thread.
    pub os_id: u64,
    /// Text id of the sampled thread's name.
    pub thread_name_id: u32,
    /// The innermost frame: a node of the thread that sampled.
    pub node_id: u32,
    /// Why it was drawn.
    pub cause: SampleCause,
}

/// Smallest encoding of a sample.
const MIN_SAMPLE_BYTES: usize = 6;

pub(super) fn put_samples(out: &mut Vec<u8>, samples: &[Sample]) {
    put_by_time(
        out,
        samples,
        |sample| sample.time_nanos,
        |out, sample| {
            put_varint(out, sample.duration_nanos);
            put_varint(out, sample.os_id);
            put_varint(out, u64::from(sample.thread_name_id));
            put_varint(out, u64::from(sample.node_id));
            out.push(sample.cause as u8);
        },
    );
}

pub(super) fn read_samples(fields: &mut Fields<'_>) -> Result<Vec<Sample>, Malformed> {
    read_by_time(fields, MIN_SAMPLE_BYTES, |fields, time_nanos| {
        Ok(Sample {
            time_nanos,
            duration_nanos: fields.read_varint()?,
            os_id: fields.read_varint()?,
            thread_name_id: fields.read_u32()?,
            node_id: fields.read_u32()?,
            cause: fields.read_variant(&SampleCause::ALL, "cause of a sample")?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_found_by_its_number() {
        for cause in SampleCause::ALL {
            assert_eq!(SampleCause::from_number(cause as u8), Some(cause));
        }
        assert_eq!(SampleCause::from_number(SampleCause::ALL.len() as u8), None);
    }
}
