//! Parses the recorded arguments of an operator's call: shapes, types and numbers.

use crate::json_member::member_value;

use super::family::{AxisOrder, ConvolutionPositions, Transposed};

/// The sizes of the dimensions of a tensor.
pub(super) type Shape = Vec<f64>;

/// The recorded arguments of a call.
pub(super) struct OperatorCall<'a> {
    pub(super) inputs: Vec<Option<Shape>>,
    pub(super) args: &'a str,
}

impl<'a> OperatorCall<'a> {
    pub(super) fn new(args: &'a str) -> Option<Self> {
        Some(Self { inputs: parse_shapes(&member_value(args, "Input Dims")?)?, args })
    }

    /// Returns the shape of an argument. `None` for a list of tensors and for a missing argument.
    pub(super) fn shape(&self, position: usize) -> Option<&Shape> {
        self.inputs.get(position)?.as_ref()
    }

    /// Returns the value of an argument that is not a tensor.
    pub(super) fn concrete(&self, position: usize) -> Option<String> {
        let values = member_value(self.args, "Concrete Inputs")?;
        JsonStrings::new(&values).nth(position).map(str::to_owned)
    }

    /// Returns the numbers of an argument such as `[1, 1]`, or a single number.
    pub(super) fn numbers(&self, position: usize) -> Option<Vec<f64>> {
        parse_numbers(&self.concrete(position)?)
    }

    /// Returns the numbers of an argument that the call may lack, by its position or as a keyword
    /// argument.
    fn optional_numbers(&self, position: usize, keyword: &str, default: f64) -> Option<Vec<f64>> {
        if position < self.inputs.len() {
            return self.numbers(position);
        }
        member_value(self.args, keyword).map_or(Some(vec![default]), |text| parse_numbers(&text))
    }

    pub(super) fn flag(&self, position: usize) -> Option<bool> {
        parse_flag(&self.concrete(position)?)
    }

    pub(super) fn flags(&self, position: usize) -> Option<Vec<bool>> {
        self.concrete(position)?.trim_matches(['[', ']']).split(',').map(parse_flag).collect()
    }

    /// Returns the broadcast shape of the first `input_count` arguments.
    pub(super) fn broadcast(&self, input_count: usize) -> Option<Shape> {
        let mut output_shape = self.shape(0)?.clone();
        for position in 1..input_count {
            let Some(shape) = self.shape(position) else { continue };
            output_shape = broadcast(&output_shape, shape);
        }
        Some(output_shape)
    }

    pub(super) fn convolution_size(
        &self,
        positions: ConvolutionPositions,
    ) -> Option<ConvolutionSize> {
        let (input, weight) = (self.shape(0)?, self.shape(1)?);
        let window = weight.get(2..)?;
        let (is_transposed, output_padding) = match positions.transposed {
            Transposed::Never => (false, None),
            Transposed::Always { output_padding } => (true, Some(output_padding)),
            Transposed::Flag(position) => (self.flag(position)?, Some(position + 1)),
        };
        // An input without a batch has only channels and the dimensions of the window.
        let spatial = input.get(input.len().checked_sub(window.len())?..)?;
        let batch = if input.len() == weight.len() { *input.first()? } else { 1.0 };
        let numbers = |position: Option<usize>, keyword, default| match position {
            Some(position) => self
                .optional_numbers(position, keyword, default)
                .map(|numbers| repeat_per_dimension(&numbers, window.len())),
            None => Some(vec![default; window.len()]),
        };
        let stride = numbers(Some(positions.stride), "stride", 1.0)?;
        let dilation = numbers(positions.dilation, "dilation", 1.0)?;
        let padding = numbers(Some(positions.padding), "padding", 0.0)?;
        let extra_padding = output_padding.filter(|_| is_transposed);
        let extra_padding = numbers(extra_padding, "output_padding", 0.0)?;
        let mut output_lengths = Vec::with_capacity(window.len());
        for (dimension, (&length, &width)) in spatial.iter().zip(window).enumerate() {
            let [stride, dilation, padding] =
                [&stride, &dilation, &padding].map(|numbers| numbers.get(dimension).copied());
            let (stride, dilation, padding) = (require_positive(stride?)?, dilation?, padding?);
            let window_extent = dilation * (width - 1.0);
            let length = if is_transposed {
                (length - 1.0) * stride - 2.0 * padding
                    + window_extent
                    + extra_padding.get(dimension)?
                    + 1.0
            } else {
                ((length + 2.0 * padding - window_extent - 1.0) / stride).floor() + 1.0
            };
            output_lengths.push(length.max(0.0));
        }
        let window_count =
            if is_transposed { spatial.iter().product() } else { numel(&output_lengths) };
        // The weights of a transposed convolution have the output channels per group in the second
        // dimension.
        let channels = if is_transposed {
            let groups = self.groups(positions)?;
            weight[1] * groups
        } else {
            weight[0]
        };
        Some(ConvolutionSize {
            multiplications: batch * window_count * numel(weight),
            elements: batch * channels * numel(&output_lengths),
        })
    }

