//! Memory accounting for record batches that share buffers.

use std::collections::HashSet;

use datafusion::arrow::array::{Array, ArrayData, RecordBatch};
use datafusion::arrow::buffer::{Buffer, NullBuffer};

/// The distinct buffers of a number of batches. Batches may share buffers, as those with names
/// share the run's string table.
#[derive(Debug, Default)]
pub struct Held(HashSet<usize>);

impl Held {
    /// Adds a batch; returns the bytes of those of its buffers that no earlier batch has.
    pub fn add(&mut self, batch: &RecordBatch) -> usize {
        batch.columns().iter().map(|column| self.add_data(&column.to_data())).sum()
    }

    fn add_data(&mut self, data: &ArrayData) -> usize {
        let validity = data.nulls().map(NullBuffer::buffer);
        let own: usize = data
            .buffers()
            .iter()
            .chain(validity)
            .filter(|buffer| self.0.insert(buffer.data_ptr().addr().get()))
            .map(Buffer::capacity)
            .sum();
        own + data.child_data().iter().map(|child| self.add_data(child)).sum::<usize>()
    }
}
