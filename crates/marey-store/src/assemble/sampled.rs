//! The sums of the samples that the flame graph shows.

use marey_model::metric::MetricValue;

use super::Assembler;
use super::processes::NewThread;
use crate::row::Sample;

/// The samples that the flame graph shows. They are given by the names of their values, as text
/// ids.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampled {
    /// Name of the value that counts occurrences of a stack. Without one, each row with a time
    /// counts as one.
    pub count_name_id: Option<u32>,
    /// Name of the value that holds a stack's time in nanoseconds.
    pub nanos_name_id: Option<u32>,
    /// Whether counts are calls of the innermost frame. Such counts do not count for its callers.
    pub counts_calls: bool,
}

/// The sum of the samples of one thread and context.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SampledSum {
    pub(super) count: f64,
    pub(super) nanos: f64,
}

impl Assembler {
    /// Adds a sample to the sums of the flame graph if it has one of the values in `sampled`.
    pub(super) fn add_to_sampled_sums(&mut self, sample: &Sample) {
        let Sampled { count_name_id, nanos_name_id, .. } = self.sampled;
        let is_count = count_name_id == Some(sample.name_id);
        let is_nanos = nanos_name_id == Some(sample.name_id);
        let value = match sample.value {
            MetricValue::Int(value) => value as f64,
            MetricValue::Float(value) if value.is_finite() => value,
            _ => return,
        };
        if !is_count && !is_nanos {
            return;
        }
        let process_id = sample.process_id;
        let threads = &mut self.threads;
        let thread = sample.thread_id.unwrap_or_else(|| {
            *self.sampled_threads.entry(process_id).or_insert_with(|| {
                threads.push(NewThread { process_id, os_id: 0, name: String::new() });
                threads.len() as u32 - 1
            })
        });
        let sum = self.sampled_sums.entry((thread, sample.context_id)).or_default();
        if is_count {
            sum.count += value;
        }
        if is_nanos {
            sum.nanos += value;
            sum.count += if count_name_id.is_none() { 1.0 } else { 0.0 };
        }
    }
}
