//! Computes the FLOP and the memory traffic of `PyTorch` operators from the shapes that its
//! profiler records.
//!
//! The arguments of a span have shapes in `Input Dims`, types in `Input type` and the values of
//! numbers in `Concrete Inputs`. Shapes of results are not recorded, but follow from these. Without
//! them, or for an unknown operator, there is no cost.
//!
//! FLOP are counted as in `torch.utils.flop_counter`: a fused multiply-add counts as two, and
//! biases and causal masks are ignored. In addition, elementwise operators count one per element of
//! the result, and reductions one per element of the input. The counts differ in three cases where
//! `flop_counter` is wrong. The weight gradient of a grouped convolution is not multiplied by the
//! groups. Queries of `_flash_attention_*` and `_efficient_attention_*` are `[batch, length, heads,
//! size]`. Sequences of different lengths count as if they were equally long, which is the lower
//! bound.
//!
//! Bytes are the least possible traffic with device memory: each input is read once, and each
//! output is written once.
//!
//! Operators call other operators (`aten::linear` calls `aten::addmm`), and each of them has a
//! cost. Callers must therefore count only operators that launch kernels themselves.

mod call;
mod family;
#[cfg(test)]
mod tests;

use crate::json_member::member_value;
pub use call::bytes_per_element;
use call::{
    JsonStrings, OperatorCall, matmul_size, numel, plausible_cost, require_positive, split_last,
    window_products,
};
use family::OperatorFamily;

/// Key of the note in a run that states which operators have shapes.
pub const SHAPES_NOTE: &str = "operator_shapes";
/// Value of the note if the operators with shapes are a sample. Costs are then extrapolated.
pub const SHAPES_SAMPLED: &str = "sampled";
/// Metric of an operator in a profile: its calls whose inputs were read. If they are fewer than its
/// calls, FLOP and bytes are extrapolated from them.
pub const SAMPLED_CALLS: &str = "sampled_calls";
/// Metric of an operator in a profile: the bytes that it moves at least.
pub const BYTES: &str = "bytes";
/// The metrics that are extrapolated from a sample.
pub const COSTS: [&str; 5] = ["flops8", "flops16", "flops32", "flops64", BYTES];

/// Returns the metric of the floating-point operations of operands of this width, as Proton names
/// it.
pub const fn flops_metric(operand_bits: u32) -> &'static str {
    match operand_bits {
        8 => "flops8",
        16 => "flops16",
        64 => "flops64",
        _ => "flops32",
    }
}

/// Returns the floating-point operations of a call; `None` if the operator or its shapes are
/// unknown.
pub fn flops(operator: &str, args: &str) -> Option<f64> {
    let family = OperatorFamily::from_operator(operator)?;
    let call = OperatorCall::new(args)?;
    let flops = match family {
        OperatorFamily::MatrixProduct { first_position } => {
            let (left, right) = (call.shape(first_position)?, call.shape(first_position + 1)?);
            matmul_size(left, right)?.flops
        }
        OperatorFamily::Linear => {
            let (input, weight) = (call.shape(0)?, call.shape(1)?);
            let (_, columns) = split_last(input)?;
            2.0 * numel(input) * numel(weight) / require_positive(columns)?
        }
        OperatorFamily::Convolution(positions) => {
            2.0 * call.convolution_size(positions)?.multiplications
        }
        OperatorFamily::ConvolutionBackward => {
            let (grad_output, input, weight) = (call.shape(0)?, call.shape(1)?, call.shape(2)?);
            let is_transposed = call.flag(7)?;
            let requested_gradients = call.flags(10)?;
            let gradient_count = requested_gradients
                .into_iter()
                .take(2)
                .filter(|&is_requested| is_requested)
                .count();
            let windows = if is_transposed { input } else { grad_output };
            2.0 * gradient_count as f64 * window_products(windows, weight)?
        }
        OperatorFamily::InputGradient => 2.0 * window_products(call.shape(1)?, call.shape(2)?)?,
        OperatorFamily::WeightGradient => 2.0 * window_products(call.shape(1)?, &call.numbers(0)?)?,
        OperatorFamily::Attention { axis_order, first_position, lengths_position } => {
            let sizes = call.attention_size(axis_order, first_position, lengths_position)?;
            2.0 * sizes.scores * (sizes.query_size + sizes.value_size)
        }
        OperatorFamily::AttentionBackward { axis_order, first_position, lengths_position } => {
            let sizes = call.attention_size(axis_order, first_position, lengths_position)?;
            2.0 * sizes.scores * (3.0 * sizes.query_size + 2.0 * sizes.value_size)
        }
        OperatorFamily::Copy => 0.0,
        OperatorFamily::Elementwise { input_count } => numel(&call.broadcast(input_count)?),
        OperatorFamily::Reduction | OperatorFamily::Normalization => numel(call.shape(0)?),
    };
    plausible_cost(flops)
}

/// Whether the cost of an operator depends on `Concrete Inputs`, and not on shapes and types alone.
pub fn needs_values(operator: &str) -> bool {
    matches!(
        OperatorFamily::from_operator(operator),
        Some(
            OperatorFamily::Convolution(_)
                | OperatorFamily::ConvolutionBackward
                | OperatorFamily::InputGradient
                | OperatorFamily::WeightGradient
        )
    )
}

