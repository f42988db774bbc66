//! The views: their SQL is in `sql/`, and [`marey_model::table::view`] declares their columns.

use std::sync::Arc;

use datafusion::arrow::array::Array;
use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::ViewTable;
use datafusion::execution::SessionState;
use marey_model::table::{Table, stepping, stored};
use marey_store::Run;

use super::table::{empty_plan, sql_schema};

/// The SQL of a view, by its name.
pub(super) fn definition(view: &str) -> &'static str {
    match view {
        "spans" => include_str!("../../sql/spans.sql"),
        "flame" => include_str!("../../sql/flame.sql"),
        "top" => include_str!("../../sql/top.sql"),
        "steps" => include_str!("../../sql/steps.sql"),
        "counters" => include_str!("../../sql/counters.sql"),
        "gpu_activities" => include_str!("../../sql/gpu_activities.sql"),
        "kernels" => include_str!("../../sql/kernels.sql"),
        "collectives" => include_str!("../../sql/collectives.sql"),
        "async_spans" => include_str!("../../sql/async_spans.sql"),
        "instants" => include_str!("../../sql/instants.sql"),
        "flows" => include_str!("../../sql/flows.sql"),
        "samples" => include_str!("../../sql/samples.sql"),
        "memory_events" => include_str!("../../sql/memory_events.sql"),
        "memory_snapshots" => include_str!("../../sql/memory_snapshots.sql"),
        "devices" => include_str!("../../sql/devices.sql"),
        "metadata" => include_str!("../../sql/metadata.sql"),
        "step_summary" => include_str!("../../sql/step_summary.sql"),
        "gpu_time" => include_str!("../../sql/gpu_time.sql"),
        "gpu_time_by_step" => include_str!("../../sql/gpu_time_by_step.sql"),
        "kernel_summary" => include_str!("../../sql/kernel_summary.sql"),
        "gpu_copies" => include_str!("../../sql/gpu_copies.sql"),
        "operator_kernels" => include_str!("../../sql/operator_kernels.sql"),
        "gpu_annotations" => include_str!("../../sql/gpu_annotations.sql"),
        "stragglers" => include_str!("../../sql/stragglers.sql"),
        "rank_arrivals" => include_str!("../../sql/rank_arrivals.sql"),
        "launches" => include_str!("../../sql/launches.sql"),
        "queue_length" => include_str!("../../sql/queue_length.sql"),
        "queue_summary" => include_str!("../../sql/queue_summary.sql"),
        "gpu_gaps" => include_str!("../../sql/gpu_gaps.sql"),
        "step_times" => include_str!("../../sql/step_times.sql"),
        "step_memory" => include_str!("../../sql/step_memory.sql"),
        "step_kernels" => include_str!("../../sql/step_kernels.sql"),
        "device_idle" => include_str!("../../sql/device_idle.sql"),
        "kernel_sequences" => include_str!("../../sql/kernel_sequences.sql"),
        "kernel_occupancy" => include_str!("../../sql/kernel_occupancy.sql"),
        "collective_bandwidth" => include_str!("../../sql/collective_bandwidth.sql"),
        "kernel_roofline" => include_str!("../../sql/kernel_roofline.sql"),
        "roofline" => include_str!("../../sql/roofline.sql"),
        "mfu" => include_str!("../../sql/mfu.sql"),
        "critical_path" => include_str!("../../sql/critical_path.sql"),
        "autograd_calls" => include_str!("../../sql/autograd_calls.sql"),
        "module_times" => include_str!("../../sql/module_times.sql"),
        other => unreachable!("the view `{other}` is declared, but has no SQL"),
    }
}

/// Plans a view of a run. The view that compares ranks has no rows for fewer than two ranks, where
/// planning it would take longer than all other queries of a small run's report.
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

/// Returns how many processes of a run have a rank.
fn count_ranked_processes(run: &Run) -> Result<usize> {
    let processes = run
        .read(&stored::PROCESSES)
        .map_err(|error| DataFusionError::External(Box::new(Arc::new(error))))?;
    Ok(processes.column_by_name("rank").map_or(0, |ranks| ranks.len() - ranks.null_count()))
}
