//! Optimizer rules that delay lookups of names as far as possible, so that queries filter, group
//! and sort by integer ids instead of texts.

mod filter;
mod group;
mod sort;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan, expr::ScalarFunction};
use datafusion::optimizer::eliminate_filter::EliminateFilter;
use datafusion::optimizer::propagate_empty_relation::PropagateEmptyRelation;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

use super::function::args::ArgsFunction;
use super::function::lookup::LookupFunction;

/// Returns the optimizer rules: those of marey, then those of `DataFusion`, which remove redundant
/// columns and projections. Filters that `DataFusion` moves below projections are looked at again;
/// one by a name that no row has makes its part of the plan empty.
pub(super) fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let filter_by_ids: Arc<dyn OptimizerRule + Send + Sync> =
        Arc::new(Rule { name: "filter_by_ids", rewrite: filter::filter_by_ids });
    let mut rules = vec![
        Arc::clone(&filter_by_ids),
        Arc::new(Rule { name: "group_by_ids", rewrite: group::group_by_ids }),
        Arc::new(Rule { name: "sort_ids", rewrite: sort::sort_below_lookups }),
    ];
    for rule in Optimizer::new().rules {
        let moves_filters = rule.name() == PushDownFilter::new().name();
        rules.push(rule);
        if moves_filters {
            rules.push(Arc::clone(&filter_by_ids));
            rules.push(Arc::new(EliminateFilter::new()));
            rules.push(Arc::new(PropagateEmptyRelation::new()));
        }
    }
    rules
}

#[derive(Debug)]
struct Rule {
    name: &'static str,
    /// Returns the new plan, or `None` if the rule does not change this one.
    rewrite: fn(&LogicalPlan) -> Result<Option<LogicalPlan>>,
}

impl OptimizerRule for Rule {
    fn name(&self) -> &str {
        self.name
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let rewritten = (self.rewrite)(&plan)?;
        Ok(rewritten.map_or_else(|| Transformed::no(plan), Transformed::yes))
    }
}

/// Returns the function and its argument, if the expression is a lookup call such as `name(x)`.
fn lookup_call(expr: &Expr) -> Option<(&LookupFunction, &Expr)> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            Some((LookupFunction::from_udf(func)?, args.first()?))
        }
        _ => None,
    }
}

/// Whether an expression contains a lookup.
fn has_lookup(expr: &Expr) -> bool {
    let is_lookup = |expr: &Expr| {
        let is_args =
            matches!(expr, Expr::ScalarFunction(call) if ArgsFunction::is_args(&call.func));
        Ok(is_args || lookup_call(expr).is_some())
    };
    expr.exists(is_lookup).unwrap_or(false)
}
