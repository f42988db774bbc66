//! Replaces operators of a physical plan.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};

/// Returns the plan with `replace` applied to each operator, after its inputs. What takes the place
/// of an operator must have the same schema, order and partitions: the operators above keep what
/// they know of their inputs, because computing it again took a twentieth of the planning time.
pub(super) fn replace_operators(
    plan: Arc<dyn ExecutionPlan>,
    replace: &impl Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let inputs = plan.children().into_iter();
    let new_inputs = inputs
        .map(|input| replace_operators(Arc::clone(input), replace))
        .collect::<Result<Vec<_>>>()?;
    replace(replace_inputs(plan, new_inputs, ChildrenPropertiesMode::Keep)?)
}

/// Returns the operator with other inputs, or itself if they are the same.
pub(super) fn replace_inputs(
    operator: Arc<dyn ExecutionPlan>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: ChildrenPropertiesMode,
) -> Result<Arc<dyn ExecutionPlan>> {
    if operator.children().into_iter().zip(&inputs).all(|(old, new)| Arc::ptr_eq(old, new)) {
        return Ok(operator);
    }
    operator.replace_children(inputs, ReplaceChildrenOptions::new(properties))
}
