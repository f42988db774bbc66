//! What a field of a row can be: how it goes to columns and bytes, and back.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Float64Builder, Int64Builder, ListBuilder,
    StringBuilder, UInt32Builder, UInt64Builder,
};
use arrow::datatypes::{Float64Type, Int64Type, UInt32Type, UInt64Type};
use marey_model::metric::MetricValue;
use smallvec::SmallVec;

use super::bytes::{Bytes, Damaged, put, put_signed};

/// A field of a row: one column or several.
pub trait Field: Sized {
    /// What collects the columns.
    type Columns: Default;
    /// How many columns it is.
    const WIDTH: usize = 1;
    /// Appends it to its columns.
    fn append(&self, columns: &mut Self::Columns);
    /// Takes the columns, which are empty then.
    fn finish(columns: &mut Self::Columns, out: &mut Vec<ArrayRef>);
    /// Reads it from its columns.
    fn read(arrays: &[ArrayRef], row: usize) -> Self;
    /// Appends its bytes.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads its bytes back.
    fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged>;
    /// Bytes that it takes beyond itself.
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// The arguments of an event: a text in `args`, and the numbers that fill its gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Args {
    /// The text; none, if the event has no arguments.
    pub text_id: Option<u32>,
    /// The numbers, in the order of the gaps. Most events have a few.
    pub numbers: SmallVec<[i64; 4]>,
}

macro_rules! number {
    ($($type:ty, $arrow:ty, $builder:ty, $put:path, $take:path;)+) => {$(
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
            fn put(&self, out: &mut Vec<u8>) {
                $put(out, *self);
            }

            #[inline]
            fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
                $take(input)
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

            fn put(&self, out: &mut Vec<u8>) {
                put_option(self.as_ref(), out);
            }

            fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
                take_option(input)
            }
        }
    )+};
}

number! {
    i64, Int64Type, Int64Builder, put_signed, Bytes::signed;
    u64, UInt64Type, UInt64Builder, put, Bytes::number;
    u32, UInt32Type, UInt32Builder, put_id, id;
    f64, Float64Type, Float64Builder, put_real, real;
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

    fn put(&self, out: &mut Vec<u8>) {
        out.push((*self).into());
    }

    fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
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

    fn put(&self, out: &mut Vec<u8>) {
        put(out, self.len() as u64);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
        let len = input.count()?;
        str::from_utf8(input.bytes(len)?).map(Into::into).or(Err(Damaged))
    }

    fn heap_bytes(&self) -> usize {
        self.len()
    }
}

/// Along three axes.
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

    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().flatten().for_each(|axis| axis.put(out));
    }

    fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
        if !bool::take(input)? {
            return Ok(None);
        }
        Ok(Some([u32::take(input)?, u32::take(input)?, u32::take(input)?]))
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

    fn put(&self, out: &mut Vec<u8>) {
        self.text_id.put(out);
        put_all(&self.numbers, out);
    }

    fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
        Ok(Self { text_id: Field::take(input)?, numbers: take_all(input)? })
    }

    fn heap_bytes(&self) -> usize {
        size_of_val(&*self.numbers)
    }
}

