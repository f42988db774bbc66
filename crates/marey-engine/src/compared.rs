//! `marey._engine.Measured` and `marey._engine.Comparison`: two runs side by side.
#![expect(clippy::needless_pass_by_value, reason = "what Python gives is converted into values")]

use marey_analysis::compare::{Tolerance, compare};
use marey_analysis::gate::{Gate, Judge};
use marey_analysis::tables;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::answer::Answer;

/// The numbers that a run is compared by.
#[pyclass(module = "marey._engine", frozen)]
pub(crate) struct Measured(pub(crate) marey_analysis::Measured);

#[pymethods]
impl Measured {
    /// What this run and a later one differ in; changes of a time by so many percent are none.
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
            return Err(PyValueError::new_err(format!("the tolerance is {percent} %")));
        }
        let (before, after) = (&self.0, &after.0);
        let tolerance = Tolerance { percent, ..default };
        Ok(Comparison(py.detach(|| compare(before, after, tolerance))))
    }

    /// What becomes of conditions when a later run is held against this one.
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
        Ok(Answer::of_batch(tables::of_verdicts(&verdicts).batch()))
    }
}

/// What two runs differ in.
#[pyclass(module = "marey._engine", frozen)]
pub(crate) struct Comparison(marey_analysis::Comparison);

#[pymethods]
impl Comparison {
    /// The numbers of both runs.
    fn metrics(&self) -> Answer {
        Answer::of_batch(tables::of_metrics(&self.0).batch())
    }

    /// What the host did in a step.
    fn operations(&self) -> Answer {
        Answer::of_batch(tables::of_operations(&self.0).batch())
    }

    /// What devices did for a step.
    fn kernels(&self) -> Answer {
        Answer::of_batch(tables::of_kernels(&self.0).batch())
    }

    /// What may be one under two names.
    fn renames(&self) -> Answer {
        Answer::of_batch(tables::of_renames(&self.0).batch())
    }
}
