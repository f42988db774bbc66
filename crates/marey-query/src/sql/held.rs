//! The memory that batches hold on to.

use std::collections::HashSet;

use datafusion::arrow::array::{Array, ArrayData, RecordBatch};
use datafusion::arrow::buffer::{Buffer, NullBuffer};

/// The buffers of batches so far. Batches may share some, as those of names do.
#[derive(Debug, Default)]
pub struct Held(HashSet<usize>);

impl Held {
    /// Adds a batch, and gives the bytes of its buffers that no batch before it has.
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
