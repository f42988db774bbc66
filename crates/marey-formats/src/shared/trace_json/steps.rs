//! Finds the numbers of training steps, which are part of the names of steps in Kineto's
//! vocabulary.

use std::collections::HashMap;

use marey_store::row::{Span, Step};
use marey_store::{Reader, StoreError};

/// Step numbers by thread, start and duration.
pub(crate) struct Steps(HashMap<(u32, i64, i64), u32>);

impl Steps {
    /// Reads all steps that the reader sees.
    pub(crate) fn read(reader: &Reader) -> Result<Self, StoreError> {
        let key = |row: &Step| (row.thread_id, row.start_nanos, row.duration_nanos);
        let rows = reader.rows::<Step>()?;
        Ok(Self(rows.map(|row| row.map(|row| (key(&row), row.number))).collect::<Result<_, _>>()?))
    }

    /// Returns the name of a step, if its number is known.
    pub(crate) fn name(&self, span: &Span) -> Option<String> {
        let key = (span.thread_id, span.start_nanos, span.duration_nanos);
        self.0.get(&key).map(|number| format!("ProfilerStep#{number}"))
    }
}
