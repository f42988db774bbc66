//! What an operator of `PyTorch` computes and moves, from the shapes that its profiler records.
//!
//! The arguments of a span have the shapes in `Input Dims`, the types in `Input type` and, of
//! numbers, the values in `Concrete Inputs`; shapes of results are not recorded, and follow from
//! these. Without them there is no answer, and none for an operator that is not known here.
//!
//! FLOP are counted as `torch.utils.flop_counter` does: a multiplication with its addition is two,
//! biases and causal masks are left out. Beyond it, what works element by element counts one for
//! each element, a sum one for each that it takes. Three places differ from it, where it is wrong:
//! the gradient of the weights of a grouped convolution is not multiplied by the groups; queries
//! of `_flash_attention_*` and `_efficient_attention_*` are `[batch, length, heads, size]`; and
//! sequences of several lengths count as if they were equally long, which is the least it can be.
//!
//! Bytes are the least traffic with the device's memory: what goes in is read once, what comes out
//! is written once.
//!
//! Operators call others (`aten::linear` calls `aten::addmm`), and each of them has a cost here:
//! only those count that launch something themselves.

mod call;
mod family;
#[cfg(test)]
mod tests;

use super::json;
use call::{Call, Types, bytes_of, known, numel, positive, product, products, split_last};
use family::Family;

/// Floating-point operations of one call; none where the operator or its shapes are not known.
pub(super) fn flops(operator: &str, args: &str) -> Option<f64> {
    let family = Family::of(operator)?;
    let call = Call::new(args)?;
    let flops = match family {
        Family::Product { first } => {
            let (left, right) = (call.shape(first)?, call.shape(first + 1)?);
            product(left, right)?.flops
        }
        Family::Linear => {
            let (input, weight) = (call.shape(0)?, call.shape(1)?);
            let (_, columns) = split_last(input)?;
            2.0 * numel(input) * numel(weight) / positive(columns)?
        }
        Family::Convolution(places) => 2.0 * call.convolved(places)?.products,
        Family::ConvolutionBackward => {
            let (grad_output, input, weight) = (call.shape(0)?, call.shape(1)?, call.shape(2)?);
            let is_transposed = call.flag(7)?;
            let passes = call.flags(10)?.into_iter().take(2).filter(|&is_asked| is_asked).count();
            let positions = if is_transposed { input } else { grad_output };
            2.0 * passes as f64 * products(positions, weight)?
        }
        Family::InputGradient => 2.0 * products(call.shape(1)?, call.shape(2)?)?,
        Family::WeightGradient => 2.0 * products(call.shape(1)?, &call.numbers(0)?)?,
        Family::Attention { layout, first, lengths } => {
            let sizes = call.attended(layout, first, lengths)?;
            2.0 * sizes.scores * (sizes.query_size + sizes.value_size)
        }
        Family::AttentionBackward { layout, first, lengths } => {
            let sizes = call.attended(layout, first, lengths)?;
            2.0 * sizes.scores * (3.0 * sizes.query_size + 2.0 * sizes.value_size)
        }
        Family::Copy => 0.0,
        Family::Elementwise { inputs } => numel(&call.broadcast(inputs)?),
        Family::Reduction | Family::Rows => numel(call.shape(0)?),
    };
    known(flops)
}

/// The fewest bytes that one call reads and writes; none where the operator, its shapes or its
/// types are not known.
pub(super) fn bytes(operator: &str, args: &str) -> Option<f64> {
    let family = Family::of(operator)?;
    let call = Call::new(args)?;
    let types = json::value(args, "Input type")?;
    let mut types = Types::new(&types);
    let sizes = types.by_ref().map(bytes_of).collect::<Vec<_>>();
    let size = |at: usize| sizes.get(at).copied().flatten();
    let of = |at: usize| Some(numel(call.shape(at)?) * size(at)?);
    // An argument that was not given has no type.
    let of_maybe = |at: usize| of(at).unwrap_or(0.0);
    let bytes = match family {
        Family::Product { first } => {
            let result = product(call.shape(first)?, call.shape(first + 1)?)?.elements;
            let added = if first == 1 { of(0)? } else { 0.0 };
            added + of(first)? + of(first + 1)? + result * size(first)?
        }
        Family::Linear => {
            let (input, weight) = (call.shape(0)?, call.shape(1)?);
            let (_, columns) = split_last(input)?;
            let rows = if weight.len() < 2 { 1.0 } else { weight[0] };
            let result = numel(input) / positive(columns)? * rows;
            of(0)? + of(1)? + of_maybe(2) + result * size(0)?
        }
        Family::Convolution(places) => {
            of(0)? + of(1)? + call.convolved(places)?.elements * size(0)?
        }
        Family::ConvolutionBackward => {
            let asked = call.flags(10)?;
            let is_asked = |at: usize| asked.get(at).copied().unwrap_or(false);
            let gradients = [(0, 1), (1, 2)].into_iter().filter(|&(at, _)| is_asked(at));
            let written = gradients.map(|(_, like)| of_maybe(like)).sum::<f64>();
            // The gradient of the input needs the weights, that of the weights the input.
            let read = [(1, 1), (0, 2)].into_iter().filter(|&(at, _)| is_asked(at));
            of(0)? + read.map(|(_, input)| of_maybe(input)).sum::<f64>() + written
        }
        Family::InputGradient | Family::WeightGradient => {
            of(1)? + of(2)? + numel(&call.numbers(0)?) * size(1)?
        }
        Family::Attention { first, .. } => {
            let value = call.shape(first + 2)?;
            let (_, value_size) = split_last(value)?;
            let (_, query_size) = split_last(call.shape(first)?)?;
            let result = of(first)? / positive(query_size)? * value_size;
            of(first)? + of(first + 1)? + of(first + 2)? + result
        }
        Family::AttentionBackward { first, .. } => {
            // Those three are read, and their gradients written; the gradient and the result that
            // they had are of one shape.
            2.0 * (of(first)? + of(first + 1)? + of(first + 2)?) + 2.0 * of(0)?
        }
        Family::Copy => of(0)? / size(0)? * (size(0)? + size(1)?),
        Family::Elementwise { inputs } => {
            let result = numel(&call.broadcast(inputs)?);
            let mut read = 0.0;
            let mut widest = 0.0_f64;
            for at in 0..inputs {
                // A number takes part without being in memory.
                if call.shape(at).is_some_and(|shape| !shape.is_empty()) {
                    read += of(at)?;
                    widest = widest.max(size(at)?);
                }
            }
            read + result * widest
        }
        Family::Reduction => of(0)?,
        Family::Rows => 2.0 * of(0)?,
    };
    known(bytes)
}
