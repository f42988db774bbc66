//! Reads an entry of a dump: a collective, or a message from one rank to another.

use marey_store::row::{Collective, CollectiveState};

use super::Dump;
use crate::shared::import::CollectiveEnd;
use crate::shared::pickle::{ElementError, Fields, Value, ValueError, Values, stack_context};

const NANOS_PER_MILLI: f64 = 1e6;

impl Dump<'_> {
    /// Adds the collective of an entry. Returns the first error, also of an unusable part.
    pub(super) fn add_entry(
        &mut self,
        values: &mut Values,
        entry: Value,
        offset: u64,
    ) -> Result<(), ElementError> {
        let mut fields = Fields::from_dict(values, entry)?;
        let run = &mut self.import.run;
        let frames = fields.take(values, "frames", Some).unwrap_or(Value::None);
        let (context_id, stack_result) = stack_context(values, frames, run);
        let values = &*values;
        let profiling_name =
            fields.take_name(values, "profiling_name").ok_or(ValueError::MissingField)?;
        let created_nanos =
            fields.take_int(values, "time_created_ns").ok_or(ValueError::MissingField)?;
        let name = operation_name(profiling_name);
        let group = fields.take(values, "process_group", |names| match values.items(names)? {
            &[name, description] => Some((values.name(name)?, values.name(description)?)),
            _ => None,
        });
        let is_p2p = fields.take(values, "is_p2p", Value::as_bool);
        let is_p2p = is_p2p.unwrap_or(matches!(name, "send" | "recv"));
        let sequence_key = if is_p2p { "p2p_seq_id" } else { "collective_seq_id" };
        let sequence = fields.take_int(values, sequence_key);
        // Without a time, pickles have `None` and JSON has 0.
        let nanos_or_0 = |value: Value| if value == Value::None { Some(0) } else { value.as_int() };
        let mut take_nanos = |key| fields.take(values, key, nanos_or_0).filter(|&nanos| nanos > 0);
        let started_nanos = take_nanos("time_discovered_started_ns");
        let completed_nanos = take_nanos("time_discovered_completed_ns");
        let duration_millis = fields.take(values, "duration_ms", Value::as_f64);
        let state = fields.take(values, "state", |value| parse_state(values.text(value)?));
        let inputs = Tensors::from_fields(&fields, values, "input_sizes", "input_dtypes");
        let outputs = Tensors::from_fields(&fields, values, "output_sizes", "output_dtypes");

        self.args.clear();
        self.args.text("profiling_name", profiling_name);
        if let Some((_, description)) = group {
            self.args.text("pg_desc", description);
        }
        for (key, nanos) in [
            ("time_discovered_started_ns", started_nanos),
            ("time_discovered_completed_ns", completed_nanos),
        ] {
            if let Some(nanos) = nanos {
                self.args.int(key, nanos);
            }
        }
        let args_result = fields.add_to_args(values, "", &mut self.args);

        let start_nanos = started_nanos.unwrap_or(created_nanos);
        let duration_nanos = match duration_millis {
            Some(duration_millis) => Some((duration_millis * NANOS_PER_MILLI) as i64),
            None => completed_nanos.map(|end| end.saturating_sub(start_nanos)),
        };
        let state = state.unwrap_or(match (started_nanos, completed_nanos) {
            (_, Some(_)) => CollectiveState::Completed,
            (Some(_), None) => CollectiveState::Started,
            (None, None) => CollectiveState::Scheduled,
        });
        let group = group.map_or("", |(name, _)| name);
        let (name_id, group_id) = (run.text_id(name), run.text_id(group));
        if let (Some(sequence), Some(end_nanos), false) = (sequence, completed_nanos, is_p2p) {
            self.import.collective_ends.push(CollectiveEnd {
                group_id,
                group_ranks_id: None,
                group_size: None,
                sequence,
                name_id,
                end_nanos,
                offset,
            });
        }
        let dtype = inputs.dtype.or(outputs.dtype);
        let collective = Collective {
            start_nanos,
            duration_nanos: duration_nanos.map(|nanos| nanos.max(0)),
            created_nanos: Some(created_nanos),
            process_id: self.process_id,
            device: None,
            stream: None,
            name_id,
            group_id,
            // The configuration of the groups, which follows the entries, has both.
            group_ranks_id: None,
            group_size: None,
            sequence,
            dtype_id: dtype.map(|dtype| run.text_id(dtype)),
            in_elements: inputs.elements,
            out_elements: outputs.elements,
            state,
            is_p2p,
            context_id,
            args: run.args(&mut self.args)?,
        };
        run.add_collective(&collective)?;
        Ok(stack_result.and(args_result)?)
    }
}

/// The input or output tensors.
struct Tensors<'v> {
    elements: Option<i64>,
    /// The type of the first tensor.
    dtype: Option<&'v str>,
}

impl<'v> Tensors<'v> {
    /// Reads the columns. The fields are not taken, so sizes and types become arguments too.
    fn from_fields(fields: &Fields, values: &'v Values, sizes: &str, dtypes: &str) -> Self {
        let sizes = fields.get(values, sizes).and_then(|sizes| values.items(sizes));
        let dtypes = fields.get(values, dtypes).and_then(|dtypes| values.items(dtypes));
        let dtype = dtypes.and_then(|dtypes| dtypes.first()).and_then(|&dtype| values.name(dtype));
        Self { elements: sizes.and_then(|sizes| total_elements(values, sizes)), dtype }
    }
}

/// Returns the number of elements in tensors of these sizes. `None` if a size is not a number or
/// the product overflows.
fn total_elements(values: &Values, sizes: &[Value]) -> Option<i64> {
    values.count_expansion(size_of_val(sizes)).ok()?;
    let count_elements = |&size: &Value| {
        let axes = values.items(size)?;
        values.count_expansion(size_of_val(axes)).ok()?;
        axes.iter().try_fold(1_i64, |product, axis| product.checked_mul(axis.as_int()?))
    };
    sizes.iter().map(count_elements).try_fold(0_i64, |sum, elements| sum.checked_add(elements?))
}

/// Returns the name of the operation: `all_reduce` from `nccl:all_reduce`, `send` from `nccl:send
/// 0->1`.
fn operation_name(profiling_name: &str) -> &str {
    let name = profiling_name.rsplit_once(':').map_or(profiling_name, |(_, name)| name);
    name.split_once(' ').map_or(name, |(name, _)| name)
}

fn parse_state(word: &str) -> Option<CollectiveState> {
    CollectiveState::ALL.iter().copied().find(|state| state.as_str() == word)
}
