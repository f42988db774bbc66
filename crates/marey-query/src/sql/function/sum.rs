//! `sum` of whole numbers that ends at the limits of 64 bits, where `DataFusion`'s wraps: a total
//! beyond them must not look like a small or negative one.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use datafusion::arrow::datatypes::{
    ArrowNativeTypeOp, ArrowPrimitiveType, DataType, FieldRef, Int64Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator,
    ReversedUDAF, SetMonotonicity, Signature,
};
use datafusion::physical_expr::NullState;

pub(super) fn aggregate() -> AggregateUDF {
    AggregateUDF::new_from_impl(Sum { wrapping: sum_udaf() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sum {
    /// `DataFusion`'s, for other types and for distinct values.
    wrapping: Arc<AggregateUDF>,
}

/// The types whose sums end at their limits.
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

/// The total of one group or of the rows of a window, exact until it is read.
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
        let limit =
            if self.total < 0 { T::Native::MIN_TOTAL_ORDER } else { T::Native::MAX_TOTAL_ORDER };
        let total = T::Native::try_from(self.total).unwrap_or(limit);
        ScalarValue::new_primitive::<T>((self.count > 0).then_some(total), &T::DATA_TYPE)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The totals of many groups.
struct GroupSums<T: ArrowPrimitiveType> {
    totals: Vec<T::Native>,
    null_state: NullState,
    /// Makes states of single values, which need no addition.
    wrapping: Box<dyn GroupsAccumulator>,
}

impl<T: ArrowPrimitiveType> GroupSums<T> {
    fn new(wrapping: Box<dyn GroupsAccumulator>) -> Self {
        Self { totals: Vec::new(), null_state: NullState::new(), wrapping }
    }
}

/// Adds a value to a total, up to the limits of its type.
fn add<N: ArrowNativeTypeOp>(total: &mut N, value: N) {
    let limit = if value.is_lt(N::ZERO) { N::MIN_TOTAL_ORDER } else { N::MAX_TOTAL_ORDER };
    let sum = total.add_wrapping(value);
    // Away from the direction of the value means over the limit.
    let has_wrapped = if value.is_lt(N::ZERO) { sum.is_gt(*total) } else { sum.is_lt(*total) };
    *total = if has_wrapped { limit } else { sum };
}

impl<T> GroupsAccumulator for GroupSums<T>
where
    T: ArrowPrimitiveType<Native: ArrowNativeTypeOp> + Send,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let values = values[0].as_primitive::<T>();
        self.totals.resize(total_num_groups, T::Native::ZERO);
        let Self { totals, null_state, .. } = self;
        null_state.accumulate(
            group_indices,
            values,
            opt_filter,
            total_num_groups,
            |group, value| {
                if let Some(total) = totals.get_mut(group) {
                    add(total, value);
                }
            },
        );
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
        let totals = emit_to.take_needed(&mut self.totals);
        let nulls = self.null_state.build(emit_to);
        Ok(Arc::new(PrimitiveArray::<T>::new(totals.into(), nulls)))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.wrapping.convert_to_state(values, opt_filter)
    }

    fn size(&self) -> usize {
        self.totals.capacity() * size_of::<T::Native>() + self.null_state.size()
    }
}
