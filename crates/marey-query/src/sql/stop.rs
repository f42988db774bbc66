//! Makes plans cancellable. A task can be ended only where it yields, and some operators of
//! `DataFusion` would compute for minutes before they do.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};

use super::answer::Canceller;
use super::operators::replace_operators;

/// Returns the plan, changed so that it stops within a batch or two after it is cancelled.
pub(super) fn make_cancellable(
    plan: Arc<dyn ExecutionPlan>,
    canceller: &Canceller,
) -> Result<Arc<dyn ExecutionPlan>> {
    replace_operators(plan, &|operator| {
        let operator = guard_join(operator, canceller)?;
        Ok(if may_multiply(&*operator) {
            Arc::new(CooperativeExec::new(operator))
        } else {
            operator
        })
    })
}

/// Whether an operator may produce many batches from one input batch without yielding.
fn may_multiply(plan: &dyn ExecutionPlan) -> bool {
    let effect = plan.cardinality_effect();
    let may_grow = matches!(effect, CardinalityEffect::Unknown | CardinalityEffect::GreaterEqual);
    may_grow && !plan.children().is_empty()
}

/// Returns the plan with a join condition that fails once the query is cancelled. As long as no
/// rows match, a join iterates over all pairs of rows in two batches without yielding.
fn guard_join(
    plan: Arc<dyn ExecutionPlan>,
    canceller: &Canceller,
) -> Result<Arc<dyn ExecutionPlan>> {
    let guard = |filter: &JoinFilter| {
        let not_cancelled = Arc::new(NotCancelled(canceller.clone()));
        let condition = Arc::clone(filter.expression());
        JoinFilter::new(
            Arc::new(BinaryExpr::new(not_cancelled, Operator::And, condition)),
            filter.column_indices().to_vec(),
            Arc::clone(filter.schema()),
        )
    };
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let Some(filter) = join.filter().map(guard) else { return Ok(plan) };
        return join.builder().with_filter(Some(filter)).build_exec();
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let Some(filter) = join.filter().map(guard) else { return Ok(plan) };
        let join = NestedLoopJoinExecBuilder::from(join).with_filter(Some(filter)).build()?;
        return Ok(Arc::new(join));
    }
    Ok(plan)
}

/// An expression that is true, or an error once the query is cancelled.
#[derive(Debug)]
struct NotCancelled(Canceller);

impl PhysicalExpr for NotCancelled {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, _: &RecordBatch) -> Result<ColumnarValue> {
        if self.0.is_cancelled() {
            return exec_err!("the query was stopped");
        }
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn is_volatile_node(&self) -> bool {
        true
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for NotCancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true")
    }
}

/// Two expressions are equal if they belong to the same query.
impl PartialEq for NotCancelled {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_same_query(&other.0)
    }
}

impl Eq for NotCancelled {}

impl Hash for NotCancelled {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
