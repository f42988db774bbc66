//! Samples of call stacks in a spool.

use super::error::Malformed;
use super::varint::{Fields, put_signed, put_varint};

/// A sample of a thread's call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time of the sample.
    pub time_nanos: i64,
    /// Time since the previous sample, for which this one stands.
    pub duration_nanos: u64,
    /// The operating system's id of the sampled thread.
    pub os_id: u64,
    /// Text id of the sampled thread's name.
    pub thread_name: u32,
    /// The innermost frame: a node of the thread that sampled.
    pub node: u32,
}

/// Smallest encoding of a sample.
const MIN_SAMPLE_BYTES: usize = 5;

pub(super) fn put_samples(out: &mut Vec<u8>, samples: &[Sample]) {
    put_varint(out, samples.len() as u64);
    let mut last_nanos = 0_i64;
    for sample in samples {
        put_signed(out, sample.time_nanos.wrapping_sub(last_nanos));
        put_varint(out, sample.duration_nanos);
        put_varint(out, sample.os_id);
        put_varint(out, u64::from(sample.thread_name));
        put_varint(out, u64::from(sample.node));
        last_nanos = sample.time_nanos;
    }
}

pub(super) fn read_samples(fields: &mut Fields<'_>) -> Result<Vec<Sample>, Malformed> {
    let count = fields.read_count(MIN_SAMPLE_BYTES)?;
    let mut last_nanos = 0_i64;
    let mut samples = Vec::with_capacity(count);
    for _ in 0..count {
        last_nanos = last_nanos.wrapping_add(fields.read_signed()?);
        samples.push(Sample {
            time_nanos: last_nanos,
            duration_nanos: fields.read_varint()?,
            os_id: fields.read_varint()?,
            thread_name: fields.read_u32()?,
            node: fields.read_u32()?,
        });
    }
    Ok(samples)
}
