//! Rules of the optimizer: names are resolved as late as they can be.

mod filter;
mod group;
mod sort;

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::{Expr, expr::ScalarFunction};
use datafusion::optimizer::OptimizerRule;

use super::function::args::ArgsFunction;
use super::function::lookup::LookupFunction;

/// Ours, before `DataFusion`'s: those remove what ours leave over.
pub(super) fn all() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    vec![Arc::new(filter::FilterByIds), Arc::new(group::GroupByIds), Arc::new(sort::SortIds)]
}

/// A call such as `name(x)`: the function and what it looks up.
fn lookup_call(expr: &Expr) -> Option<(&LookupFunction, &Expr)> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            Some((LookupFunction::of(func)?, args.first()?))
        }
        _ => None,
    }
}

/// Whether an expression looks anything up.
fn has_lookup(expr: &Expr) -> bool {
    let is_lookup = |expr: &Expr| {
        let is_args = matches!(expr, Expr::ScalarFunction(call) if ArgsFunction::is(&call.func));
        Ok(is_args || lookup_call(expr).is_some())
    };
    expr.exists(is_lookup).unwrap_or(false)
}
