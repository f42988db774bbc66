//! The inputs of a call as words, so that equal inputs are found without building text.

use marey_model::json::quote;

/// An input. The items of a list follow it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Input<'a> {
    /// A tensor: a `c10::ScalarType` and the sizes of its dimensions.
    Tensor {
        dtype: u16,
        sizes: &'a [u64],
    },
    /// A list of this many tensors.
    Tensors(usize),
    /// A number without its value.
    Scalar,
    Int(i64),
    Bool(bool),
    /// A list of this many numbers.
    Scalars(usize),
    /// None, a text, a device and so on.
    Other,
}

/// The maximum number of words of a key: some 30 tensors.
const MAX_WORDS: usize = 128;

/// The maximum number of dimensions of a tensor, which PyTorch itself limits to 64.
pub(super) const MAX_DIMENSIONS: u64 = 64;

/// The words of a call: the number of the operator's name, then for each input a word with a kind
/// in the lowest byte, and its sizes or value.
#[derive(Debug)]
pub(super) struct InputKey {
    words: [u64; MAX_WORDS],
    word_count: usize,
}

// The kinds of inputs, in the lowest byte of a word.
const TENSOR: u64 = 1;
const TENSORS: u64 = 2;
const SCALAR: u64 = 3;
const INT: u64 = 4;
const BOOL: u64 = 5;
const SCALARS: u64 = 6;
const OTHER: u64 = 7;

impl InputKey {
    /// Creates the key of an operator without inputs.
    pub(super) fn new(name_id: u32) -> Self {
        let mut words = [0; MAX_WORDS];
        words[0] = name_id.into();
        Self { words, word_count: 1 }
    }

    /// Adds an input. Returns whether it fits.
    pub(super) fn push(&mut self, input: Input<'_>) -> bool {
        match input {
            Input::Tensor { dtype, sizes } => {
                let head = TENSOR | u64::from(dtype) << 8 | (sizes.len() as u64) << 32;
                self.push_words(head, sizes)
            }
            Input::Tensors(count) => self.push_words(TENSORS | (count as u64) << 8, &[]),
            Input::Scalar => self.push_words(SCALAR, &[]),
            Input::Int(value) => self.push_words(INT, &[value.cast_unsigned()]),
            Input::Bool(value) => self.push_words(BOOL | u64::from(value) << 8, &[]),
            Input::Scalars(count) => self.push_words(SCALARS | (count as u64) << 8, &[]),
            Input::Other => self.push_words(OTHER, &[]),
        }
    }

    fn push_words(&mut self, head: u64, words: &[u64]) -> bool {
        let end = self.word_count + 1 + words.len();
        let Some(free) = self.words.get_mut(self.word_count..end) else { return false };
        free[0] = head;
        free[1..].copy_from_slice(words);
        self.word_count = end;
        true
    }

    /// Returns the words.
    pub(super) fn words(&self) -> &[u64] {
        &self.words[..self.word_count]
    }

