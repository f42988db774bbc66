//! Counts the memory of record batches that share buffers. Each buffer counts once.

use std::collections::HashSet;

use datafusion::arrow::array::{Array, ArrayData, RecordBatch};
use datafusion::arrow::buffer::{Buffer, NullBuffer};

/// The buffers of several batches, each counted once. Columns of names share the run's string
/// table, for example.
#[derive(Debug, Default)]
pub struct DistinctBuffers(HashSet<usize>);

impl DistinctBuffers {
    /// Adds a batch, and returns the size of its buffers that no earlier batch uses.
    pub fn add(&mut self, batch: &RecordBatch) -> usize {
        batch.columns().iter().map(|column| self.add_data(&column.to_data())).sum()
    }

    fn add_data(&mut self, data: &ArrayData) -> usize {
        let validity = data.nulls().map(NullBuffer::buffer);
        let new_bytes: usize = data
            .buffers()
            .iter()
            .chain(validity)
            .filter(|buffer| self.0.insert(buffer.data_ptr().addr().get()))
            .map(Buffer::capacity)
            .sum();
        new_bytes + data.child_data().iter().map(|child| self.add_data(child)).sum::<usize>()
    }
}
