//! One call of an operator: its shapes, types and numbers.

use super::super::json;
use super::family::{Layout, Places, Transposed};

/// Lengths of the dimensions of a tensor.
pub(super) type Shape = Vec<f64>;

/// What was given to one call.
pub(super) struct Call<'a> {
    pub(super) inputs: Vec<Option<Shape>>,
    pub(super) args: &'a str,
}

impl<'a> Call<'a> {
    pub(super) fn new(args: &'a str) -> Option<Self> {
        Some(Self { inputs: shapes(&json::value(args, "Input Dims")?)?, args })
    }

    /// None for a list of tensors, and for what was not given.
    pub(super) fn shape(&self, at: usize) -> Option<&Shape> {
        self.inputs.get(at)?.as_ref()
    }

    /// The value of an argument that is no tensor.
    pub(super) fn concrete(&self, at: usize) -> Option<String> {
        let values = json::value(self.args, "Concrete Inputs")?;
        Types::new(&values).nth(at).map(str::to_owned)
    }

    /// Of `[1, 1]`; of `1`, too.
    pub(super) fn numbers(&self, at: usize) -> Option<Vec<f64>> {
        let text = self.concrete(at)?;
        let numbers = text.trim_matches(['[', ']']);
        numbers.split(',').map(|number| number.trim().parse().ok()).collect()
    }

    pub(super) fn flag(&self, at: usize) -> Option<bool> {
        flag(&self.concrete(at)?)
    }

    pub(super) fn flags(&self, at: usize) -> Option<Vec<bool>> {
        self.concrete(at)?.trim_matches(['[', ']']).split(',').map(flag).collect()
    }

    /// The shape of what the first arguments make together, element by element.
    pub(super) fn broadcast(&self, inputs: usize) -> Option<Shape> {
        let mut result = self.shape(0)?.clone();
        for at in 1..inputs {
            let Some(shape) = self.shape(at) else { continue };
            result = broadcast(&result, shape);
        }
        Some(result)
    }

    pub(super) fn convolved(&self, places: Places) -> Option<Convolved> {
        let (input, weight) = (self.shape(0)?, self.shape(1)?);
        let window = weight.get(2..)?;
        let (is_transposed, output_padding) = match places.transposed {
            Transposed::Never => (false, None),
            Transposed::Always { output_padding } => (true, Some(output_padding)),
            Transposed::Flag(at) => (self.flag(at)?, Some(at + 1)),
        };
        // Without a batch there are as many dimensions as of the window, and the channels.
        let spatial = input.get(input.len().checked_sub(window.len())?..)?;
        let batch = if input.len() == weight.len() { *input.first()? } else { 1.0 };
        let numbers = |at: Option<usize>, else_each: f64| match at {
            Some(at) => self.numbers(at).map(|numbers| each(&numbers, window.len())),
            None => Some(vec![else_each; window.len()]),
        };
        let stride = numbers(Some(places.stride), 1.0)?;
        let dilation = numbers(places.dilation, 1.0)?;
        let padding = numbers(Some(places.padding), 0.0)?;
        let more = numbers(output_padding.filter(|_| is_transposed), 0.0)?;
        let mut result = Vec::with_capacity(window.len());
        for (at, (&length, &width)) in spatial.iter().zip(window).enumerate() {
            let [stride, dilation, padding] =
                [&stride, &dilation, &padding].map(|numbers| numbers.get(at).copied());
            let (stride, dilation, padding) = (positive(stride?)?, dilation?, padding?);
            let reach = dilation * (width - 1.0);
            let length = if is_transposed {
                (length - 1.0) * stride - 2.0 * padding + reach + more.get(at)? + 1.0
            } else {
                ((length + 2.0 * padding - reach - 1.0) / stride).floor() + 1.0
            };
            result.push(length.max(0.0));
        }
        let positions = if is_transposed { spatial.iter().product() } else { numel(&result) };
        // Of a transposed one, the weights have the channels of the output in second place, by
        // group: as many as all weights make of one input channel.
        let channels = if is_transposed {
            let groups = self.groups(places)?;
            weight[1] * groups
        } else {
            weight[0]
        };
        Some(Convolved {
            products: batch * positions * numel(weight),
            elements: batch * channels * numel(&result),
        })
    }

    /// How many groups a transposed convolution has.
    pub(super) fn groups(&self, places: Places) -> Option<f64> {
        let at = match places.transposed {
            Transposed::Flag(at) => at + 2,
            _ => places.dilation? + 1,
        };
        self.numbers(at)?.first().copied()
    }