/// As a real number, a whole number, a text and a list: the one that it is, and a whole number is a
/// real one too.
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
            Self::Ints(values) => lists.append_value(values.iter().map(|&n| Some(n as f64))),
            Self::Floats(values) => lists.append_value(values.iter().map(|&n| Some(n))),
        }
    }

    fn finish((reals, ints, texts, lists): &mut Self::Columns, out: &mut Vec<ArrayRef>) {
        out.push(Arc::new(reals.finish()));
        out.push(Arc::new(ints.finish()));
        out.push(Arc::new(texts.finish()));
        out.push(Arc::new(lists.finish()));
    }

    fn read(arrays: &[ArrayRef], row: usize) -> Self {
        let [reals, ints, texts, lists] = arrays else { unreachable!("its width is 4") };
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

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Int(value) => {
                out.push(0);
                value.put(out);
            }
            Self::Float(value) => {
                out.push(1);
                value.put(out);
            }
            Self::Text(text) => {
                out.push(2);
                text.put(out);
            }
            Self::Ints(values) => {
                out.push(3);
                put_all(values, out);
            }
            Self::Floats(values) => {
                out.push(4);
                put_all(values, out);
            }
        }
    }

    fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
        Ok(match input.byte()? {
            0 => Self::Int(i64::take(input)?),
            1 => Self::Float(f64::take(input)?),
            2 => Self::Text(Field::take(input)?),
            3 => Self::Ints(take_all(input)?),
            4 => Self::Floats(take_all(input)?),
            _ => return Err(Damaged),
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

fn put_option<T: Field>(value: Option<&T>, out: &mut Vec<u8>) {
    value.is_some().put(out);
    if let Some(value) = value {
        value.put(out);
    }
}

fn take_option<T: Field>(input: &mut Bytes<'_>) -> Result<Option<T>, Damaged> {
    if bool::take(input)? { T::take(input).map(Some) } else { Ok(None) }
}

fn put_all<T: Field>(values: &[T], out: &mut Vec<u8>) {
    put(out, values.len() as u64);
    for value in values {
        value.put(out);
    }
}

fn take_all<T: Field, L: FromIterator<T>>(input: &mut Bytes<'_>) -> Result<L, Damaged> {
    let len = input.count()?;
    (0..len).map(|_| T::take(input)).collect()
}

#[inline]
fn put_id(out: &mut Vec<u8>, id: u32) {
    put(out, id.into());
}

#[inline]
fn id(input: &mut Bytes<'_>) -> Result<u32, Damaged> {
    input.number()?.try_into().or(Err(Damaged))
}

fn put_real(out: &mut Vec<u8>, number: f64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn real(input: &mut Bytes<'_>) -> Result<f64, Damaged> {
    let bytes = input.0.first_chunk().ok_or(Damaged)?;
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

    fn check<F: Field + std::fmt::Debug>(fields: &[F], through_columns: impl Fn(&F) -> String) {
        let (mut bytes, mut columns) = (Vec::new(), F::Columns::default());
        for field in fields {
            field.put(&mut bytes);
            field.append(&mut columns);
        }
        let mut input = Bytes(&bytes);
        let mut arrays = Vec::new();
        F::finish(&mut columns, &mut arrays);
        assert_eq!(arrays.len(), F::WIDTH);
        for (row, field) in fields.iter().enumerate() {
            assert_eq!(format!("{:?}", F::take(&mut input).unwrap()), format!("{field:?}"));
            assert_eq!(format!("{:?}", F::read(&arrays, row)), through_columns(field));
        }
        assert!(input.0.is_empty());
        if let Some(cut) = bytes.len().checked_sub(1) {
            let mut input = Bytes(&bytes[..cut]);
            assert!(fields.iter().any(|_| F::take(&mut input).is_err()));
        }
    }

    proptest! {
        #[test]
        fn fields_come_back(
            ints in prop::collection::vec(any::<Option<i64>>(), 0..9),
            reals in prop::collection::vec(any::<Option<f64>>(), 0..9),
            texts in prop::collection::vec(".*", 0..9),
            axes in prop::collection::vec(any::<Option<[u32; 3]>>(), 0..9),
            args in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<i64>(), 0..4)), 0..9),
            values in prop::collection::vec(value(), 0..9),
        ) {
            check(&ints, |field| format!("{field:?}"));
            check(&reals, |field| format!("{field:?}"));
            let texts: Vec<Arc<str>> = texts.into_iter().map(Into::into).collect();
            check(&texts, |field| format!("{field:?}"));
            check(&axes, |field| format!("{field:?}"));
            let args: Vec<_> = args
                .into_iter()
                .map(|(id, numbers)| Args { text_id: Some(id), numbers: numbers.into() })
                .collect();
            check(&args, |field| format!("{field:?}"));
            // Tables have real numbers in lists.
            check(&values, |field| match field {
                MetricValue::Ints(values) => {
                    let reals = values.iter().map(|&value| value as f64).collect();
                    format!("{:?}", MetricValue::Floats(reals))
                }
                other => format!("{other:?}"),
            });
        }
    }
}
