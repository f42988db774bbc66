//! The memory that an allocator owns: segments and their blocks.

use std::collections::HashSet;
use std::sync::Arc;

use marey_model::loss::LossCause;
use marey_store::row::MemoryBlock;

use super::{Read, Snapshot};
use crate::shared::pickle::{Fields, Row, Value, ValueError, context};

/// A segment. Its blocks are in the order of their addresses.
struct Segment {
    device: u32,
    stream: Option<u64>,
    address: u64,
    bytes: i64,
    kind: Arc<str>,
    /// The remaining fields, which become arguments of each block.
    remaining: Fields,
}

impl Snapshot<'_> {
    /// Reads a segment with its blocks.
    pub(super) fn segment(&mut self, row: Row) -> Read {
        let (segment, blocks) = match self.segment_fields(row) {
            Ok(segment) => segment,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut next_address = segment.address;
        for block in blocks {
            if let Err(reason) = self.block(&segment, block, row.offset, &mut next_address)? {
                self.unreadable(row, format_args!("a block: {reason}"));
            }
        }
        Ok(Ok(()))
    }

    fn segment_fields(&mut self, row: Row) -> Result<(Segment, Vec<Value>), ValueError> {
        let values = &self.pickle.values;
        let mut fields = Fields::of(values, row.value)?;
        let blocks = fields
            .take(values, "blocks", |list| values.items(list))
            .ok_or(ValueError::MissingField)?;
        // Segments may share the list.
        values.count_expansion(size_of_val(blocks))?;
        // Its stack is also that of its `segment_alloc` in the trace.
        fields.take(values, "frames", Some);
        let kind = fields.name(values, "segment_type").unwrap_or_default();
        let device = fields.take(values, "device", |value| u32::try_from(value.as_int()?).ok());
        let segment = Segment {
            device: device.unwrap_or(0),
            stream: fields.int(values, "stream").map(|stream| stream as u64),
            address: fields.int(values, "address").ok_or(ValueError::MissingField)? as u64,
            bytes: fields.int(values, "total_size").ok_or(ValueError::MissingField)?,
            kind: intern(&mut self.words, kind),
            remaining: fields,
        };
        Ok((segment, blocks.to_vec()))
    }

    /// Reads a block. One without an address follows the previous block.
    fn block(
        &mut self,
        segment: &Segment,
        block: Value,
        offset: u64,
        next_address: &mut u64,
    ) -> Read {
        let values = &mut self.pickle.values;
        let mut fields = match Fields::of(values, block) {
            Ok(fields) => fields,
            Err(reason) => return Ok(Err(reason)),
        };
        let (Some(bytes), Some(state)) = (fields.int(values, "size"), fields.name(values, "state"))
        else {
            return Ok(Err(ValueError::MissingField));
        };
        let state = intern(&mut self.words, state);
        let address = fields.int(values, "address").map_or(*next_address, |at| at as u64);
        *next_address = address.wrapping_add_signed(bytes);
        let mut requested_bytes = fields.int(values, "requested_size");
        let mut frames = fields.take(values, "frames", Some);
        let mut result = Ok(());
        let history = fields.take(values, "history", |list| values.items(list));
        if let Some((&latest, earlier)) = history.and_then(<[_]>::split_first) {
            // Old snapshots have stack and size in the history.
            match Fields::of(values, latest) {
                Ok(mut fields) => {
                    frames = frames.or(fields.take(values, "frames", Some));
                    requested_bytes = requested_bytes.or(fields.int(values, "real_size"));
                }
                Err(reason) => result = Err(reason),
            }
            if !earlier.is_empty() {
                let cause = "an earlier use of a block, which runs do not store";
                self.import.lose(LossCause::Unsupported, earlier.len() as u64, offset, cause);
            }
        }
        let run = &mut self.import.run;
        let (context_id, stack) = context(values, frames.unwrap_or(Value::None), run);
        self.args.clear();
        result = result.and(stack).and(fields.add_to_args(values, "", &mut self.args));
        result = result.and(segment.remaining.add_to_args(values, "segment_", &mut self.args));
        let args = run.args(&mut self.args)?;
        self.blocks.push(MemoryBlock {
            time_nanos: 0,
            process_id: self.process,
            device: segment.device,
            stream: segment.stream,
            segment_address: segment.address,
            segment_bytes: segment.bytes,
            segment_type: Arc::clone(&segment.kind),
            address,
            bytes,
            requested_bytes,
            state,
            context_id,
            args,
        });
        Ok(result)
    }
}

/// Interns a word that many rows share.
fn intern(words: &mut HashSet<Arc<str>>, word: &str) -> Arc<str> {
    if let Some(known) = words.get(word) {
        return Arc::clone(known);
    }
    let new: Arc<str> = word.into();
    words.insert(Arc::clone(&new));
    new
}