    /// Returns the number of groups of a transposed convolution.
    pub(super) fn groups(&self, positions: ConvolutionPositions) -> Option<f64> {
        let position = match positions.transposed {
            Transposed::Flag(position) => position + 2,
            _ => positions.dilation? + 1,
        };
        self.numbers(position)?.first().copied()
    }

    pub(super) fn attention_size(
        &self,
        axis_order: AxisOrder,
        first_position: usize,
        lengths_position: usize,
    ) -> Option<AttentionSize> {
        let [query, key, value] = [0, 1, 2].map(|offset| self.shape(first_position + offset));
        let (query, key, value) = (query?, key?, value?);
        let (query_rows, query_size) = split_last(query)?;
        let (key_rows, _) = split_last(key)?;
        let (_, value_size) = split_last(value)?;
        let scores = match (axis_order, query_rows, key_rows) {
            (AxisOrder::HeadsFirst, [batch @ .., heads, length], [.., key_length]) => {
                numel(batch) * heads * length * key_length
            }
            (AxisOrder::LengthFirst, [batch, length, heads], [_, key_length, _]) => {
                let sequence_count = self.sequence_count(lengths_position).unwrap_or(1.0);
                batch * heads * length * key_length / sequence_count
            }
            (AxisOrder::LengthFirst, [length, heads], [key_length, _]) => {
                heads * length * key_length / self.sequence_count(lengths_position)?
            }
            _ => return None,
        };
        Some(AttentionSize { scores, query_size, value_size })
    }

    /// Returns the number of concatenated sequences. It is one less than the number of cumulative
    /// lengths, which start at 0.
    pub(super) fn sequence_count(&self, lengths_position: usize) -> Option<f64> {
        let ends = self.shape(lengths_position)?;
        require_positive(ends.first()? - 1.0)
    }
}

/// The size of a convolution.
pub(super) struct ConvolutionSize {
    /// Number of multiplications.
    pub(super) multiplications: f64,
    /// Number of output elements.
    pub(super) elements: f64,
}

/// The size of an attention.
pub(super) struct AttentionSize {
    /// Pairs of queries and keys, over all heads.
    pub(super) scores: f64,
    pub(super) query_size: f64,
    pub(super) value_size: f64,
}

/// The size of a matrix product.
pub(super) struct ProductSize {
    pub(super) flops: f64,
    pub(super) elements: f64,
}

/// Returns the size of the product of `torch.matmul`: of vectors, matrices, or batches of them.
pub(super) fn matmul_size(left: &[f64], right: &[f64]) -> Option<ProductSize> {
    let (left_rows, inner) = split_last(left)?;
    let (right_batch, right_inner, columns) = match right {
        [length] => (&[][..], *length, 1.0),
        [batch @ .., inner, columns] => (batch, *inner, *columns),
        [] => return None,
    };
    if inner.to_bits() != right_inner.to_bits() {
        return None;
    }
    let (left_batch, rows) = match left_rows {
        [batch @ .., rows] => (batch, *rows),
        [] => (&[][..], 1.0),
    };
    let elements = numel(&broadcast(left_batch, right_batch)) * rows * columns;
    Some(ProductSize { flops: 2.0 * elements * inner, elements })
}

/// Returns the number of multiplications of a window with each position of a tensor `[batch,
/// channels, ...]`.
pub(super) fn window_products(tensor: &[f64], weight: &[f64]) -> Option<f64> {
    let batch = tensor.first()?;
    Some(batch * numel(tensor.get(2..)?) * numel(weight))
}

pub(super) fn broadcast(left: &[f64], right: &[f64]) -> Shape {
    let len = left.len().max(right.len());
    let length_of = |shape: &[f64], dimension: usize| {
        (dimension + shape.len()).checked_sub(len).map_or(1.0, |dimension| shape[dimension])
    };
    let one_bits = 1.0_f64.to_bits();
    let lengths = (0..len).map(|dimension| {
        let (left, right) = (length_of(left, dimension), length_of(right, dimension));
        if left.to_bits() == one_bits { right } else { left }
    });
    lengths.collect()
}

