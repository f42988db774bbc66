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
    AggregateUDF::new_from_impl(SaturatingSum { wrapping_sum: sum_udaf() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SaturatingSum {
    /// The `sum` of `DataFusion`, which also computes other types and sums of distinct values.
    wrapping_sum: Arc<AggregateUDF>,
}

/// The result types whose sums saturate.
#[derive(Clone, Copy)]
enum IntegerType {
    Signed,
    Unsigned,
}

fn integer_type(args: &AccumulatorArgs<'_>) -> Option<IntegerType> {
    match args.return_field.data_type() {
        DataType::Int64 if !args.is_distinct => Some(IntegerType::Signed),
        DataType::UInt64 if !args.is_distinct => Some(IntegerType::Unsigned),
        _ => None,
    }
}

impl AggregateUDFImpl for SaturatingSum {
    fn name(&self) -> &str {
        self.wrapping_sum.name()
    }

    fn signature(&self) -> &Signature {
        self.wrapping_sum.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.wrapping_sum.return_type(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(match integer_type(&args) {
            Some(IntegerType::Signed) => Box::new(IntegerSum::<Int64Type>::new()),
            Some(IntegerType::Unsigned) => Box::new(IntegerSum::<UInt64Type>::new()),
            None => self.wrapping_sum.accumulator(args)?,
        })
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match integer_type(&args) {
            Some(_) => self.accumulator(args),
            None => self.wrapping_sum.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.wrapping_sum.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let integer_type = integer_type(&args);
        let wrapping_sum = self.wrapping_sum.create_groups_accumulator(args)?;
        Ok(match integer_type {
            Some(IntegerType::Signed) => Box::new(GroupSums::<Int64Type>::new(wrapping_sum)),
            Some(IntegerType::Unsigned) => Box::new(GroupSums::<UInt64Type>::new(wrapping_sum)),
            None => wrapping_sum,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.wrapping_sum.state_fields(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.wrapping_sum.inner().set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.wrapping_sum.documentation()
    }
}

/// The total of one group, or of the rows of a window. It is exact until it is read.
#[derive(Debug)]
struct IntegerSum<T> {
    total: i128,
    count: usize,
    value_type: PhantomData<fn() -> T>,
}

impl<T> IntegerSum<T>
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

impl<T> Accumulator for IntegerSum<T>
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
        let total = (self.count > 0).then(|| saturate::<T::Native>(self.total));
        ScalarValue::new_primitive::<T>(total, &T::DATA_TYPE)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Returns the total, or the nearest limit of the type if the total exceeds it.
fn saturate<N: ArrowNativeTypeOp + TryFrom<i128>>(total: i128) -> N {
    let limit = if total < 0 { N::MIN_TOTAL_ORDER } else { N::MAX_TOTAL_ORDER };
    N::try_from(total).unwrap_or(limit)
}

/// The totals of many groups. They are `DataFusion`'s sums as long as the values so far exclude an
/// overflow of any of them, and exact sums from then on. The partial totals of two partitions are
/// limited to the type before they are added.
struct GroupSums<T> {
    wrapping_sum: Box<dyn GroupsAccumulator>,
    /// An upper bound of every total. It exceeds `isize::MAX` once any value is negative.
    max_total: usize,
    /// The exact total of each group with values, once `wrapping_sum` no longer has the totals.
    exact_totals: Option<Vec<Option<i128>>>,
    value_type: PhantomData<fn() -> T>,
}

impl<T> GroupSums<T>
where
    T: ArrowPrimitiveType<Native: ArrowNativeTypeOp + Into<i128> + TryFrom<i128>>,
{
    const fn new(wrapping_sum: Box<dyn GroupsAccumulator>) -> Self {
        Self { wrapping_sum, max_total: 0, exact_totals: None, value_type: PhantomData }
    }

    /// Adds these values to the bound. Returns whether no total can leave its type.
    fn cannot_overflow(&mut self, values: &PrimitiveArray<T>) -> bool {
        // The bitwise OR of all values is at least the largest of them, and exceeds `isize::MAX` if
        // one is negative.
        let bits = values.values().iter().fold(0, |bits, value| bits | value.as_usize());
        self.max_total = self.max_total.saturating_add(bits.saturating_mul(values.len()));
        isize::try_from(self.max_total).is_ok()
    }

    /// Returns the exact totals. The first call takes those of `wrapping_sum`.
    fn exact_totals(&mut self) -> Result<&mut Vec<Option<i128>>> {
        if self.exact_totals.is_none() {
            let totals = self.wrapping_sum.evaluate(EmitTo::All)?;
            let totals = totals.as_primitive::<T>().iter();
            self.exact_totals = Some(totals.map(|total| total.map(Into::into)).collect());
        }
        Ok(self.exact_totals.get_or_insert_default())
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
        if self.exact_totals.is_none() && self.cannot_overflow(numbers) {
            return self.wrapping_sum.update_batch(
                values,
                group_indices,
                opt_filter,
                total_num_groups,
            );
        }
        let totals = self.exact_totals()?;
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
        let Some(totals) = &mut self.exact_totals else {
            return self.wrapping_sum.evaluate(emit_to);
        };
        let totals = emit_to.take_needed(totals).into_iter();
        let totals = totals.map(|total| total.map(saturate::<T::Native>));
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
        self.wrapping_sum.convert_to_state(values, opt_filter)
    }

    fn size(&self) -> usize {
        let exact_totals = self.exact_totals.as_ref().map_or(0, Vec::capacity);
        self.wrapping_sum.size() + exact_totals * size_of::<Option<i128>>()
    }
}