    /// Returns the inputs as PyTorch's profiler writes them: `Input Dims`, `Input type` and, of
    /// numbers with values, `Concrete Inputs`.
    pub(super) fn to_json(&self) -> String {
        let mut columns = Columns::default();
        let mut words = self.words()[1..].iter().copied();
        while columns.push_input(&mut words).is_some() {}
        let Columns { dims, types, values, has_values } = columns;
        let mut json = format!(r#"{{"Input Dims":[{dims}],"Input type":[{types}]"#);
        if has_values {
            json.extend([r#","Concrete Inputs":["#, &values, "]"]);
        }
        json.push('}');
        json
    }
}

/// The items of the three lists so far.
#[derive(Default)]
struct Columns {
    dims: String,
    types: String,
    values: String,
    has_values: bool,
}

impl Columns {
    fn push_input(&mut self, words: &mut impl Iterator<Item = u64>) -> Option<()> {
        let head = words.next()?;
        match head & 0xff {
            TENSOR => {
                let sizes = sizes_json(head, words);
                match type_name((head >> 8) as u16) {
                    Some(name) => self.push(&sizes, name, ""),
                    // An undefined tensor.
                    None => self.push("[]", "", ""),
                }
            }
            TENSORS => {
                let tensors: Vec<String> = (0..head >> 8)
                    .map_while(|_| words.next().map(|head| sizes_json(head, words)))
                    .collect();
                self.push(&format!("[{}]", tensors.join(",")), "TensorList", "");
            }
            SCALAR => self.push("[]", "Scalar", ""),
            INT => self.push_value("Scalar", &words.next()?.cast_signed().to_string()),
            BOOL => self.push_value("Scalar", bool_text(head)),
            SCALARS => {
                let items: Vec<String> = (0..head >> 8).map_while(|_| item_text(words)).collect();
                if items.is_empty() {
                    self.push("[]", "ScalarList", "");
                } else {
                    self.push_value("ScalarList", &format!("[{}]", items.join(", ")));
                }
            }
            _ => self.push("[]", "", ""),
        }
        Some(())
    }

    fn push_value(&mut self, type_name: &str, value: &str) {
        self.has_values = true;
        self.push("[]", type_name, value);
    }

    fn push(&mut self, dims: &str, type_name: &str, value: &str) {
        let comma = if self.dims.is_empty() { "" } else { "," };
        for list in [&mut self.dims, &mut self.types, &mut self.values] {
            list.push_str(comma);
        }
        self.dims.push_str(dims);
        quote(type_name, &mut self.types);
        quote(value, &mut self.values);
    }
}

fn item_text(words: &mut impl Iterator<Item = u64>) -> Option<String> {
    let head = words.next()?;
    Some(match head & 0xff {
        INT => words.next()?.cast_signed().to_string(),
        BOOL => bool_text(head).to_owned(),
        _ => String::new(),
    })
}

fn bool_text(head: u64) -> &'static str {
    if head >> 8 == 0 { "False" } else { "True" }
}

fn sizes_json(head: u64, words: &mut impl Iterator<Item = u64>) -> String {
    let sizes: Vec<String> =
        words.take((head >> 32) as usize).map(|size| size.to_string()).collect();
    format!("[{}]", sizes.join(","))
}

/// Returns the C++ name of a `c10::ScalarType`, as PyTorch's profiler writes it.
fn type_name(dtype: u16) -> Option<&'static str> {
    const NAMES: [&str; 30] = [
        "unsigned char",
        "signed char",
        "short int",
        "int",
        "long int",
        "c10::Half",
        "float",
        "double",
        "c10::complex<c10::Half>",
        "c10::complex<float>",
        "c10::complex<double>",
        "bool",
        "c10::qint8",
        "c10::quint8",
        "c10::qint32",
        "c10::BFloat16",
        "c10::quint4x2",
        "c10::quint2x4",
        "c10::bits1x8",
        "c10::bits2x4",
        "c10::bits4x2",
        "c10::bits8",
        "c10::bits16",
        "c10::Float8_e5m2",
        "c10::Float8_e4m3fn",
        "c10::Float8_e5m2fnuz",
        "c10::Float8_e4m3fnuz",
        "unsigned short",
        "unsigned int",
        "unsigned long",
    ];
    NAMES.get(usize::from(dtype)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_written_as_pytorchs_profiler_writes_them() {
        let mut key = InputKey::new(7);
        let inputs = [
            Input::Tensor { dtype: 15, sizes: &[1, 2, 9, 9] },
            Input::Tensors(2),
            Input::Tensor { dtype: 6, sizes: &[3] },
            Input::Tensor { dtype: 6, sizes: &[] },
            Input::Other,
            Input::Scalars(2),
            Input::Int(-1),
            Input::Bool(true),
            Input::Int(1),
            Input::Scalar,
            Input::Bool(false),
            Input::Tensor { dtype: 999, sizes: &[0] },
        ];
        for input in inputs {
            assert!(key.push(input));
        }
        assert_eq!(
            key.to_json(),
            concat!(
                r#"{"Input Dims":[[1,2,9,9],[[3],[]],[],[],[],[],[],[]],"#,
                r#""Input type":["c10::BFloat16","TensorList","","ScalarList","Scalar","Scalar","Scalar",""],"#,
                r#""Concrete Inputs":["","","","[-1, True]","1","","False",""]}"#
            )
        );
    }

    #[test]
    fn shapes_alone_have_no_values() {
        let mut key = InputKey::new(7);
        assert!(key.push(Input::Tensor { dtype: 6, sizes: &[2, 3] }));
        assert!(key.push(Input::Scalars(0)));
        let expected = r#"{"Input Dims":[[2,3],[]],"Input type":["float","ScalarList"]}"#;
        assert_eq!(key.to_json(), expected);
    }

    #[test]
    fn inputs_that_do_not_fit_are_refused() {
        let mut key = InputKey::new(7);
        while key.push(Input::Tensor { dtype: 6, sizes: &[1; 20] }) {}
        assert!(!key.push(Input::Tensor { dtype: 6, sizes: &[1; 20] }));
        assert!(key.words().len() <= MAX_WORDS);
    }
}
