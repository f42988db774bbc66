//! Thresholds over several columns, as comparisons of profiles need them: a node is kept if it
//! reaches the limit in at least one column.

use super::filter::require_any_kept;
use super::{FilterError, Graph, Threshold};

impl Threshold {
    /// Returns the value to reach. A percentage refers to the largest of `totals`.
    pub fn limit(self, totals: impl IntoIterator<Item = f64>) -> f64 {
        match self {
            Self::Value(limit) => limit,
            Self::Percent(percent) => totals.into_iter().fold(f64::NAN, f64::max) * percent / 100.0,
        }
    }
}

impl Graph {
    /// The nodes that reach `limit` in one of the columns, with their ancestors.
    ///
    /// # Errors
    /// [`FilterError::Empty`], which calls the columns `name`, if no node reaches the limit.
    /// [`FilterError::Metric`] if a column is missing or not numeric.
    pub fn filter_any(
        &self,
        columns: &[String],
        limit: f64,
        name: &str,
    ) -> Result<Self, FilterError> {
        let mut is_kept = vec![false; self.nodes.len()];
        for column in columns {
            for (is_kept, value) in is_kept.iter_mut().zip(self.numbers(column)?) {
                *is_kept |= value >= limit;
            }
        }
        let is_kept = self.with_ancestors(is_kept);
        let is_kept = require_any_kept(is_kept, || format!("no {name} reaches {limit}"))?;
        Ok(self.squash(&is_kept))
    }
}
