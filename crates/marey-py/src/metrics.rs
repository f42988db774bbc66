//! Converts Python values to user metrics. The functions of scopes, tasks and watches use it.
//!
//! Arrays and tensors are converted by their `tolist`, so no library of arrays is imported.

use crate::error::try_call;
use crate::library::{intern_metric, is_active};
use crate::scope::add_values_to_innermost;
use crate::text::utf8;
use marey_record::table::{ErrorBuffer, MetricArg, NO_METRIC, ValueTag};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PySequence, PyString, PyTuple};
use std::ffi::c_void;

/// A converted value, which must outlive the call that receives its address.
#[derive(FromPyObject)]
pub(crate) enum MetricInput {
    Int(i64),
    Float(f64),
    Text(String),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
}

impl MetricInput {
    /// Returns the value as an argument of the C functions, for the metric with this id. The
    /// argument points into `self`.
    pub(crate) fn as_argument(&self, metric_id: u32) -> MetricArg {
        let (tag, data, len): (_, *const c_void, _) = match self {
            Self::Int(value) => (ValueTag::Int, (&raw const *value).cast(), 1),
            Self::Float(value) => (ValueTag::Float, (&raw const *value).cast(), 1),
            Self::Text(text) => (ValueTag::Text, text.as_ptr().cast(), text.len()),
            Self::Ints(values) => (ValueTag::Ints, values.as_ptr().cast(), values.len()),
            Self::Floats(values) => (ValueTag::Floats, values.as_ptr().cast(), values.len()),
        };
        MetricArg { metric: metric_id, tag: tag as u32, data, len }
    }
}

/// A metric with values of type `float`. Its name is looked up once, unlike those of the dict of
/// `add_metrics`.
#[pyclass(frozen, module = "marey._native")]
pub(crate) struct FloatMetric {
    metric_id: u32,
}

#[pymethods]
impl FloatMetric {
    #[new]
    fn new(name: &Bound<'_, PyString>) -> PyResult<Self> {
        Ok(Self { metric_id: intern_metric(&utf8(name)?) })
    }

    /// Adds a value to the innermost scope.
    #[pyo3(signature = (value, /))]
    fn add(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        if !is_active() || self.metric_id == NO_METRIC {
            return Ok(());
        }
        let value = MetricInput::Float(value);
        // SAFETY: the value lives until the call returns.
        unsafe { add_values_to_innermost(py, &[value.as_argument(self.metric_id)]) }
    }
}

/// Converts the metrics of a dict and passes them to `add`, which calls a C function that adds
/// metrics.
pub(crate) fn convert_and_add(
    metrics: &Bound<'_, PyDict>,
    add: impl FnOnce(&[MetricArg], &mut ErrorBuffer) -> i32,
) -> PyResult<()> {
    let mut metric_ids = Vec::with_capacity(metrics.len());
    let mut values = Vec::with_capacity(metrics.len());
    for (name, value) in metrics {
        let name = name.cast_into::<PyString>().map_err(|error| {
            PyTypeError::new_err(format!("a metric's name must be a str: {error}"))
        })?;
        let name = utf8(&name)?;
        let metric_id = intern_metric(&name);
        if metric_id != NO_METRIC {
            values.push(convert_value(&name, &value)?);
            metric_ids.push(metric_id);
        }
    }
    let arguments: Vec<_> =
        metric_ids.iter().zip(&values).map(|(&id, value)| value.as_argument(id)).collect();
    try_call(|error| add(&arguments, error)).map(drop)
}

fn convert_value(name: &str, value: &Bound<'_, PyAny>) -> PyResult<MetricInput> {
    if value.is_instance_of::<PyInt>() {
        return Ok(MetricInput::Int(value.extract()?));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(MetricInput::Float(value.extract()?));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(MetricInput::Text(utf8(text)?.into_owned()));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return convert_vector(name, value.cast::<PySequence>()?);
    }
    // Arrays and tensors of any library, and their scalars.
    if let Ok(list) = value.call_method0("tolist")
        && !list.is(value)
    {
        return convert_value(name, &list);
    }
    if let Ok(number) = value.extract::<i64>() {
        return Ok(MetricInput::Int(number));
    }
    if let Ok(number) = value.extract::<f64>() {
        return Ok(MetricInput::Float(number));
    }
    Err(PyTypeError::new_err(format!(
        "metric {name:?} must be an int, a float, a str or a sequence of numbers, not {}",
        value.get_type().name()?
    )))
}

fn convert_vector(name: &str, values: &Bound<'_, PySequence>) -> PyResult<MetricInput> {
    let mut ints = Vec::new();
    let mut floats = Vec::new();
    let mut are_ints = true;
    for value in values.try_iter()? {
        match convert_value(name, &value?)? {
            MetricInput::Int(value) => {
                ints.push(value);
                floats.push(value as f64);
            }
            MetricInput::Float(value) => {
                are_ints = false;
                floats.push(value);
            }
            MetricInput::Text(_) | MetricInput::Ints(_) | MetricInput::Floats(_) => {
                return Err(PyTypeError::new_err(format!(
                    "metric {name:?} must be a flat sequence of numbers"
                )));
            }
        }
    }
    Ok(if are_ints { MetricInput::Ints(ints) } else { MetricInput::Floats(floats) })
}
