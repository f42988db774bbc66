//! `self_nanos(start, end) OVER (PARTITION BY lane)`: time in an interval, but in none inside it.

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
        Ok(Box::new(OfPartition))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(args.name(), DataType::Int64, true)))
    }

    fn limit_effect(&self, _: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown // a later row may lie inside an earlier one
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(documented!(
            "Time of each interval that is in no other one directly inside it, in its partition; \
             the order of rows does not matter.",
            "self_nanos(start_nanos, end_nanos) OVER (PARTITION BY lane)",
            "SELECT name, self_nanos(start_nanos, end_nanos) OVER (PARTITION BY thread_id) \
             FROM spans"
        ))
    }
}

#[derive(Debug)]
struct OfPartition;

impl PartitionEvaluator for OfPartition {
    fn evaluate_all(&mut self, values: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        let [starts, ends] = [0, 1].map(|column: usize| values[column].as_primitive::<Int64Type>());
        Ok(Arc::new(self_nanos(starts, ends)))
    }
}

/// An interval that the next may lie in.
struct Open {
    row: usize,
    end: i64,
    /// Up to where those inside it have been taken from its time.
    taken_up_to: i64,
}

/// An interval lies in the one that started last among those that enclose it. Null where an end is
/// missing; 0 where an interval ends before it starts.
fn self_nanos(starts: &Int64Array, ends: &Int64Array) -> Int64Array {
    let mut nanos: Vec<Option<i64>> = starts
        .iter()
        .zip(ends)
        .map(|(start, end)| Some(end?.saturating_sub(start?).max(0)))
        .collect();
    let mut rows: Vec<usize> =
        (0..nanos.len()).filter(|&row| nanos[row].is_some_and(|nanos| nanos > 0)).collect();
    rows.sort_by_key(|&row| (starts.value(row), std::cmp::Reverse(ends.value(row))));

    let mut open: Vec<Open> = Vec::new();
    for row in rows {
        let (start, end) = (starts.value(row), ends.value(row));
        // What ends earlier encloses nothing that starts from here on and is not inside this one.
        while open.pop_if(|outer| outer.end < end).is_some() {}
        if let Some(outer) = open.last_mut() {
            let taken = end.saturating_sub(start.max(outer.taken_up_to)).max(0);
            outer.taken_up_to = outer.taken_up_to.max(end);
            if let Some(nanos) = &mut nanos[outer.row] {
                *nanos = nanos.saturating_sub(taken);
            }
        }
        open.push(Open { row, end, taken_up_to: start });
    }
    nanos.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By counting moments: those of each interval that no interval directly inside it has.
    fn naive(spans: &[(i64, i64)]) -> Vec<i64> {
        let mut order: Vec<usize> =
            (0..spans.len()).filter(|&row| spans[row].0 < spans[row].1).collect();
        order.sort_by_key(|&row| (spans[row].0, -spans[row].1));
        let parent = |at: usize| {
            let span = spans[order[at]];
            order[..at].iter().rev().copied().find(|&outer| span.1 <= spans[outer].1)
        };
        let parents: Vec<_> = (0..order.len()).map(|at| (order[at], parent(at))).collect();
        let is_taken = |row: usize, moment: i64| {
            let mut inside = parents.iter().filter(|(_, outer)| *outer == Some(row));
            inside.any(|&(inner, _)| spans[inner].0 <= moment && moment < spans[inner].1)
        };
        let own = |(row, &(start, end)): (usize, &(i64, i64))| {
            (start..end).map(|moment| i64::from(!is_taken(row, moment))).sum()
        };
        spans.iter().enumerate().map(own).collect()
    }

    proptest! {
        #[test]
        fn it_is_what_counting_moments_gives(
            spans in prop::collection::vec((0_i64..60, -2_i64..40), 0..25),
        ) {
            let spans: Vec<_> = spans.iter().map(|&(start, len)| (start, start + len)).collect();
            let (starts, ends): (Vec<_>, Vec<_>) = spans.iter().copied().unzip();
            let computed = self_nanos(&starts.into(), &ends.into());
            prop_assert_eq!(computed.values().to_vec(), naive(&spans));
        }
    }

    #[test]
    fn grandchildren_are_taken_from_children_only() {
        let computed = self_nanos(&vec![0, 10, 20, 90].into(), &vec![100, 50, 30, 95].into());
        assert_eq!(computed.values(), &[55, 30, 10, 5]);
    }

    #[test]
    fn without_an_end_there_is_no_time() {
        let computed = self_nanos(&vec![Some(0), Some(1)].into(), &vec![None, Some(3)].into());
        assert_eq!(computed, Int64Array::from(vec![None, Some(2)]));
    }
}
