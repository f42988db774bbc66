//! Converts the payloads of NVTX ranges and marks, which are numbers, to metric values.

use super::layout::{EventAttributes, payload_type};
use marey_model::metric::MetricValue;
use marey_record::api;
use std::sync::OnceLock;

/// The name of the metric for payloads. It is exclusive, because sums over nested ranges have no
/// meaning.
const METRIC: &str = "payload (exc)";

/// Returns the metric values of a scope with these attributes, if any.
pub(super) fn metric_values(
    attributes: Option<&EventAttributes>,
) -> Option<[(u32, MetricValue); 1]> {
    static METRIC_ID: OnceLock<Option<u32>> = OnceLock::new();
    let value = payload_value(attributes?)?;
    let metric_id = *METRIC_ID.get_or_init(|| api::intern_metric(METRIC));
    Some([(metric_id?, value)])
}

/// Converts a payload. An unsigned number above `i64::MAX` saturates.
fn payload_value(attributes: &EventAttributes) -> Option<MetricValue> {
    let bits = attributes.payload;
    let low_bits = bits as u32;
    Some(match attributes.payload_type {
        payload_type::U64 => MetricValue::Int(i64::try_from(bits).unwrap_or(i64::MAX)),
        payload_type::I64 => MetricValue::Int(bits.cast_signed()),
        payload_type::F64 => MetricValue::Float(f64::from_bits(bits)),
        payload_type::U32 => MetricValue::Int(low_bits.into()),
        payload_type::I32 => MetricValue::Int(low_bits.cast_signed().into()),
        payload_type::F32 => MetricValue::Float(f32::from_bits(low_bits).into()),
        _ => return None,
    })
}