/// Returns one number for each dimension. A single number applies to all of them.
pub(super) fn repeat_per_dimension(numbers: &[f64], dimensions: usize) -> Vec<f64> {
    match numbers {
        [number] => vec![*number; dimensions],
        _ => numbers.to_vec(),
    }
}

pub(super) fn numel(shape: &[f64]) -> f64 {
    shape.iter().product()
}

pub(super) fn split_last(shape: &[f64]) -> Option<(&[f64], f64)> {
    shape.split_last().map(|(last, preceding)| (preceding, *last))
}

/// Returns the cost, unless it is negative or not finite. Implausible sizes give such a cost.
pub(super) fn plausible_cost(cost: f64) -> Option<f64> {
    (cost.is_finite() && cost >= 0.0).then_some(cost)
}

pub(super) fn require_positive(number: f64) -> Option<f64> {
    (number > 0.0).then_some(number)
}

/// Returns the numbers in a text such as `[1, 1]` or `2`, or `tensor([1, 1])` of a C++ program.
fn parse_numbers(text: &str) -> Option<Vec<f64>> {
    let list = text.strip_prefix("tensor(").and_then(|text| text.strip_suffix(')'));
    let numbers = list.unwrap_or(text).trim_matches(['[', ']']);
    numbers.split(',').map(|number| number.trim().parse().ok()).collect()
}

pub(super) fn parse_flag(text: &str) -> Option<bool> {
    match text.trim() {
        "True" | "true" | "1" => Some(true),
        "False" | "false" | "0" => Some(false),
        _ => None,
    }
}

/// Returns the shapes in `[[2,3],[],[[1],[2]]]`, with `None` for a list of tensors. A number has
/// the shape of a tensor without dimensions.
pub(super) fn parse_shapes(json: &str) -> Option<Vec<Option<Shape>>> {
    let mut shapes: Vec<Option<Shape>> = Vec::new();
    let mut depth = 0_usize;
    let mut number: Option<f64> = None;
    for byte in json.bytes() {
        if let b'0'..=b'9' = byte {
            number = Some(number.unwrap_or(0.0) * 10.0 + f64::from(byte - b'0'));
            continue;
        }
        if let Some(number) = number.take() {
            match (depth, shapes.last_mut()?) {
                (2, Some(shape)) => shape.push(number),
                (3, None) => {}
                _ => return None,
            }
        }
        match byte {
            b'[' => {
                depth += 1;
                match depth {
                    1 => {}
                    2 => shapes.push(Some(Shape::new())),
                    3 => *shapes.last_mut()? = None,
                    _ => return None,
                }
            }
            b']' => depth = depth.checked_sub(1)?,
            b',' | b' ' => {}
            _ => return None,
        }
    }
    (depth == 0 && number.is_none()).then_some(shapes)
}

/// The strings in `["float","Scalar",""]`. Escapes are not decoded: type names and numbers have
/// none.
pub(super) struct JsonStrings<'a>(&'a str);

impl<'a> JsonStrings<'a> {
    pub(super) fn new(json: &'a str) -> Self {
        Self(json)
    }
}

impl<'a> Iterator for JsonStrings<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (_, unread) = self.0.split_once('"')?;
        let (text, unread) = unread.split_once('"')?;
        self.0 = unread;
        Some(text)
    }
}

/// Returns the bytes of an element by the name of its type: in C++ as `torch.profiler` records it,
/// in PyTorch, or as the flight recorder has it, in upper or lower case.
pub fn bytes_per_element(dtype: &str) -> Option<f64> {
    let name = dtype.trim_start_matches("torch.").trim_start_matches("c10::");
    let name = name.to_ascii_lowercase();
    Some(match name.as_str() {
        "double" | "float64" | "long" | "long int" | "int64_t" | "int64" | "uint64"
        | "unsigned long" | "complex<float>" | "complexfloat" | "complex64" => 8.0,
        "float" | "float32" | "int" | "int32" | "uint32" | "unsigned int" | "complex<half>"
        | "complex<c10::half>" | "complexhalf" | "complex32" => 4.0,
        "half" | "float16" | "bfloat16" | "short" | "short int" | "int16" | "uint16"
        | "unsigned short" => 2.0,
        "bool" | "signed char" | "unsigned char" | "char" | "byte" | "int8" | "uint8" | "qint8"
        | "quint8" => 1.0,
        "complex<double>" | "complexdouble" | "complex128" => 16.0,
        _ if name.starts_with("float8_") => 1.0,
        _ => return None,
    })
}
