//! The spans of a run by thread, sorted in temporary files if memory is short.

use std::cmp::Reverse;

use super::Reader;
use crate::StoreError;
use crate::environment::temp_dir;
use crate::row::{DamagedRow, Field, Row, RowBytes, Span};
use crate::sort::{Sortable, Sorter, SpillFile};

/// Spans sorted by thread, then by start.
#[derive(Debug)]
pub struct SpansByThread {
    sorter: Sorter<SpanWithDepth>,
}

impl SpansByThread {
    /// Sorts the spans of the reader's selection.
    pub(super) fn sort(reader: &Reader) -> Result<Self, StoreError> {
        // The rows spill to the temporary folder, because the run's folder may not be writable.
        let mut sorter = Sorter::new(&SpillFile::new(&temp_dir()));
        for span in reader.rows::<Span>()? {
            let span = span?;
            let depth = reader.context(span.context_id).depth;
            sorter.push(&SpanWithDepth { span, depth })?;
        }
        Ok(Self { sorter })
    }

    /// Passes all spans to `on_span`, in order.
    pub fn for_each<E: From<StoreError>>(
        self,
        mut on_span: impl FnMut(&Span) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut callback_result = Ok(());
        let sort_result = self.sorter.for_each(|row| {
            if callback_result.is_ok() {
                callback_result = on_span(&row.span);
            }
            Ok(())
        });
        callback_result?;
        Ok(sort_result?)
    }
}

#[derive(Debug)]
struct SpanWithDepth {
    span: Span,
    depth: u32,
}

impl Sortable for SpanWithDepth {
    type Key = (u32, i64, Reverse<i64>, u32);

    fn key(&self) -> Self::Key {
        let Span { thread_id, start_nanos, duration_nanos, .. } = self.span;
        (thread_id, start_nanos, Reverse(duration_nanos), self.depth)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Row::encode(&self.span, out);
        Field::encode(&self.depth, out);
    }

    fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
        Ok(Self { span: Row::decode(input)?, depth: Field::decode(input)? })
    }
}
