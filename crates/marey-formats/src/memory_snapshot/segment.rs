//! Reads the memory that an allocator owns: segments and their blocks.

use std::sync::Arc;

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_store::Assembler;
use marey_store::row::MemoryBlock;

use super::Snapshot;
use crate::shared::pickle::{ElementError, Fields, Row, Value, ValueError, Values, stack_context};

/// A segment. Its blocks are in the order of their addresses.
struct Segment {
    device: u32,
    stream: Option<u64>,
    address: u64,
    bytes: i64,
    kind: Arc<str>,
    /// The remaining fields, which become arguments of each block.
    other_fields: Fields,
}

impl Snapshot<'_> {
    /// Adds the blocks of a segment.
    pub(super) fn add_segment(
        &mut self,
        values: &mut Values,
        row: Row,
    ) -> Result<(), ElementError> {
        let (segment, blocks) = self.read_segment(values, row)?;
        let mut next_address = segment.address;
        for block in blocks {
            let result = self.add_block(values, &segment, block, row.offset, &mut next_address);
            self.import.count_unreadable(result, "blocks", row.offset)?;
        }
        Ok(())
    }

    fn read_segment(
        &mut self,
        values: &Values,
        row: Row,
    ) -> Result<(Segment, Vec<Value>), ValueError> {
        let mut fields = Fields::from_dict(values, row.value)?;
        let blocks = fields
            .take(values, "blocks", |list| values.items(list))
            .ok_or(ValueError::MissingField)?;
        // Segments may share the list.
        values.count_expansion(size_of_val(blocks))?;
        // The stack is dropped, because the `segment_alloc` in the trace has it too.
        fields.take(values, "frames", Some);
        let segment_type = fields.take_name(values, "segment_type").unwrap_or_default();
        let device = fields.take(values, "device", |value| u32::try_from(value.as_int()?).ok());
        let segment = Segment {
            device: device.unwrap_or(0),
            stream: fields.take_int(values, "stream").map(|stream| stream as u64),
            address: fields.take_int(values, "address").ok_or(ValueError::MissingField)? as u64,
            bytes: fields.take_int(values, "total_size").ok_or(ValueError::MissingField)?,
            kind: self.interned.intern(segment_type),
            other_fields: fields,
        };
        Ok((segment, blocks.to_vec()))
    }

    /// Adds a block. A block without an address follows the previous block.
    fn add_block(
        &mut self,
        values: &mut Values,
        segment: &Segment,
        block: Value,
        offset: u64,
        next_address: &mut u64,
    ) -> Result<(), ElementError> {
        let mut fields = Fields::from_dict(values, block)?;
        let bytes = fields.take_int(values, "size").ok_or(ValueError::MissingField)?;
        let state = fields.take_name(values, "state").ok_or(ValueError::MissingField)?;
        let state = self.interned.intern(state);
        let address =
            fields.take_int(values, "address").map_or(*next_address, |address| address as u64);
        *next_address = address.wrapping_add_signed(bytes);
        let mut requested_bytes = fields.take_int(values, "requested_size");
        let mut frames = fields.take(values, "frames", Some);
        let mut result = Ok(());
        let history = fields.take(values, "history", |list| values.items(list));
        if let Some((&latest, earlier)) = history.and_then(<[_]>::split_first) {
            // Old snapshots have the stack and the size in the history.
            match Fields::from_dict(values, latest) {
                Ok(mut fields) => {
                    frames = frames.or(fields.take(values, "frames", Some));
                    requested_bytes = requested_bytes.or(fields.take_int(values, "real_size"));
                }
                Err(reason) => result = Err(reason),
            }
            if !earlier.is_empty() {
                let cause = "an earlier use of a block, which runs do not store";
                self.import.lose(LossCause::Unsupported, earlier.len() as u64, offset, cause);
            }
        }
        let run = &mut self.import.run;
        let scopes = fields.take(values, "path", |path| values.items(path));
        let scope_context_id = scopes.and_then(|scopes| scope_context(values, scopes, run));
        let (stack_context_id, stack_result) =
            stack_context(values, frames.unwrap_or(Value::None), run);
        let context_id = scope_context_id.or(stack_context_id);
        self.args.clear();
        result = result.and(stack_result).and(fields.add_to_args(values, "", &mut self.args));
        result = result.and(segment.other_fields.add_to_args(values, "segment_", &mut self.args));
        let args = run.args(&mut self.args)?;
        self.blocks.push(MemoryBlock {
            time_nanos: 0,
            process_id: self.process_id,
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
        Ok(result?)
    }
}

/// Returns the context node of the scopes that were open, which are given outermost first. `None`
/// if there are none.
fn scope_context(values: &Values, scopes: &[Value], run: &mut Assembler) -> Option<u32> {
    let names = scopes.iter().map_while(|&name| values.name(name));
    names.fold(None, |parent, name| {
        let name_id = run.text_id(name);
        Some(run.context_id(parent.unwrap_or(Assembler::ROOT), NodeKind::Scope, name_id))
    })
}
