//! Payloads: the number that a range or a mark carries.

use super::layout::{Attributes, payload_type};
use marey_model::metric::MetricValue;
use marey_record::api;
use std::sync::OnceLock;

/// The metric that payloads are values of. It stays on its scope: sums over those inside mean nothing.
const METRIC: &str = "payload (exc)";

/// What is to be added to the metrics of a scope with these attributes, if anything.
pub(super) fn of(attributes: Option<&Attributes>) -> Option<[(u32, MetricValue); 1]> {
    static NUMBER: OnceLock<Option<u32>> = OnceLock::new();
    let value = value(attributes?)?;
    let number = *NUMBER.get_or_init(|| api::intern_metric(METRIC));
    Some([(number?, value)])
}

/// Unsigned numbers beyond the signed ones are cut to the largest of these.
fn value(attributes: &Attributes) -> Option<MetricValue> {
    let bits = attributes.payload;
    let low = bits as u32;
    Some(match attributes.payload_type {
        payload_type::U64 => MetricValue::Int(i64::try_from(bits).unwrap_or(i64::MAX)),
        payload_type::I64 => MetricValue::Int(bits.cast_signed()),
        payload_type::F64 => MetricValue::Float(f64::from_bits(bits)),
        payload_type::U32 => MetricValue::Int(low.into()),
        payload_type::I32 => MetricValue::Int(low.cast_signed().into()),
        payload_type::F32 => MetricValue::Float(f32::from_bits(low).into()),
        _ => return None,
    })
}
