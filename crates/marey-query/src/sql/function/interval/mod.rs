//! The SQL functions for lengths of intervals: the aggregates `union_nanos`, `overlap_nanos` and
//! `intersection_nanos`, and the scalar `common_nanos`. They answer how long a device was busy or
//! how much of its work overlapped.

mod coverage;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, ScalarUDF, Signature, Volatility,
};

use super::documented;
use super::strict::strict_function;
use coverage::{Coverage, Interval, intersection, total_nanos};

pub(super) fn aggregates() -> Vec<AggregateUDF> {
    [Measure::Union, Measure::Overlap, Measure::Intersection]
        .map(|measure| AggregateUDF::new_from_impl(LengthAggregate::new(measure)))
        .into()
}

/// The set of moments whose length an aggregate returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Measure {
    Union,
    Overlap,
    Intersection,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct LengthAggregate {
    measure: Measure,
    signature: Signature,
}

impl LengthAggregate {
    fn new(measure: Measure) -> Self {
        let signature = match measure {
            Measure::Union | Measure::Overlap => {
                Signature::exact(vec![DataType::Int64; 2], Volatility::Immutable)
            }
            Measure::Intersection => Signature::user_defined(Volatility::Immutable),
        };
        Self { measure, signature }
    }
}

impl AggregateUDFImpl for LengthAggregate {
    fn name(&self) -> &str {
        match self.measure {
            Measure::Union => "union_nanos",
            Measure::Overlap => "overlap_nanos",
            Measure::Intersection => "intersection_nanos",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [_, _, set] = types else {
            return plan_err!(
                "{}() takes a start, an end and the set of the interval",
                self.name()
            );
        };
        let set = if set.is_integer() { DataType::Int64 } else { DataType::Utf8View };
        Ok(vec![DataType::Int64, DataType::Int64, set])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn default_value(&self, _: &DataType) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(0)))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return plan_err!("{}() has no DISTINCT", self.name());
        }
        Ok(match self.measure {
            Measure::Union => Box::new(LengthAccumulator(Coverage::new(false))),
            Measure::Overlap => Box::new(LengthAccumulator(Coverage::new(true))),
            Measure::Intersection => Box::new(IntersectionAccumulator {
                set_type: args.expr_fields[2].data_type().clone(),
                sets: HashMap::new(),
            }),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let list_field = |name: &str, item: DataType| {
            Arc::new(Field::new(
                format!("{}[{name}]", args.name),
                DataType::new_list(item, true),
                true,
            ))
        };
        Ok(match self.measure {
            Measure::Union => vec![list_field("once", DataType::Int64)],
            Measure::Overlap => {
                vec![list_field("once", DataType::Int64), list_field("twice", DataType::Int64)]
            }
            Measure::Intersection => vec![
                list_field("counts", DataType::Int64),
                list_field("sets", args.input_fields[2].data_type().clone()),
                list_field("spans", DataType::Int64),
            ],
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(match self.measure {
            Measure::Union => documented!(
                "Total time that at least one interval covers.",
                "union_nanos(start_nanos, end_nanos)",
                "SELECT device, union_nanos(start_nanos, end_nanos) AS busy_nanos FROM kernels \
                 GROUP BY device"
            ),
            Measure::Overlap => documented!(
                "Total time that at least two intervals cover.",
                "overlap_nanos(start_nanos, end_nanos)",
                "SELECT device, overlap_nanos(start_nanos, end_nanos) FROM kernels GROUP BY device"
            ),
            Measure::Intersection => documented!(
                "Total time that intervals of every set cover; each distinct value of the last \
                 argument is a set.",
                "intersection_nanos(start_nanos, end_nanos, set)",
                "SELECT intersection_nanos(start_nanos, end_nanos, rank) FROM spans \
                 WHERE name = 'forward'"
            ),
        })
    }
}

/// Accumulates the union or overlap of all intervals.
#[derive(Debug)]
struct LengthAccumulator(Coverage);

impl Accumulator for LengthAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for interval in intervals(values).flatten() {
            self.0.add(interval);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let covered_once = states[0].as_list::<i32>();
        for row in 0..covered_once.len() {
            let covered_twice =
                states.get(1).map(|covered_twice| read_intervals(covered_twice.as_list(), row));
            self.0
                .merge(Coverage::from_intervals(read_intervals(covered_once, row), covered_twice));
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let counts_twice = self.0.counts_twice();
        let (covered_once, covered_twice) = self.0.merged_intervals();
        let mut state = vec![list_of_intervals(covered_once)];
        if counts_twice {
            state.push(list_of_intervals(covered_twice));
        }
        Ok(state)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let counts_twice = self.0.counts_twice();
        let (covered_once, covered_twice) = self.0.merged_intervals();
        Ok(total_nanos(if counts_twice { covered_twice } else { covered_once }).into())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.size_bytes()
    }
}

/// Accumulates the intersection over sets.
#[derive(Debug)]
struct IntersectionAccumulator {
    set_type: DataType,
    sets: HashMap<ScalarValue, Coverage>,
}

impl Accumulator for IntersectionAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for (row, interval) in intervals(values).enumerate() {
            let Some(interval) = interval.filter(|_| values[2].is_valid(row)) else { continue };
            let set = ScalarValue::try_from_array(&values[2], row)?;
            self.sets.entry(set).or_insert_with(|| Coverage::new(false)).add(interval);
        }
        Ok(())
    }

    /// A state has three lists: the number of intervals of each set, the sets, and the concatenated
    /// intervals of all sets.
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [counts, sets, all_intervals] = states else {
            return plan_err!("a state must have three lists");
        };
        for row in 0..counts.len() {
            let counts = counts.as_list::<i32>().value(row);
            let sets = sets.as_list::<i32>().value(row);
            let mut all_intervals = read_intervals(all_intervals.as_list(), row).into_iter();
            for (number, &count) in counts.as_primitive::<Int64Type>().values().iter().enumerate() {
                let coverage = Coverage::from_intervals(
                    all_intervals.by_ref().take(count as usize).collect(),
                    None,
                );
                let set = ScalarValue::try_from_array(&sets, number)?;
                self.sets.entry(set).or_insert_with(|| Coverage::new(false)).merge(coverage);
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (mut counts, mut sets, mut all_intervals) = (Vec::new(), Vec::new(), Vec::new());
        for (set, coverage) in &mut self.sets {
            let (intervals, _) = coverage.merged_intervals();
            counts.push(i64::try_from(intervals.len()).unwrap_or(i64::MAX));
            sets.push(set.clone());
            all_intervals.extend_from_slice(intervals);
        }
        Ok(vec![
            list_of_numbers(counts),
            ScalarValue::List(ScalarValue::new_list_nullable(&sets, &self.set_type)),
            list_of_intervals(&all_intervals),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sets = self.sets.values_mut().map(|coverage| coverage.merged_intervals().0);
        let first = sets.next().unwrap_or_default().to_vec();
        let common = sets.fold(first, |common, intervals| intersection(&common, intervals));
        Ok(total_nanos(&common).into())
    }

    fn size(&self) -> usize {
        let sets = self
            .sets
            .iter()
            .map(|(set, coverage)| set.size() + size_of::<Coverage>() + coverage.size_bytes());
        size_of_val(self) + sets.sum::<usize>()
    }
}

/// Returns the interval of each row, or `None` if an end is null.
fn intervals(values: &[ArrayRef]) -> impl Iterator<Item = Option<Interval>> {
    let [starts, ends] = [0, 1].map(|column: usize| values[column].as_primitive::<Int64Type>());
    starts.iter().zip(ends).map(|(start_nanos, end_nanos)| start_nanos.zip(end_nanos))
}

/// A list of alternating starts and ends.
fn list_of_intervals(intervals: &[Interval]) -> ScalarValue {
    list_of_numbers(
        intervals.iter().flat_map(|&(start_nanos, end_nanos)| [start_nanos, end_nanos]).collect(),
    )
}

fn list_of_numbers(numbers: Vec<i64>) -> ScalarValue {
    let numbers = Arc::new(Int64Array::from(numbers));
    SingleRowListArrayBuilder::new(numbers).with_nullable(true).build_list_scalar()
}

fn read_intervals(lists: &ListArray, row: usize) -> Vec<Interval> {
    let numbers = lists.value(row);
    let (pairs, _) = numbers.as_primitive::<Int64Type>().values().as_chunks();
    pairs.iter().map(|&[start_nanos, end_nanos]| (start_nanos, end_nanos)).collect()
}

/// The function `common_nanos`: the intersection of two intervals.
pub(super) fn common_nanos() -> ScalarUDF {
    strict_function(
        "common_nanos",
        vec![DataType::Int64; 4],
        DataType::Int64,
        |columns| Ok(lengths_of_intersections(columns)),
        documented!(
            "Length of the intersection of two intervals; 0 if they are disjoint.",
            "common_nanos(start1_nanos, end1_nanos, start2_nanos, end2_nanos)",
            "SELECT k.name, \
             sum(common_nanos(k.start_nanos, k.end_nanos, s.start_nanos, s.end_nanos)) \
             FROM kernels k CROSS JOIN steps s WHERE s.number = 3 GROUP BY 1"
        ),
    )
}

fn lengths_of_intersections(columns: &[ArrayRef]) -> ArrayRef {
    let pairs = intervals(&columns[..2]).zip(intervals(&columns[2..]));
    let common = pairs.map(|(first, second)| {
        let (first, second) = (first?, second?);
        let (start_nanos, end_nanos) = (first.0.max(second.0), first.1.min(second.1));
        Some(if start_nanos < end_nanos { total_nanos(&[(start_nanos, end_nanos)]) } else { 0 })
    });
    Arc::new(common.collect::<Int64Array>())
}