/// Returns the width of a call's operands in bits, which selects the peak rate of a device: 8, 16,
/// 32 or 64, from the first of `Input type`.
pub fn operand_bits(args: &str) -> u32 {
    let types = member_value(args, "Input type").unwrap_or_default();
    match JsonStrings::new(&types).next().unwrap_or_default() {
        "c10::Half" | "c10::BFloat16" => 16,
        "double" => 64,
        "signed char" => 8,
        name if name.starts_with("c10::Float8") => 8,
        _ => 32,
    }
}

/// Returns the least number of bytes that a call reads and writes; `None` if the operator, its
/// shapes or its types are unknown.
pub fn bytes(operator: &str, args: &str) -> Option<f64> {
    let family = OperatorFamily::from_operator(operator)?;
    let call = OperatorCall::new(args)?;
    let types = member_value(args, "Input type")?;
    let mut types = JsonStrings::new(&types);
    let element_bytes = types.by_ref().map(bytes_per_element).collect::<Vec<_>>();
    let element_bytes_at = |position: usize| element_bytes.get(position).copied().flatten();
    let bytes_at =
        |position: usize| Some(numel(call.shape(position)?) * element_bytes_at(position)?);
    // A missing optional argument has no type.
    let bytes_or_zero = |position: usize| bytes_at(position).unwrap_or(0.0);
    let bytes = match family {
        OperatorFamily::MatrixProduct { first_position } => {
            let output_elements =
                matmul_size(call.shape(first_position)?, call.shape(first_position + 1)?)?.elements;
            let added_bytes = if first_position == 1 { bytes_at(0)? } else { 0.0 };
            added_bytes
                + bytes_at(first_position)?
                + bytes_at(first_position + 1)?
                + output_elements * element_bytes_at(first_position)?
        }
        OperatorFamily::Linear => {
            let (input, weight) = (call.shape(0)?, call.shape(1)?);
            let (_, columns) = split_last(input)?;
            let rows = if weight.len() < 2 { 1.0 } else { weight[0] };
            let output_elements = numel(input) / require_positive(columns)? * rows;
            bytes_at(0)? + bytes_at(1)? + bytes_or_zero(2) + output_elements * element_bytes_at(0)?
        }
        OperatorFamily::Convolution(positions) => {
            bytes_at(0)?
                + bytes_at(1)?
                + call.convolution_size(positions)?.elements * element_bytes_at(0)?
        }
        OperatorFamily::ConvolutionBackward => {
            let requested_gradients = call.flags(10)?;
            let is_requested =
                |gradient: usize| requested_gradients.get(gradient).copied().unwrap_or(false);
            let gradients = [(0, 1), (1, 2)].into_iter().filter(|&(index, _)| is_requested(index));
            let written_bytes =
                gradients.map(|(_, input_position)| bytes_or_zero(input_position)).sum::<f64>();
            // The input gradient needs the weights, and the weight gradient needs the input.
            let read_inputs =
                [(1, 1), (0, 2)].into_iter().filter(|&(index, _)| is_requested(index));
            bytes_at(0)?
                + read_inputs.map(|(_, input)| bytes_or_zero(input)).sum::<f64>()
                + written_bytes
        }
        OperatorFamily::InputGradient | OperatorFamily::WeightGradient => {
            bytes_at(1)? + bytes_at(2)? + numel(&call.numbers(0)?) * element_bytes_at(1)?
        }
        OperatorFamily::Attention { first_position, .. } => {
            let value = call.shape(first_position + 2)?;
            let (_, value_size) = split_last(value)?;
            let (_, query_size) = split_last(call.shape(first_position)?)?;
            let output_bytes =
                bytes_at(first_position)? / require_positive(query_size)? * value_size;
            bytes_at(first_position)?
                + bytes_at(first_position + 1)?
                + bytes_at(first_position + 2)?
                + output_bytes
        }
        OperatorFamily::AttentionBackward { first_position, .. } => {
            // The query, key and value are read, and their gradients are written. The result and
            // its gradient are read too, and both have the same shape.
            let input_bytes = bytes_at(first_position)?
                + bytes_at(first_position + 1)?
                + bytes_at(first_position + 2)?;
            2.0 * input_bytes + 2.0 * bytes_at(0)?
        }
        OperatorFamily::Copy => {
            bytes_at(0)? / element_bytes_at(0)? * (element_bytes_at(0)? + element_bytes_at(1)?)
        }
        OperatorFamily::Elementwise { input_count } => {
            let output_elements = numel(&call.broadcast(input_count)?);
            let mut read_bytes = 0.0;
            let mut widest_bytes = 0.0_f64;
            for position in 0..input_count {
                // A scalar is not read from memory.
                if call.shape(position).is_some_and(|shape| !shape.is_empty()) {
                    read_bytes += bytes_at(position)?;
                    widest_bytes = widest_bytes.max(element_bytes_at(position)?);
                }
            }
            read_bytes + output_elements * widest_bytes
        }
        OperatorFamily::Reduction => bytes_at(0)?,
        OperatorFamily::Normalization => 2.0 * bytes_at(0)?,
    };
    plausible_cost(bytes)
}
