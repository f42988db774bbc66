//! Converts columns of a graph to and from Python values.
//!
//! A numeric column is passed as the bytes of its 64-bit floats, which `array`, numpy and
//! `memoryview.cast("d")` read without a loop. Any other column is a list.

use marey_model::metric::MetricValue;
use marey_query::graph::Cells;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyList, PyString};

const NUMBER_BYTES: usize = size_of::<f64>();

pub(crate) fn to_python<'py>(py: Python<'py>, cells: &Cells) -> PyResult<Bound<'py, PyAny>> {
    match cells {
        Cells::Numbers { values, are_whole } => {
            let bytes = PyBytes::new_with(py, values.len() * NUMBER_BYTES, |buffer| {
                for (chunk, value) in buffer.chunks_exact_mut(NUMBER_BYTES).zip(values) {
                    chunk.copy_from_slice(&value.to_ne_bytes());
                }
                Ok(())
            })?;
            Ok((bytes, *are_whole).into_pyobject(py)?.into_any())
        }
        Cells::Values(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(value.as_ref().map(|value| value_to_python(py, value)).transpose()?)?;
            }
            Ok(list.into_any())
        }
    }
}

fn value_to_python<'py>(py: Python<'py>, value: &MetricValue) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        MetricValue::Int(value) => value.into_pyobject(py)?.into_any(),
        MetricValue::Float(value) => value.into_pyobject(py)?.into_any(),
        MetricValue::Text(text) => text.into_pyobject(py)?.into_any(),
        MetricValue::Ints(values) => values.into_pyobject(py)?.into_any(),
        MetricValue::Floats(values) => values.into_pyobject(py)?.into_any(),
    })
}

/// Converts Python values to a column of `count` values.
pub(crate) fn from_python(
    values: &Bound<'_, PyAny>,
    are_whole: bool,
    count: usize,
) -> PyResult<Cells> {
    let cells = if let Ok(bytes) = values.cast::<PyBytes>() {
        let numbers = bytes.as_bytes().chunks_exact(NUMBER_BYTES).map(|bytes| {
            let mut number = [0; NUMBER_BYTES];
            number.copy_from_slice(bytes);
            f64::from_ne_bytes(number)
        });
        Cells::Numbers { values: numbers.collect(), are_whole }
    } else {
        let cells = values.cast::<PyList>()?.iter().map(|value| value_from_python(&value));
        Cells::Values(cells.collect::<PyResult<_>>()?)
    };
    if cells.len() == count {
        Ok(cells)
    } else {
        Err(PyValueError::new_err(format!("got {} values for {count} nodes", cells.len())))
    }
}

fn value_from_python(value: &Bound<'_, PyAny>) -> PyResult<Option<MetricValue>> {
    if value.is_none() {
        return Ok(None);
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(MetricValue::Text(text.to_cow()?.into())));
    }
    if value.is_instance_of::<PyInt>() {
        let int = value.extract().map(MetricValue::Int);
        return int.or_else(|_| value.extract().map(MetricValue::Float)).map(Some);
    }
    if value.is_instance_of::<PyFloat>() {
        let number: f64 = value.extract()?;
        return Ok((!number.is_nan()).then_some(MetricValue::Float(number)));
    }
    if let Ok(list) = value.cast::<PyList>() {
        let ints = list.extract().map(MetricValue::Ints);
        return ints.or_else(|_| list.extract().map(MetricValue::Floats)).map(Some);
    }
    let type_name = value.get_type().name()?;
    let message =
        format!("a value must be a number, a text, a list of numbers or None, not {type_name}");
    Err(PyTypeError::new_err(message))
}
