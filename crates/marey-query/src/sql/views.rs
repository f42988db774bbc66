//! The views: their SQL lies in `sql/`, their columns are declared in [`marey_model::table::view`].

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::datasource::ViewTable;
use datafusion::execution::SessionState;
use marey_model::table::Table;

/// The SQL of a view, by its name.
pub(super) fn definition(view: &str) -> &'static str {
    match view {
        "spans" => include_str!("../../sql/spans.sql"),
        "flame" => include_str!("../../sql/flame.sql"),
        "top" => include_str!("../../sql/top.sql"),
        "steps" => include_str!("../../sql/steps.sql"),
        "counters" => include_str!("../../sql/counters.sql"),
        "kernels" => include_str!("../../sql/kernels.sql"),
        other => unreachable!("the view `{other}` is declared, but has no SQL"),
    }
}

pub(super) async fn plan(state: &SessionState, view: &Table) -> Result<Arc<dyn TableProvider>> {
    let sql = definition(view.name);
    let plan = state.create_logical_plan(sql).await?;
    Ok(Arc::new(ViewTable::new(plan, Some(sql.to_owned()))))
}