    pub(super) fn attended(
        &self,
        layout: Layout,
        first: usize,
        lengths: usize,
    ) -> Option<Attended> {
        let [query, key, value] = [0, 1, 2].map(|at| self.shape(first + at));
        let (query, key, value) = (query?, key?, value?);
        let (query_rows, query_size) = split_last(query)?;
        let (key_rows, _) = split_last(key)?;
        let (_, value_size) = split_last(value)?;
        let scores = match (layout, query_rows, key_rows) {
            (Layout::HeadsFirst, [batch @ .., heads, length], [.., key_length]) => {
                numel(batch) * heads * length * key_length
            }
            (Layout::LengthFirst, [batch, length, heads], [_, key_length, _]) => {
                let sequences = self.sequences(lengths).unwrap_or(1.0);
                batch * heads * length * key_length / sequences
            }
            (Layout::LengthFirst, [length, heads], [key_length, _]) => {
                heads * length * key_length / self.sequences(lengths)?
            }
            _ => return None,
        };
        Some(Attended { scores, query_size, value_size })
    }

    /// How many sequences lie one behind the other: one less than there are ends.
    pub(super) fn sequences(&self, lengths: usize) -> Option<f64> {
        let ends = self.shape(lengths)?;
        positive(ends.first()? - 1.0)
    }
}

/// What a convolution makes.
pub(super) struct Convolved {
    /// Multiplications.
    pub(super) products: f64,
    pub(super) elements: f64,
}

/// What an attention compares.
pub(super) struct Attended {
    /// Pairs of queries and keys, in all heads.
    pub(super) scores: f64,
    pub(super) query_size: f64,
    pub(super) value_size: f64,
}

/// What a product of matrices makes.
pub(super) struct Product {
    pub(super) flops: f64,
    pub(super) elements: f64,
}

/// As `matmul`: vectors, matrices, and batches of them.
pub(super) fn product(left: &[f64], right: &[f64]) -> Option<Product> {
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
    Some(Product { flops: 2.0 * elements * inner, elements })
}

/// Multiplications of a window with each position of a tensor `[batch, channels, ...]`.
pub(super) fn products(positions: &[f64], weight: &[f64]) -> Option<f64> {
    let batch = positions.first()?;
    Some(batch * numel(positions.get(2..)?) * numel(weight))
}

pub(super) fn broadcast(left: &[f64], right: &[f64]) -> Shape {
    let len = left.len().max(right.len());
    let at = |shape: &[f64], place: usize| {
        (place + shape.len()).checked_sub(len).map_or(1.0, |place| shape[place])
    };
    let one = 1.0_f64.to_bits();
    let lengths = (0..len).map(|place| {
        let (left, right) = (at(left, place), at(right, place));
        if left.to_bits() == one { right } else { left }
    });
    lengths.collect()
}

/// One number for each dimension: the only one stands for all.
pub(super) fn each(numbers: &[f64], dimensions: usize) -> Vec<f64> {
    match numbers {
        [number] => vec![*number; dimensions],
        _ => numbers.to_vec(),
    }
}

pub(super) fn numel(shape: &[f64]) -> f64 {
    shape.iter().product()
}

pub(super) fn split_last(shape: &[f64]) -> Option<(&[f64], f64)> {
    shape.split_last().map(|(last, before)| (before, *last))
}

/// Sizes that nobody has come to no number.
pub(super) fn known(cost: f64) -> Option<f64> {
    (cost.is_finite() && cost >= 0.0).then_some(cost)
}

pub(super) fn positive(number: f64) -> Option<f64> {
    (number > 0.0).then_some(number)
}

pub(super) fn flag(text: &str) -> Option<bool> {
    match text.trim() {
        "True" | "true" | "1" => Some(true),
        "False" | "false" | "0" => Some(false),
        _ => None,
    }
}

/// The shapes in `[[2,3],[],[[1],[2]]]`: none for a list of tensors. A number has the shape of a
/// tensor without dimensions.
pub(super) fn shapes(json: &str) -> Option<Vec<Option<Shape>>> {
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

/// The texts in `["float","Scalar",""]`; escapes, which neither names of types nor numbers have,
/// are left as they are.
pub(super) struct Types<'a>(&'a str);

impl<'a> Types<'a> {
    pub(super) fn new(json: &'a str) -> Self {
        Self(json)
    }
}

impl<'a> Iterator for Types<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (_, rest) = self.0.split_once('"')?;
        let (text, rest) = rest.split_once('"')?;
        self.0 = rest;
        Some(text)
    }
}

/// Bytes of an element, by the names of C++ that the profiler records.
pub(super) fn bytes_of(dtype: &str) -> Option<f64> {
    let name = dtype.strip_prefix("c10::").unwrap_or(dtype);
    Some(match name {
        "double" | "long" | "long int" | "int64_t" | "complex<float>" | "unsigned long" => 8.0,
        "float" | "int" | "unsigned int" | "complex<Half>" | "complex<c10::Half>" => 4.0,
        "Half" | "BFloat16" | "short" | "short int" | "unsigned short" => 2.0,
        "bool" | "signed char" | "unsigned char" | "char" | "qint8" | "quint8" => 1.0,
        "complex<double>" => 16.0,
        _ if name.starts_with("Float8_") => 1.0,
        _ => return None,
    })
}
