//! The SQL window function `self_nanos(start_nanos, end_nanos) OVER (PARTITION BY lane)`: the
//! exclusive time of nested intervals.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

use super::documented;

pub(super) fn function() -> WindowUDF {
    let signature = Signature::exact(vec![DataType::Int64; 2], Volatility::Immutable);
    WindowUDF::new_from_impl(SelfNanos { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SelfNanos {
    signature: Signature,
}

impl WindowUDFImpl for SelfNanos {
    fn name(&self) -> &'static str {
        "self_nanos"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(
        &self,
        _: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(SelfNanosEvaluator))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(args.name(), DataType::Int64, true)))
    }

    fn limit_effect(&self, _: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown // a later row may be nested in an earlier one
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(documented!(
            "Exclusive time of each interval: its duration without the intervals nested directly in \
             it, within the partition. The order of rows does not matter.",
            "self_nanos(start_nanos, end_nanos) OVER (PARTITION BY lane)",
            "SELECT name, self_nanos(start_nanos, end_nanos) OVER (PARTITION BY thread_id) \
             FROM spans"
        ))
    }
}

#[derive(Debug)]
struct SelfNanosEvaluator;

impl PartitionEvaluator for SelfNanosEvaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        let [starts, ends] = [0, 1].map(|column: usize| values[column].as_primitive::<Int64Type>());
        Ok(Arc::new(self_nanos(starts, ends)))
    }
}

/// An interval in which the next one may be nested.
struct OpenInterval {
    row: usize,
    end_nanos: i64,
    /// The time up to which nested intervals are already subtracted.
    subtracted_until_nanos: i64,
}

/// Returns the exclusive time of each interval. The parent of an interval is the enclosing interval
/// that started last. The result is null if an end is null, and 0 if an interval ends before it
/// starts.
fn self_nanos(starts: &Int64Array, ends: &Int64Array) -> Int64Array {
    let mut nanos: Vec<Option<i64>> = starts
        .iter()
        .zip(ends)
        .map(|(start_nanos, end_nanos)| Some(end_nanos?.saturating_sub(start_nanos?).max(0)))
        .collect();
    let mut rows: Vec<usize> =
        (0..nanos.len()).filter(|&row| nanos[row].is_some_and(|nanos| nanos > 0)).collect();
    rows.sort_by_key(|&row| (starts.value(row), std::cmp::Reverse(ends.value(row))));

    let mut open_intervals: Vec<OpenInterval> = Vec::new();
    for row in rows {
        let (start_nanos, end_nanos) = (starts.value(row), ends.value(row));
        // An interval that ends earlier can enclose neither this one nor a later one, unless the
        // later one is nested in this one as well.
        while open_intervals.pop_if(|outer| outer.end_nanos < end_nanos).is_some() {}
        if let Some(outer) = open_intervals.last_mut() {
            let nested_nanos =
                end_nanos.saturating_sub(start_nanos.max(outer.subtracted_until_nanos)).max(0);
            outer.subtracted_until_nanos = outer.subtracted_until_nanos.max(end_nanos);
            if let Some(nanos) = &mut nanos[outer.row] {
                *nanos = nanos.saturating_sub(nested_nanos);
            }
        }
        open_intervals.push(OpenInterval { row, end_nanos, subtracted_until_nanos: start_nanos });
    }
    nanos.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The number of moments of each interval that no interval nested directly in it covers.
    fn count_uncovered_moments(spans: &[(i64, i64)]) -> Vec<i64> {
        let mut order: Vec<usize> =
            (0..spans.len()).filter(|&row| spans[row].0 < spans[row].1).collect();
        order.sort_by_key(|&row| (spans[row].0, -spans[row].1));
        let parent = |index: usize| {
            let span = spans[order[index]];
            order[..index].iter().rev().copied().find(|&outer| span.1 <= spans[outer].1)
        };
        let parents: Vec<_> = (0..order.len()).map(|index| (order[index], parent(index))).collect();
        let is_nested = |row: usize, moment: i64| {
            let mut children = parents.iter().filter(|(_, outer)| *outer == Some(row));
            children.any(|&(inner, _)| spans[inner].0 <= moment && moment < spans[inner].1)
        };
        let self_time = |(row, &(start, end)): (usize, &(i64, i64))| {
            (start..end).map(|moment| i64::from(!is_nested(row, moment))).sum()
        };
        spans.iter().enumerate().map(self_time).collect()
    }

    proptest! {
        #[test]
        fn self_time_matches_counting_moments(
            spans in prop::collection::vec((0_i64..60, -2_i64..40), 0..25),
        ) {
            let spans: Vec<_> = spans.iter().map(|&(start, len)| (start, start + len)).collect();
            let (starts, ends): (Vec<_>, Vec<_>) = spans.iter().copied().unzip();
            let computed = self_nanos(&starts.into(), &ends.into());
            prop_assert_eq!(computed.values().to_vec(), count_uncovered_moments(&spans));
        }
    }

    #[test]
    fn grandchildren_are_subtracted_from_children_only() {
        let computed = self_nanos(&vec![0, 10, 20, 90].into(), &vec![100, 50, 30, 95].into());
        assert_eq!(computed.values(), &[55, 30, 10, 5]);
    }

    #[test]
    fn an_interval_without_an_end_has_no_self_time() {
        let computed = self_nanos(&vec![Some(0), Some(1)].into(), &vec![None, Some(3)].into());
        assert_eq!(computed, Int64Array::from(vec![None, Some(2)]));
    }
}
