//! The SQL functions for rooflines: `op_flops`, `op_bytes` and `dtype_bytes` return costs of
//! operators, `peak_flops` and `peak_bytes_per_second` return peak rates of devices.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::logical_expr::ScalarUDF;

use marey_model::op_cost;

use super::documented;
use super::strict::strict_function;
use crate::peaks::device_peaks;

pub(super) fn functions() -> [ScalarUDF; 5] {
    [
        strict_function(
            "op_flops",
            vec![DataType::Utf8View; 2],
            DataType::Float64,
            |columns| Ok(costs_of_calls(columns, op_cost::flops)),
            documented!(
                "Floating-point operations of a call of a PyTorch operator, from the shapes among \
                 its arguments; a fused multiply-add counts as two. Null if the operator or its \
                 shapes are unknown.",
                "op_flops(name, args)",
                "SELECT name, sum(op_flops(name, args)) AS flops FROM spans GROUP BY name"
            ),
        ),
        strict_function(
            "op_bytes",
            vec![DataType::Utf8View; 2],
            DataType::Float64,
            |columns| Ok(costs_of_calls(columns, op_cost::bytes)),
            documented!(
                "Bytes that a call of a PyTorch operator moves to and from memory at least, from \
                 the shapes among its arguments: each input read once, each output written once. \
                 Null if the operator, its shapes or its types are unknown.",
                "op_bytes(name, args)",
                "SELECT name, sum(op_bytes(name, args)) AS bytes FROM spans GROUP BY name"
            ),
        ),
        strict_function(
            "dtype_bytes",
            vec![DataType::Utf8View],
            DataType::Float64,
            |columns| Ok(figures_by_name(columns, op_cost::bytes_per_element)),
            documented!(
                "Bytes of an element, by the name of its type in C++, PyTorch or NCCL, such as \
                 `c10::Half`, `torch.float16` or `Half`. Null for unknown types.",
                "dtype_bytes(name)",
                "SELECT DISTINCT dtype, dtype_bytes(dtype) FROM collectives"
            ),
        ),
        strict_function(
            "peak_flops",
            vec![DataType::Utf8View, DataType::Int64],
            DataType::Float64,
            |columns| Ok(peak_flops(columns)),
            documented!(
                "Peak of a device in floating-point operations per second for dense matrices, by \
                 its name and the width of the operands in bits (8, 16, 32 or 64); TF32 for 32 \
                 bits where supported. Null for unknown devices.",
                "peak_flops(device_name, bits)",
                "SELECT name, peak_flops(name, 16) FROM devices"
            ),
        ),
        strict_function(
            "peak_bytes_per_second",
            vec![DataType::Utf8View],
            DataType::Float64,
            |columns| {
                let speed = |name: &str| Some(device_peaks(name)?.bytes_per_second());
                Ok(figures_by_name(columns, speed))
            },
            documented!(
                "Peak memory bandwidth of a device in bytes per second, by its name. Null for \
                 unknown devices.",
                "peak_bytes_per_second(device_name)",
                "SELECT name, peak_bytes_per_second(name) FROM devices"
            ),
        ),
    ]
}

/// Returns the cost of each call, by the columns of its name and its arguments.
fn costs_of_calls(columns: &[ArrayRef], cost: fn(&str, &str) -> Option<f64>) -> ArrayRef {
    let calls = columns[0].as_string_view().iter().zip(columns[1].as_string_view());
    Arc::new(calls.map(|(name, args)| cost(name?, args?)).collect::<Float64Array>())
}

fn figures_by_name(columns: &[ArrayRef], figure: fn(&str) -> Option<f64>) -> ArrayRef {
    let names = columns[0].as_string_view().iter();
    Arc::new(names.map(|name| figure(name?)).collect::<Float64Array>())
}

fn peak_flops(columns: &[ArrayRef]) -> ArrayRef {
    let pairs = columns[0].as_string_view().iter().zip(columns[1].as_primitive::<Int64Type>());
    let flops = |name: &str, bits: i64| device_peaks(name)?.flops(u32::try_from(bits).ok()?);
    Arc::new(pairs.map(|(name, bits)| flops(name?, bits?)).collect::<Float64Array>())
}
