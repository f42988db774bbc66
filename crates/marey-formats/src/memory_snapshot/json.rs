//! Reads snapshots in JSON, as `marey.torch.memory_snapshot` writes them. One list at a time is in
//! memory.

use super::{ROW_LISTS, Snapshot};
use crate::shared::import::ReaderError;
use crate::shared::pickle::{Document, Row, RowList, Value, Values};

impl Document for Snapshot<'_> {
    const NAME: &'static str = "a memory snapshot";
    const LONG_LISTS: &'static [&'static str] = &[];

    fn add(
        &mut self,
        key: &str,
        value: Value,
        values: &mut Values,
        offset: u64,
    ) -> Result<(), ReaderError> {
        let Some(&RowList { key, depth }) = ROW_LISTS.iter().find(|list| list.key == key) else {
            return Ok(self.import.add_metadata(
                self.process_id,
                key,
                values.json(value),
                offset,
            )?);
        };
        let lists = if depth == 1 { vec![value] } else { items(values, value) };
        for (list, list_index) in lists.into_iter().zip(0..) {
            for value in items(values, list) {
                self.add_row(values, Row { key, list_index, value, offset })?;
            }
        }
        Ok(())
    }
}

fn items(values: &Values, list: Value) -> Vec<Value> {
    values.items(list).unwrap_or_default().to_vec()
}
