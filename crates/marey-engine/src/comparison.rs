//! The Python classes `marey._engine.Measured` and `marey._engine.Comparison`, behind comparisons
//! and checks of two runs.
#![expect(clippy::needless_pass_by_value, reason = "PyO3 converts arguments into owned values")]

use marey_analysis::compare::{Tolerance, compare};
use marey_analysis::gate::{Gate, Judge};
use marey_analysis::tables;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::answer::Answer;

/// The numbers of a run, measured for comparisons.
#[pyclass(module = "marey._engine", frozen)]
pub(crate) struct Measured(pub(crate) marey_analysis::RunMeasurements);

#[pymethods]
impl Measured {
    /// Compares this run with a later one. Changes of a time below the tolerance count as
    /// unchanged.
    #[pyo3(signature = (after, tolerance_percent=None))]
    fn compare(
        &self,
        py: Python<'_>,
        after: PyRef<'_, Self>,
        tolerance_percent: Option<f64>,
    ) -> PyResult<Comparison> {
        let default = Tolerance::default();
        let percent = tolerance_percent.unwrap_or(default.percent);
        if !(percent.is_finite() && percent >= 0.0) {
            let message =
                format!("the tolerance must be a percentage of at least 0, not {percent}");
            return Err(PyValueError::new_err(message));
        }
        let (before, after) = (&self.0, &after.0);
        let tolerance = Tolerance { percent, ..default };
        Ok(Comparison(py.detach(|| compare(before, after, tolerance))))
    }

    /// Judges a later run against this one by each condition.
    #[pyo3(signature = (after, conditions, min_steps=None))]
    fn check(
        &self,
        py: Python<'_>,
        after: PyRef<'_, Self>,
        conditions: Vec<String>,
        min_steps: Option<usize>,
    ) -> PyResult<Answer> {
        let gates = conditions.iter().map(|condition| condition.parse::<Gate>());
        let gates: Result<Vec<_>, _> = gates.collect();
        let gates = gates.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let judge = min_steps.map_or_else(Judge::default, |min_steps| Judge { min_steps });
        let (before, after) = (&self.0, &after.0);
        let verdicts: Vec<_> =
            py.detach(|| gates.iter().map(|gate| judge.judge(gate, before, after)).collect());
        Ok(Answer::from_batch(tables::verdicts(&verdicts).to_batch()))
    }
}

/// The differences of two runs.
#[pyclass(module = "marey._engine", frozen)]
pub(crate) struct Comparison(marey_analysis::Comparison);

#[pymethods]
impl Comparison {
    /// The metrics of both runs.
    fn metrics(&self) -> Answer {
        Answer::from_batch(tables::metrics(&self.0).to_batch())
    }

    /// The host operations per step.
    fn operations(&self) -> Answer {
        Answer::from_batch(tables::operations(&self.0).to_batch())
    }

    /// The device activities per step.
    fn kernels(&self) -> Answer {
        Answer::from_batch(tables::kernels(&self.0).to_batch())
    }

    /// The suggested renames.
    fn renames(&self) -> Answer {
        Answer::from_batch(tables::renames(&self.0).to_batch())
    }
}
