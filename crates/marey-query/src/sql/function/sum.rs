//! The SQL aggregate `sum` for whole numbers. It saturates at the limits of 64 bits, where the
//! `sum` of `DataFusion` wraps around, so that a huge total does not look like a small or negative
//! one.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use datafusion::arrow::datatypes::{
    ArrowNativeType, ArrowNativeTypeOp, ArrowPrimitiveType, DataType, FieldRef, Int64Type,
    UInt64Type,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator,
    ReversedUDAF, SetMonotonicity, Signature,
};

pub(super) fn aggregate() -> AggregateUDF {
    AggregateUDF::new_from_impl(Sum { wrapping: sum_udaf() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sum {
    /// The `sum` of `DataFusion`, which also computes other types and sums of distinct values.
    wrapping: Arc<AggregateUDF>,
}

/// The result types whose sums saturate.
#[derive(Clone, Copy)]
enum Whole {
    Signed,
    Unsigned,
}

fn whole_type(args: &AccumulatorArgs<'_>) -> Option<Whole> {
    match args.return_field.data_type() {
        DataType::Int64 if !args.is_distinct => Some(Whole::Signed),
        DataType::UInt64 if !args.is_distinct => Some(Whole::Unsigned),
        _ => None,
    }
}

impl AggregateUDFImpl for Sum {
    fn name(&self) -> &str {
        self.wrapping.name()
    }

    fn signature(&self) -> &Signature {
        self.wrapping.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.wrapping.return_type(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(match whole_type(&args) {
            Some(Whole::Signed) => Box::new(WholeSum::<Int64Type>::new()),
            Some(Whole::Unsigned) => Box::new(WholeSum::<UInt64Type>::new()),
            None => self.wrapping.accumulator(args)?,
        })
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match whole_type(&args) {
            Some(_) => self.accumulator(args),
            None => self.wrapping.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.wrapping.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let whole_type = whole_type(&args);
        let wrapping = self.wrapping.create_groups_accumulator(args)?;
        Ok(match whole_type {
            Some(Whole::Signed) => Box::new(GroupSums::<Int64Type>::new(wrapping)),
            Some(Whole::Unsigned) => Box::new(GroupSums::<UInt64Type>::new(wrapping)),
            None => wrapping,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.wrapping.state_fields(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.wrapping.inner().set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.wrapping.documentation()
    }
}

/// The total of one group, or of the rows of a window. It is exact until it is read.
#[derive(Debug)]
struct WholeSum<T> {
    total: i128,
    count: usize,
    value_type: PhantomData<fn() -> T>,
}

impl<T> WholeSum<T>
where
    T: ArrowPrimitiveType<Native: Into<i128>>,
{
    const fn new() -> Self {
        Self { total: 0, count: 0, value_type: PhantomData }
    }

    /// Returns the total of an array and the number of its values.
    fn total(values: &[ArrayRef]) -> (i128, usize) {
        let values = values[0].as_primitive::<T>();
        let count = values.len() - values.null_count();
        let total = if values.null_count() == 0 {
            values.values().iter().map(|&value| value.into()).sum()
        } else {
            values.iter().flatten().map(Into::into).sum()
        };
        (total, count)
    }
}

impl<T> Accumulator for WholeSum<T>
where
    T: ArrowPrimitiveType<Native: ArrowNativeTypeOp + Into<i128> + TryFrom<i128>> + Debug,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (total, count) = Self::total(values);
        (self.total, self.count) = (self.total.saturating_add(total), self.count + count);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (total, count) = Self::total(values);
        (self.total, self.count) = (self.total - total, self.count.saturating_sub(count));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let total = (self.count > 0).then(|| nearest::<T::Native>(self.total));
        ScalarValue::new_primitive::<T>(total, &T::DATA_TYPE)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Returns the total, or the nearest limit of the type if the total exceeds it.
fn nearest<N: ArrowNativeTypeOp + TryFrom<i128>>(total: i128) -> N {
    let limit = if total < 0 { N::MIN_TOTAL_ORDER } else { N::MAX_TOTAL_ORDER };
    N::try_from(total).unwrap_or(limit)
}

/// The totals of many groups. They are `DataFusion`'s sums as long as the values so far exclude an
/// overflow of any of them, and exact sums from then on. The partial totals of two partitions are
/// limited to the type before they are added.
struct GroupSums<T> {
    wrapping: Box<dyn GroupsAccumulator>,
    /// An upper bound of every total. It exceeds `isize::MAX` once any value is negative.
    max_total: usize,
    /// The exact total of each group with values, once `wrapping` no longer has the totals.
    exact: Option<Vec<Option<i128>>>,
    value_type: PhantomData<fn() -> T>,
}

impl<T> GroupSums<T>
where
    T: ArrowPrimitiveType<Native: ArrowNativeTypeOp + Into<i128> + TryFrom<i128>>,
{
    const fn new(wrapping: Box<dyn GroupsAccumulator>) -> Self {
        Self { wrapping, max_total: 0, exact: None, value_type: PhantomData }
    }

    /// Adds these values to the bound. Returns whether no total can leave its type.
    fn stays_within(&mut self, values: &PrimitiveArray<T>) -> bool {
        // The bitwise OR of all values is at least the largest of them, and exceeds `isize::MAX` if
        // one is negative.
        let bits = values.values().iter().fold(0, |bits, value| bits | value.as_usize());
        self.max_total = self.max_total.saturating_add(bits.saturating_mul(values.len()));
        isize::try_from(self.max_total).is_ok()
    }

    /// Returns the exact totals. The first call takes those of `wrapping`.
    fn exact(&mut self) -> Result<&mut Vec<Option<i128>>> {
        if self.exact.is_none() {
            let totals = self.wrapping.evaluate(EmitTo::All)?;
            let totals = totals.as_primitive::<T>().iter();
            self.exact = Some(totals.map(|total| total.map(Into::into)).collect());
        }
        Ok(self.exact.get_or_insert_default())
    }
}

impl<T> GroupsAccumulator for GroupSums<T>
where
    T: ArrowPrimitiveType<Native: ArrowNativeTypeOp + Into<i128> + TryFrom<i128>>,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let numbers = values[0].as_primitive::<T>();
        if self.exact.is_none() && self.stays_within(numbers) {
            return self.wrapping.update_batch(values, group_indices, opt_filter, total_num_groups);
        }
        let totals = self.exact()?;
        totals.resize(total_num_groups, None);
        for (row, (value, &group)) in numbers.iter().zip(group_indices).enumerate() {
            let is_counted =
                opt_filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if let (true, Some(value), Some(total)) = (is_counted, value, totals.get_mut(group)) {
                *total = Some(total.unwrap_or(0).saturating_add(value.into()));
            }
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.update_batch(values, group_indices, None, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let Some(totals) = &mut self.exact else {
            return self.wrapping.evaluate(emit_to);
        };
        let totals = emit_to.take_needed(totals).into_iter();
        let totals = totals.map(|total| total.map(nearest::<T::Native>));
        Ok(Arc::new(totals.collect::<PrimitiveArray<T>>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        // A state of a single value needs no addition, so it cannot overflow.
        self.wrapping.convert_to_state(values, opt_filter)
    }

    fn size(&self) -> usize {
        let exact = self.exact.as_ref().map_or(0, Vec::capacity);
        self.wrapping.size() + exact * size_of::<Option<i128>>()
    }
}
