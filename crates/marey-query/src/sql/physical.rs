//! The physical optimizer rules for small runs, whose queries have one thread each. Planning takes
//! most of the time of these queries, so rules that pay only with many rows are left out, and those
//! for several threads.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::Distribution;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::aggregate_statistics::AggregateStatistics;
use datafusion::physical_optimizer::ensure_coop::EnsureCooperative;
use datafusion::physical_optimizer::ensure_requirements::enforce_sorting::{
    PlanWithCorrespondingSort, ensure_sorting,
};
use datafusion::physical_optimizer::join_selection::JoinSelection;
use datafusion::physical_optimizer::limit_pushdown::LimitPushdown;
use datafusion::physical_optimizer::output_requirements::OutputRequirements;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::operators::{replace_inputs, replace_operators};

type Plan = Arc<dyn ExecutionPlan>;

/// Returns the rules in the order of `DataFusion`'s own, except that the steps of aggregations are
/// combined first, because the rules that follow then have fewer operators to look at.
pub(super) fn small_run_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    vec![
        Arc::new(OutputRequirements::new_add_mode()),
        Arc::new(AggregateStatistics::new()),
        Arc::new(Rule { name: "combine_aggregations", rewrite: combine_aggregations }),
        Arc::new(JoinSelection::new()),
        Arc::new(Rule { name: "merge_partitions", rewrite: merge_partitions }),
        Arc::new(Rule { name: "ensure_sorting", rewrite: sort_where_needed }),
        Arc::new(OutputRequirements::new_remove_mode()),
        Arc::new(LimitPushdown::new()),
        Arc::new(EnsureCooperative::new()),
        Arc::new(SanityCheckPlan::new()),
    ]
}

#[derive(Debug)]
struct Rule {
    name: &'static str,
    rewrite: fn(Plan) -> Result<Plan>,
}

impl PhysicalOptimizerRule for Rule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        (self.rewrite)(plan)
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Combines the two steps of each aggregation into one: the second step merges the results of
/// several threads.
fn combine_aggregations(plan: Plan) -> Result<Plan> {
    replace_operators(plan, &|operator| match two_steps(&*operator) {
        Some((first, last)) => combine(first, last),
        None => Ok(operator),
    })
}

/// Returns the first and the last step, if the operator is the last step of an aggregation.
fn two_steps(operator: &dyn ExecutionPlan) -> Option<(&AggregateExec, &AggregateExec)> {
    let last = operator.downcast_ref::<AggregateExec>()?;
    let first = last.input().downcast_ref::<AggregateExec>()?;
    let modes = (first.mode(), last.mode());
    matches!(modes, (AggregateMode::Partial, AggregateMode::Final)).then_some((first, last))
}

fn combine(first: &AggregateExec, last: &AggregateExec) -> Result<Plan> {
    let combined = AggregateExec::try_new(
        AggregateMode::Single,
        first.group_expr().clone(),
        first.aggr_expr().to_vec(),
        first.filter_expr().to_vec(),
        Arc::clone(first.input()),
        first.input_schema(),
    )?;
    Ok(Arc::new(combined.with_limit_options(last.limit_options())))
}

/// Merges the partitions of inputs, above an operator that needs them in one or distributed by a
/// key. With one thread, only unions have more than one partition.
fn merge_partitions(plan: Plan) -> Result<Plan> {
    plan.transform_up(|operator| merge_input_partitions(operator).map(Transformed::yes)).data()
}

fn merge_input_partitions(operator: Plan) -> Result<Plan> {
    let requirements = operator.input_distribution_requirements().into_per_child();
    let inputs = operator.children().into_iter().zip(requirements);
    let merged = inputs.map(|(input, requirement)| -> Plan {
        let is_satisfied = matches!(requirement, Distribution::UnspecifiedDistribution)
            || input.output_partitioning().partition_count() == 1;
        if is_satisfied {
            Arc::clone(input)
        } else {
            Arc::new(CoalescePartitionsExec::new(Arc::clone(input)))
        }
    });
    let merged = merged.collect();
    replace_inputs(operator, merged, ChildrenPropertiesMode::Recompute)
}

/// Adds the sorts that operators need, and removes those that the rows do not need.
fn sort_where_needed(plan: Plan) -> Result<Plan> {
    let plan = PlanWithCorrespondingSort::new_default(plan);
    plan.transform_up(ensure_sorting).data().map(|sorted| sorted.plan)
}
