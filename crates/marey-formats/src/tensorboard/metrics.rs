//! Writes the values of metrics as scalars.

use std::collections::HashMap;

use marey_model::metric::MetricValue;
use marey_store::Reader;
use marey_store::row::Metric;

use super::event::Events;
use super::steps::Steps;
use super::tag;
use crate::shared::export::{ExportError, LeftOut};

/// Writes all values that are a single number.
pub(super) fn write(
    reader: &Reader,
    steps: &Steps,
    events: &mut Events,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    // The number of values that were written so far, by process and name.
    let mut counts: HashMap<(u32, u32), i64> = HashMap::new();
    for metric in reader.rows::<Metric>()? {
        let Metric { time_nanos, thread_id, name_id, value, .. } = metric?;
        let value = match value {
            MetricValue::Int(value) => value as f64,
            MetricValue::Float(value) => value,
            MetricValue::Text(_) | MetricValue::Ints(_) | MetricValue::Floats(_) => {
                *left_out.entry("values that are not one number").or_default() += 1;
                continue;
            }
        };
        let process = reader.thread(thread_id).map_or(0, |thread| thread.process_id);
        let process_steps = steps.process_steps(process);
        let step = if process_steps.is_empty() {
            let count = counts.entry((process, name_id)).or_default();
            *count += 1;
            *count - 1
        } else {
            let index = steps.last_begun_index(process, time_nanos).unwrap_or(0);
            process_steps[index].number.into()
        };
        let name = format!("metric/{}", reader.text(name_id));
        events.write_scalar(tag(reader, process, &name), step, time_nanos, value)?;
    }
    Ok(())
}
