//! [`Field`]: the types of row fields, with their conversions to columns and to the bytes of a
//! sort.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Float64Builder, Int64Builder, ListBuilder,
    StringBuilder, UInt32Builder, UInt64Builder,
};
use arrow::datatypes::{Float64Type, Int64Type, UInt32Type, UInt64Type};
use marey_model::metric::MetricValue;
use smallvec::SmallVec;

use super::bytes::{DamagedRow, RowBytes, encode_number, encode_signed};

/// The byte before an encoded [`MetricValue`], which tells its variant.
const INT_TAG: u8 = 0;
const FLOAT_TAG: u8 = 1;
const TEXT_TAG: u8 = 2;
const INTS_TAG: u8 = 3;
const FLOATS_TAG: u8 = 4;

/// A field of a row, which occupies one column or several.
pub trait Field: Sized {
    /// Builders of its columns.
    type Columns: Default;
    /// Number of columns.
    const WIDTH: usize = 1;
    /// Appends the value to its columns.
    fn append(&self, columns: &mut Self::Columns);
    /// Appends the finished columns to `out` and resets the builders.
    fn finish(columns: &mut Self::Columns, out: &mut Vec<ArrayRef>);
    /// Reads the value from its columns.
    fn read(arrays: &[ArrayRef], row: usize) -> Self;
    /// Appends the encoded value.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads an encoded value.
    fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow>;
    /// Returns the bytes on the heap.
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// The arguments of an event: a text in `args`, and the numbers for its gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Args {
    /// Id of the text, or `None` if the event has no arguments.
    pub text_id: Option<u32>,
    /// Numbers in the order of the gaps. Most events have a few.
    pub numbers: SmallVec<[i64; 4]>,
}

macro_rules! number {
    ($($type:ty, $arrow:ty, $builder:ty, $encode:path, $decode:path;)+) => {$(
        impl Field for $type {
            type Columns = $builder;

            fn append(&self, columns: &mut $builder) {
                columns.append_value(*self);
            }

            fn finish(columns: &mut $builder, out: &mut Vec<ArrayRef>) {
                out.push(Arc::new(columns.finish()));
            }

            fn read(arrays: &[ArrayRef], row: usize) -> Self {
                arrays[0].as_primitive::<$arrow>().value(row)
            }

            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                $encode(out, *self);
            }

            #[inline]
            fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
                $decode(input)
            }
        }

        impl Field for Option<$type> {
            type Columns = $builder;

            fn append(&self, columns: &mut $builder) {
                columns.append_option(*self);
            }

            fn finish(columns: &mut $builder, out: &mut Vec<ArrayRef>) {
                out.push(Arc::new(columns.finish()));
            }

            fn read(arrays: &[ArrayRef], row: usize) -> Self {
                let array = arrays[0].as_primitive::<$arrow>();
                array.is_valid(row).then(|| array.value(row))
            }

            fn encode(&self, out: &mut Vec<u8>) {
                encode_option(self.as_ref(), out);
            }

            fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
                decode_option(input)
            }
        }
    )+};
}

number! {
    i64, Int64Type, Int64Builder, encode_signed, RowBytes::signed;
    u64, UInt64Type, UInt64Builder, encode_number, RowBytes::number;
    u32, UInt32Type, UInt32Builder, encode_id, decode_id;
    f64, Float64Type, Float64Builder, encode_real, decode_real;
}

impl Field for bool {
    type Columns = BooleanBuilder;

    fn append(&self, columns: &mut BooleanBuilder) {
        columns.append_value(*self);
    }

    fn finish(columns: &mut BooleanBuilder, out: &mut Vec<ArrayRef>) {
        out.push(Arc::new(columns.finish()));
    }

    fn read(arrays: &[ArrayRef], row: usize) -> Self {
        arrays[0].as_boolean().value(row)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push((*self).into());
    }

    fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
        input.byte().map(|byte| byte != 0)
    }
}

impl Field for Arc<str> {
    type Columns = StringBuilder;

    fn append(&self, columns: &mut StringBuilder) {
        columns.append_value(self);
    }

    fn finish(columns: &mut StringBuilder, out: &mut Vec<ArrayRef>) {
        out.push(Arc::new(columns.finish()));
    }

    fn read(arrays: &[ArrayRef], row: usize) -> Self {
        arrays[0].as_string::<i32>().value(row).into()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        encode_number(out, self.len() as u64);
        out.extend_from_slice(self.as_bytes());
    }

    fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
        let len = input.count()?;
        str::from_utf8(input.bytes(len)?).map(Into::into).or(Err(DamagedRow))
    }

    fn heap_bytes(&self) -> usize {
        self.len()
    }
}

/// Sizes along three axes.
impl Field for Option<[u32; 3]> {
    type Columns = [UInt32Builder; 3];
    const WIDTH: usize = 3;

