//! Converts Arrow columns to lists of Python values, for the rows of an answer.

use arrow::array::{Array, AsArray, StructArray};
use arrow::compute;
use arrow::datatypes::{DataType, Float64Type, Int64Type, UInt64Type};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Returns the values of a column: numbers, booleans, strings, bytes, lists, dicts for structs, and
/// `None`. A value of any other type, such as a date, is formatted as a string.
pub(crate) fn to_python<'py>(py: Python<'py>, column: &dyn Array) -> PyResult<Bound<'py, PyList>> {
    let column = compute::cast(column, &widest_type(column.data_type())).map_err(value_error)?;
    match column.data_type() {
        DataType::Int64 => PyList::new(py, column.as_primitive::<Int64Type>()),
        DataType::UInt64 => PyList::new(py, column.as_primitive::<UInt64Type>()),
        DataType::Float64 => PyList::new(py, column.as_primitive::<Float64Type>()),
        DataType::Boolean => PyList::new(py, column.as_boolean()),
        DataType::Utf8View => PyList::new(py, column.as_string_view()),
        DataType::BinaryView => PyList::new(py, column.as_binary_view()),
        DataType::List(_) => {
            let lists = column.as_list::<i32>().iter();
            let lists = lists.map(|list| list.map(|list| to_python(py, &list)).transpose());
            PyList::new(py, lists.collect::<PyResult<Vec<_>>>()?)
        }
        DataType::Struct(_) => dicts_to_python(py, column.as_struct()),
        _ => texts_to_python(py, &column),
    }
}

/// Returns the widest type of the same kind, because `to_python` handles only one type of each
/// kind.
fn widest_type(data_type: &DataType) -> DataType {
    match data_type {
        _ if data_type.is_signed_integer() => DataType::Int64,
        _ if data_type.is_unsigned_integer() => DataType::UInt64,
        _ if data_type.is_floating() => DataType::Float64,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Null => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => {
            DataType::BinaryView
        }
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            DataType::List(item.clone())
        }
        DataType::Dictionary(_, values) => widest_type(values),
        other => other.clone(),
    }
}

fn dicts_to_python<'py>(py: Python<'py>, column: &StructArray) -> PyResult<Bound<'py, PyList>> {
    let fields = column.columns().iter().map(|field| to_python(py, field));
    let fields = fields.collect::<PyResult<Vec<_>>>()?;
    let rows = (0..column.len()).map(|row| {
        if column.is_null(row) {
            return Ok(None);
        }
        let dict = PyDict::new(py);
        for (name, values) in column.column_names().into_iter().zip(&fields) {
            dict.set_item(name, values.get_item(row)?)?;
        }
        Ok(Some(dict))
    });
    PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)
}

fn texts_to_python<'py>(py: Python<'py>, column: &dyn Array) -> PyResult<Bound<'py, PyList>> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(column, &options).map_err(value_error)?;
    let rows = (0..column.len()).map(|row| {
        let text = (!column.is_null(row)).then(|| formatter.value(row).try_to_string());
        text.transpose().map_err(value_error)
    });
    PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)
}

#[expect(clippy::needless_pass_by_value, reason = "the signature that `map_err` needs")]
fn value_error(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
