//! Plans the views. Their SQL is in `sql/`, and [`marey_model::table::view`] declares their
//! columns.

use std::sync::Arc;

use datafusion::arrow::array::Array;
use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::ViewTable;
use datafusion::execution::SessionState;
use marey_model::table::{Table, stepping, stored, view};
use marey_store::Run;

use super::table::{empty_plan, sql_schema};

macro_rules! definitions {
    ($($view:literal)+; internal: $($internal:literal)+) => {
        const _: () = assert!(
            [$($view),+].len() == view::ALL.len() + view::PYTHON.len(),
            "`definitions!` must name each view that `view::ALL` or `view::PYTHON` lists, once"
        );

        /// Views behind several views and rules. They are no part of the interface: they may
        /// change, and their columns are those of their SQL.
        pub(super) const INTERNAL_VIEWS: &[&Table] = &[$(
            &Table { name: $internal, doc: "", columns: &[], sorted_by: None },
        )+];

        /// The SQL of a view, by its name.
        pub(super) fn definition(view: &str) -> &'static str {
            match view {
                $($view => include_str!(concat!("../../sql/", $view, ".sql")),)+
                $($internal => include_str!(concat!("../../sql/internal/", $internal, ".sql")),)+
                other => unreachable!("the view `{other}` is declared, but has no SQL"),
            }
        }
    };
}

definitions! {
    "spans" "flame" "top" "steps" "counters" "gpu_activities" "kernels" "collectives"
    "async_spans" "instants" "flows" "samples" "memory_events" "memory_snapshots" "devices"
    "metadata" "step_summary" "gpu_time" "gpu_time_by_step" "kernel_summary" "gpu_copies"
    "operator_kernels" "gpu_annotations" "stragglers" "rank_arrivals" "runtime_calls" "launches"
    "queue_length" "queue_summary" "gpu_gaps" "step_times" "step_memory" "step_kernels"
    "device_idle" "kernel_sequences" "kernel_occupancy" "collective_bandwidth" "kernel_roofline"
    "roofline" "mfu" "critical_path" "autograd_calls" "module_times" "context_modules"
    "traced_operators" "recording_overhead" "module_memory" "torch_trace"
    "backtrace" "variables";
    internal: "collective_arrivals" "kernels_in_steps" "operator_costs"
}

/// Plans a view of a run. `rank_arrivals`, which compares ranks, is planned as empty if there are
/// fewer than two ranks. Planning it otherwise would take longer than all other queries of a small
/// run's report.
pub(super) async fn plan(
    state: &SessionState,
    run: &Run,
    view: &Table,
) -> Result<Arc<dyn TableProvider>> {
    let sql = definition(view.name);
    let plan = if view.name == stepping::RANK_ARRIVALS.name && count_ranked_processes(run)? < 2 {
        empty_plan(&sql_schema(view))?
    } else {
        state.create_logical_plan(sql).await?
    };
    Ok(Arc::new(ViewTable::new(plan, Some(sql.to_owned()))))
}

/// Returns the number of processes of a run that have a rank.
fn count_ranked_processes(run: &Run) -> Result<usize> {
    let processes = run
        .read(&stored::PROCESSES)
        .map_err(|error| DataFusionError::External(Box::new(Arc::new(error))))?;
    Ok(processes.column_by_name("rank").map_or(0, |ranks| ranks.len() - ranks.null_count()))
}
