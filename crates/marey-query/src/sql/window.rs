//! Accounts for the memory of window operators, because `DataFusion` does not account for their
//! rows.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use super::distinct_buffers::DistinctBuffers;
use super::operators::{replace_inputs, replace_operators};

/// Most bytes per row that a function over whole partitions computes. `self_nanos` needs the most.
const COMPUTED_BYTES_PER_ROW: usize = 64;

/// Returns the plan with window operators that respect the memory limit.
pub(super) fn limit_memory(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    replace_operators(plan, &|operator| {
        let needs_whole_partitions = operator.downcast_ref::<WindowAggExec>().is_some();
        if !needs_whole_partitions && operator.downcast_ref::<BoundedWindowAggExec>().is_none() {
            return Ok(operator);
        }
        let input = Arc::clone(operator.children()[0]);
        let input = Arc::new(CountedInput { input, needs_whole_partitions });
        replace_inputs(operator, vec![input], ChildrenPropertiesMode::Keep)
    })
}

/// An operator that passes on the rows of its input, and accounts for each of them until the window
/// operator above ends. Nothing tells it which rows were released earlier.
#[derive(Debug)]
struct CountedInput {
    input: Arc<dyn ExecutionPlan>,
    /// Whether the window needs whole partitions. Such a window copies the rows of a partition
    /// together and computes all results at once.
    needs_whole_partitions: bool,
}

impl ExecutionPlan for CountedInput {
    fn name(&self) -> &'static str {
        "CountedMemory"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop().filter(|_| children.is_empty()) else {
            return internal_err!("it has one input");
        };
        Ok(Arc::new(Self { input, needs_whole_partitions: self.needs_whole_partitions }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut memory = WindowMemory {
            needs_whole_partitions: self.needs_whole_partitions,
            buffers: DistinctBuffers::default(),
            reservation: MemoryConsumer::new("window").register(context.memory_pool()),
        };
        let batches = self.input.execute(partition, context)?;
        let counted = batches.map(move |batch| {
            let batch = batch?;
            memory.count(&batch)?;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), counted)))
    }
}

impl DisplayAs for CountedInput {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The rows that a window operator may keep in memory.
struct WindowMemory {
    needs_whole_partitions: bool,
    buffers: DistinctBuffers,
    reservation: MemoryReservation,
}

impl WindowMemory {
    fn count(&mut self, batch: &RecordBatch) -> Result<()> {
        let new_bytes = self.buffers.add(batch);
        self.reservation.try_grow(if self.needs_whole_partitions {
            2 * new_bytes + batch.num_rows() * COMPUTED_BYTES_PER_ROW
        } else {
            new_bytes
        })
    }
}
