//! Optimizer rule that rewrites filters such as `name(x) LIKE '%attn%'` into `x IN (4, 17)`. The
//! condition is then evaluated once per distinct id instead of once per row, and Parquet statistics
//! on ids can exclude files and pages.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, AsArray, BooleanArray, BooleanBuilder, RecordBatch, UInt32Array,
};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, Schema, UInt32Type};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Filter, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, lit,
};
use datafusion::physical_expr::create_physical_expr;

use super::lookup_call;

/// Most ids that the filter lists, so that it can be compared with file statistics. More ids are
/// looked up in a bitmap.
const MAX_LISTED: usize = 20;

/// Number of ids for which a condition is evaluated at once.
const IDS_PER_BATCH: usize = 8192;

pub(super) fn filter_by_ids(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = plan else { return Ok(None) };
    let mut is_changed = false;
    let conditions = split_conjunction(&filter.predicate).into_iter().map(|condition| {
        let rewritten = rewrite_to_ids(condition, filter.input.schema());
        is_changed |= rewritten.is_some();
        rewritten.unwrap_or_else(|| condition.clone())
    });
    match conjunction(conditions.collect::<Vec<_>>()) {
        Some(predicate) if is_changed => {
            let filter = Filter::try_new(predicate, Arc::clone(&filter.input))?;
            Ok(Some(LogicalPlan::Filter(filter)))
        }
        _ => Ok(None),
    }
}

/// Returns the equivalent condition on ids, if the condition depends on nothing but the value of
/// one id. A condition that fails for some id is not rewritten.
fn rewrite_to_ids(condition: &Expr, schema: &DFSchema) -> Option<Expr> {
    let (id, count) = looked_up_id(condition)?;
    let field = schema.field_from_column(id).ok()?;
    if *field.data_type() != DataType::UInt32 {
        return None;
    }
    let is_true_for_id = evaluate(condition, id, count).ok()?;
    let (ids, null_row) = (is_true_for_id.slice(0, count), count);
    if is_true_for_id.is_valid(null_row) && is_true_for_id.value(null_row) {
        return None; // the condition is true for a null id, but IN never is
    }
    Some(ids_condition(id, &ids))
}

/// Returns the only column whose ids the condition looks up, and the number of ids.
fn looked_up_id(condition: &Expr) -> Option<(&Column, usize)> {
    if condition.is_volatile() {
        return None;
    }
    let mut id = None;
    let mut count = 0;
    let mut depends_on_one_id = true;
    condition
        .apply(|expr| {
            if let Some((function, Expr::Column(column))) = lookup_call(expr) {
                depends_on_one_id &= id.is_none_or(|id| id == column);
                id = Some(column);
                count = count.max(function.count()?);
                return Ok(TreeNodeRecursion::Jump);
            }
            depends_on_one_id &= !matches!(
                expr,
                Expr::Column(_)
                    | Expr::OuterReferenceColumn(..)
                    | Expr::Placeholder(_)
                    | Expr::ScalarSubquery(_)
                    | Expr::Exists(_)
                    | Expr::InSubquery(_)
                    | Expr::SetComparison(_)
            );
            Ok(if depends_on_one_id {
                TreeNodeRecursion::Continue
            } else {
                TreeNodeRecursion::Stop
            })
        })
        .ok()?;
    id.filter(|_| depends_on_one_id).map(|id| (id, count))
}

/// Returns the value of the condition for every id, with that for a null id at the end.
fn evaluate(condition: &Expr, id: &Column, count: usize) -> Result<BooleanArray> {
    let schema = Arc::new(Schema::new(vec![Field::new(&id.name, DataType::UInt32, true)]));
    let qualified =
        DFSchema::from_field_specific_qualified_schema(vec![id.relation.clone()], &schema)?;
    let condition = create_physical_expr(
        condition,
        &qualified,
        &ExecutionProps::new(),
        &PhysicalPlanningContext::default(),
    )?;
    // The ids are evaluated in batches, because the values of a batch, such as paths, are built at
    // once.
    let mut is_true_for_id = BooleanBuilder::with_capacity(count + 1);
    for first in (0..=count).step_by(IDS_PER_BATCH) {
        let ids = (first..=count).take(IDS_PER_BATCH);
        let ids: UInt32Array = ids.map(|id| (id < count).then_some(id as u32)).collect();
        let rows = ids.len();
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(ids)])?;
        is_true_for_id.append_array(condition.evaluate(&batch)?.into_array(rows)?.as_boolean());
    }
    Ok(is_true_for_id.finish())
}

fn ids_condition(id: &Column, is_true_for_id: &BooleanArray) -> Expr {
    let ids: Vec<u32> = (0..)
        .zip(is_true_for_id)
        .filter(|(_, answer)| *answer == Some(true))
        .map(|(id, _)| id)
        .collect();
    let column = || Expr::Column(id.clone());
    match ids[..] {
        [] => lit(false),
        [only] => column().eq(lit(only)),
        [.., _] if ids.len() <= MAX_LISTED => {
            column().in_list(ids.into_iter().map(lit).collect(), false)
        }
        [first, .., last] => {
            let is_among = ScalarUDF::new_from_impl(IsAmong::new(is_true_for_id.clone()));
            column().between(lit(first), lit(last)).and(is_among.call(vec![column()]))
        }
    }
}

/// The function that tests whether an id is in a set, stored as a bitmap.
#[derive(Debug)]
struct IsAmong {
    is_true_for_id: Arc<BooleanArray>,
    signature: Signature,
}

impl IsAmong {
    fn new(is_true_for_id: BooleanArray) -> Self {
        let signature = Signature::exact(vec![DataType::UInt32], Volatility::Immutable);
        Self { is_true_for_id: Arc::new(is_true_for_id), signature }
    }
}

/// Two functions are equal if they were created for the same condition of the same plan.
impl PartialEq for IsAmong {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.is_true_for_id, &other.is_true_for_id)
    }
}

impl Eq for IsAmong {}

impl std::hash::Hash for IsAmong {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.is_true_for_id).hash(state);
    }
}

impl ScalarUDFImpl for IsAmong {
    fn name(&self) -> &'static str {
        "is_among"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ids = ColumnarValue::values_to_arrays(&args.args)?.swap_remove(0);
        let len = self.is_true_for_id.len();
        let ids = ids.as_primitive::<UInt32Type>();
        let known_ids: UInt32Array =
            ids.iter().map(|id| id.filter(|&id| (id as usize) < len)).collect();
        Ok(ColumnarValue::Array(take(&*self.is_true_for_id, &known_ids, None)?))
    }
}