    fn append(&self, columns: &mut Self::Columns) {
        for (axis, column) in columns.iter_mut().enumerate() {
            column.append_option(self.map(|axes| axes[axis]));
        }
    }

    fn finish(columns: &mut Self::Columns, out: &mut Vec<ArrayRef>) {
        out.extend(columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef));
    }

    fn read(arrays: &[ArrayRef], row: usize) -> Self {
        let axis = |axis: usize| Option::<u32>::read(&arrays[axis..], row);
        Some([axis(0)?, axis(1)?, axis(2)?])
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        self.iter().flatten().for_each(|axis| axis.encode(out));
    }

    fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
        if !bool::decode(input)? {
            return Ok(None);
        }
        Ok(Some([u32::decode(input)?, u32::decode(input)?, u32::decode(input)?]))
    }
}

impl Field for Args {
    type Columns = (UInt32Builder, ListBuilder<Int64Builder>);
    const WIDTH: usize = 2;

    fn append(&self, columns: &mut Self::Columns) {
        columns.0.append_option(self.text_id);
        if self.numbers.is_empty() {
            columns.1.append_null();
        } else {
            columns.1.values().append_slice(&self.numbers);
            columns.1.append(true);
        }
    }

    fn finish(columns: &mut Self::Columns, out: &mut Vec<ArrayRef>) {
        out.push(Arc::new(columns.0.finish()));
        out.push(Arc::new(columns.1.finish()));
    }

    fn read(arrays: &[ArrayRef], row: usize) -> Self {
        let numbers = arrays[1].as_list::<i32>();
        let numbers = numbers.is_valid(row).then(|| {
            let offsets = numbers.value_offsets();
            let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
            SmallVec::from_slice(&numbers.values().as_primitive::<Int64Type>().values()[start..end])
        });
        Self { text_id: Option::read(arrays, row), numbers: numbers.unwrap_or_default() }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.text_id.encode(out);
        encode_all(&self.numbers, out);
    }

    fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
        Ok(Self { text_id: Field::decode(input)?, numbers: decode_all(input)? })
    }

    fn heap_bytes(&self) -> usize {
        size_of_val(&*self.numbers)
    }
}

/// Four columns: real number, integer, text and list. An integer fills the first column too.
impl Field for MetricValue {
    type Columns = (Float64Builder, Int64Builder, StringBuilder, ListBuilder<Float64Builder>);
    const WIDTH: usize = 4;

    fn append(&self, (reals, ints, texts, lists): &mut Self::Columns) {
        reals.append_option(match self {
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::Text(_) | Self::Ints(_) | Self::Floats(_) => None,
        });
        ints.append_option(if let Self::Int(value) = self { Some(*value) } else { None });
        texts.append_option(if let Self::Text(text) = self { Some(text) } else { None });
        match self {
            Self::Int(_) | Self::Float(_) | Self::Text(_) => lists.append_null(),
            Self::Ints(values) => {
                lists.append_value(values.iter().map(|&value| Some(value as f64)));
            }
            Self::Floats(values) => lists.append_value(values.iter().map(|&value| Some(value))),
        }
    }

    fn finish((reals, ints, texts, lists): &mut Self::Columns, out: &mut Vec<ArrayRef>) {
        out.push(Arc::new(reals.finish()));
        out.push(Arc::new(ints.finish()));
        out.push(Arc::new(texts.finish()));
        out.push(Arc::new(lists.finish()));
    }

    fn read(arrays: &[ArrayRef], row: usize) -> Self {
        let [reals, ints, texts, lists] = arrays else { unreachable!("the width is 4") };
        if ints.is_valid(row) {
            Self::Int(ints.as_primitive::<Int64Type>().value(row))
        } else if texts.is_valid(row) {
            Self::Text(texts.as_string::<i32>().value(row).into())
        } else if lists.is_valid(row) {
            let list = lists.as_list::<i32>().value(row);
            Self::Floats(list.as_primitive::<Float64Type>().values().to_vec())
        } else {
            Self::Float(Option::read(std::slice::from_ref(reals), row).unwrap_or(f64::NAN))
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Int(value) => {
                out.push(INT_TAG);
                value.encode(out);
            }
            Self::Float(value) => {
                out.push(FLOAT_TAG);
                value.encode(out);
            }
            Self::Text(text) => {
                out.push(TEXT_TAG);
                text.encode(out);
            }
            Self::Ints(values) => {
                out.push(INTS_TAG);
                encode_all(values, out);
            }
            Self::Floats(values) => {
                out.push(FLOATS_TAG);
                encode_all(values, out);
            }
        }
    }

    fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
        Ok(match input.byte()? {
            INT_TAG => Self::Int(i64::decode(input)?),
            FLOAT_TAG => Self::Float(f64::decode(input)?),
            TEXT_TAG => Self::Text(Field::decode(input)?),
            INTS_TAG => Self::Ints(decode_all(input)?),
            FLOATS_TAG => Self::Floats(decode_all(input)?),
            _ => return Err(DamagedRow),
        })
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Self::Int(_) | Self::Float(_) => 0,
            Self::Text(text) => text.len(),
            Self::Ints(values) => size_of_val(values.as_slice()),
            Self::Floats(values) => size_of_val(values.as_slice()),
        }
    }
}

fn encode_option<T: Field>(value: Option<&T>, out: &mut Vec<u8>) {
    value.is_some().encode(out);
    if let Some(value) = value {
        value.encode(out);
    }
}

fn decode_option<T: Field>(input: &mut RowBytes<'_>) -> Result<Option<T>, DamagedRow> {
    if bool::decode(input)? { T::decode(input).map(Some) } else { Ok(None) }
}

fn encode_all<T: Field>(values: &[T], out: &mut Vec<u8>) {
    encode_number(out, values.len() as u64);
    for value in values {
        value.encode(out);
    }
}

fn decode_all<T: Field, L: FromIterator<T>>(input: &mut RowBytes<'_>) -> Result<L, DamagedRow> {
    let len = input.count()?;
    (0..len).map(|_| T::decode(input)).collect()
}

#[inline]
fn encode_id(out: &mut Vec<u8>, id: u32) {
    encode_number(out, id.into());
}

#[inline]
fn decode_id(input: &mut RowBytes<'_>) -> Result<u32, DamagedRow> {
    input.number()?.try_into().or(Err(DamagedRow))
}

fn encode_real(out: &mut Vec<u8>, number: f64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn decode_real(input: &mut RowBytes<'_>) -> Result<f64, DamagedRow> {
    let bytes = input.0.first_chunk().ok_or(DamagedRow)?;
    input.0 = &input.0[bytes.len()..];
    Ok(f64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = MetricValue> {
        prop_oneof![
            any::<i64>().prop_map(MetricValue::Int),
            any::<f64>().prop_map(MetricValue::Float),
            ".*".prop_map(|text| MetricValue::Text(text.into())),
            prop::collection::vec(any::<i64>(), 0..4).prop_map(MetricValue::Ints),
            prop::collection::vec(any::<f64>(), 0..4).prop_map(MetricValue::Floats),
        ]
    }

    fn check_round_trip<F: Field + std::fmt::Debug>(
        fields: &[F],
        expected_from_columns: impl Fn(&F) -> String,
    ) {
        let (mut bytes, mut columns) = (Vec::new(), F::Columns::default());
        for field in fields {
            field.encode(&mut bytes);
            field.append(&mut columns);
        }
        let mut input = RowBytes(&bytes);
        let mut arrays = Vec::new();
        F::finish(&mut columns, &mut arrays);
        assert_eq!(arrays.len(), F::WIDTH);
        for (row, field) in fields.iter().enumerate() {
            assert_eq!(format!("{:?}", F::decode(&mut input).unwrap()), format!("{field:?}"));
            assert_eq!(format!("{:?}", F::read(&arrays, row)), expected_from_columns(field));
        }
        assert!(input.0.is_empty());
        if let Some(cut) = bytes.len().checked_sub(1) {
            let mut input = RowBytes(&bytes[..cut]);
            assert!(fields.iter().any(|_| F::decode(&mut input).is_err()));
        }
    }

    proptest! {
        #[test]
        fn fields_survive_columns_and_encoding(
            ints in prop::collection::vec(any::<Option<i64>>(), 0..9),
            reals in prop::collection::vec(any::<Option<f64>>(), 0..9),
            texts in prop::collection::vec(".*", 0..9),
            axes in prop::collection::vec(any::<Option<[u32; 3]>>(), 0..9),
            args in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<i64>(), 0..4)), 0..9),
            values in prop::collection::vec(value(), 0..9),
        ) {
            check_round_trip(&ints, |field| format!("{field:?}"));
            check_round_trip(&reals, |field| format!("{field:?}"));
            let texts: Vec<Arc<str>> = texts.into_iter().map(Into::into).collect();
            check_round_trip(&texts, |field| format!("{field:?}"));
            check_round_trip(&axes, |field| format!("{field:?}"));
            let args: Vec<_> = args
                .into_iter()
                .map(|(id, numbers)| Args { text_id: Some(id), numbers: numbers.into() })
                .collect();
            check_round_trip(&args, |field| format!("{field:?}"));
            // Tables store lists of real numbers only.
            check_round_trip(&values, |field| match field {
                MetricValue::Ints(values) => {
                    let reals = values.iter().map(|&value| value as f64).collect();
                    format!("{:?}", MetricValue::Floats(reals))
                }
                other => format!("{other:?}"),
            });
        }
    }
}
