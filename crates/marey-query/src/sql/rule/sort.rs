//! Optimizer rule that moves sorts and limits below the projections that look up names, so that
//! names are looked up only for the rows of the result.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Sort, SubqueryAlias, expr};

use super::has_lookup;

pub(super) fn sort_below_lookups(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::Sort(sort) => push_sort_down(&sort.input, &sort.expr, sort.fetch),
        _ => Ok(None),
    }
}

/// Returns the plan with the sort below its innermost projection with lookups. `None` if there is
/// no such projection, or if the sort depends on a looked-up value.
fn push_sort_down(
    plan: &LogicalPlan,
    sort_keys: &[expr::Sort],
    fetch: Option<usize>,
) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let Some(inner) = replace_columns(sort_keys, &projection.schema, &projection.expr)?
            else {
                return Ok(None);
            };
            let input = match push_sort_down(&projection.input, &inner, fetch)? {
                Some(input) => input,
                None if projection.expr.iter().any(has_lookup) => LogicalPlan::Sort(Sort {
                    expr: inner,
                    input: Arc::clone(&projection.input),
                    fetch,
                }),
                None => return Ok(None),
            };
            let projection = Projection::try_new(projection.expr.clone(), Arc::new(input))?;
            Ok(Some(LogicalPlan::Projection(projection)))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let columns: Vec<Expr> =
                alias.input.schema().columns().into_iter().map(Expr::Column).collect();
            let Some(inner) = replace_columns(sort_keys, &alias.schema, &columns)? else {
                return Ok(None);
            };
            let Some(input) = push_sort_down(&alias.input, &inner, fetch)? else { return Ok(None) };
            let alias = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
            Ok(Some(LogicalPlan::SubqueryAlias(alias)))
        }
        _ => Ok(None),
    }
}

/// Returns the sort keys in terms of the expressions behind the columns. `None` if these contain
/// lookups or are volatile.
fn replace_columns(
    sort_keys: &[expr::Sort],
    schema: &DFSchema,
    exprs: &[Expr],
) -> Result<Option<Vec<expr::Sort>>> {
    let source = |column: &Column| {
        let index = schema.maybe_index_of_column(column)?;
        Some(exprs[index].clone().unalias_nested().data)
    };
    let mut sorts = Vec::new();
    for sort in sort_keys {
        let inner = sort.expr.clone().transform(|expr| match &expr {
            Expr::Column(column) => {
                Ok(source(column).map_or_else(|| Transformed::no(expr.clone()), Transformed::yes))
            }
            _ => Ok(Transformed::no(expr)),
        })?;
        if has_lookup(&inner.data) || inner.data.is_volatile() {
            return Ok(None);
        }
        sorts.push(sort.with_expr(inner.data));
    }
    Ok(Some(sorts))
}
