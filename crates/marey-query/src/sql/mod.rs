//! SQL over a run: [`Database`] plans a query, and [`Answer`] returns its rows.
//!
//! The schema `main` has views with names in place of ids, `raw` has the tables as stored, and
//! `information_schema` describes them all. Nothing can be modified, and no files outside the run
//! are read. Queries have a memory limit, beyond which they spill to temporary files or fail.

mod answer;
mod bounds;
mod catalogue;
mod distinct_buffers;
mod engine;
mod error;
mod function;
mod information;
mod lookup;
mod memory;
mod names;
mod operators;
mod paths;
mod physical;
mod rule;
mod shared;
mod spill;
mod statement;
mod stop;
mod store;
mod table;
mod views;
mod window;

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt;
use marey_store::Run;

pub use answer::{Answer, AnswerReader, Canceller};
pub use distinct_buffers::DistinctBuffers;
pub use error::SqlError;
pub use names::{SqlNames, TableInfo};
pub use shared::mentions;
pub use statement::reads;

use engine::Engine;

/// The resources that queries may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of all queries of a database together.
    pub memory_bytes: usize,
    /// Number of compute threads, at least one.
    pub threads: usize,
    /// Number of rows of a run below which each query has one thread: it scans them faster than
    /// several threads that exchange rows.
    pub small_run_rows: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { memory_bytes: 2 << 30, threads, small_run_rows: 500_000 }
    }
}

/// A run that can be queried with SQL.
pub struct Database {
    run: Arc<Run>,
    limits: Limits,
    /// The engine, which the first query creates. It starts threads, so it is not created earlier.
    engine: Mutex<Option<Arc<Engine>>>,
}

impl Database {
    /// Opens a run for queries. No table is read yet.
    pub fn new(run: Arc<Run>, limits: Limits) -> Self {
        Self { run, limits, engine: Mutex::default() }
    }

    /// The run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The names that a query may use.
    pub fn names(&self) -> Result<Arc<SqlNames>, SqlError> {
        Ok(Arc::clone(&self.engine()?.names))
    }

    /// Plans a query. Its rows, at most `max_rows`, are computed as the answer is read.
    ///
    /// # Panics
    /// If called on a thread of an asynchronous runtime, which it would block. The same applies to
    /// reading the answer.
    pub fn query(&self, sql: &str, max_rows: Option<u64>) -> Result<Answer, SqlError> {
        let engine = self.engine()?;
        let canceller = Canceller::new();
        let planning = plan(Arc::clone(&engine), sql.to_owned(), canceller.clone(), max_rows);
        // The plan is made on a thread of the engine, which has a large stack. A panic ends only
        // this query.
        let planned = engine.spawn(std::panic::AssertUnwindSafe(planning).catch_unwind());
        let (plan, is_nullable) = match engine.block_on(planned) {
            Ok(Ok(planned)) => planned?,
            Ok(Err(panic)) => return Err(SqlError::panicked(&*panic)),
            Err(join_error) => return Err(SqlError::Internal { message: join_error.to_string() }),
        };
        Ok(Answer::new(engine, plan, &is_nullable, canceller, max_rows))
    }

    /// Returns the number of concurrent queries that is fastest. For a small run it is one per
    /// thread. For any other run it is one, which then uses all threads and all memory.
    pub fn queries_at_once(&self) -> usize {
        if engine::is_small_run(&self.run, self.limits) { self.limits.threads.max(1) } else { 1 }
    }

    /// Returns the views that several of these queries use and whose rows are worth keeping, in
    /// stages. A view uses only views of earlier stages.
    pub fn shared_views(&self, queries: &[&str]) -> Result<Vec<Vec<&'static str>>, SqlError> {
        let engine = self.engine()?;
        let mut stages = shared::view_stages(&self.run, queries);
        for stage in &mut stages {
            stage.retain(|view| !engine.has_kept_view(view));
        }
        Ok(stages)
    }

    /// Keeps the rows of a view, given as the answer to a query for all of them. Later queries read
    /// the kept rows instead of computing the view again.
    pub fn keep_view(&self, view: &'static str, rows: Answer) -> Result<(), SqlError> {
        self.engine()?.keep_view(view, rows)
    }

    fn engine(&self) -> Result<Arc<Engine>, SqlError> {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = &*engine {
            return Ok(Arc::clone(engine));
        }
        let opened = Arc::new(Engine::open(&self.run, self.limits)?);
        Ok(Arc::clone(engine.insert(opened)))
    }
}

/// Returns the physical plan, and for each column whether it may be null in any run. The physical
/// plan itself cannot tell, because it leaves out the tables that are empty in this run.
async fn plan(
    engine: Arc<Engine>,
    sql: String,
    canceller: Canceller,
    max_rows: Option<u64>,
) -> Result<(Arc<dyn ExecutionPlan>, Vec<bool>), SqlError> {
    let translate_error = engine.error_translator();
    let state = engine.session.state();
    let query = statement::parse(&sql)?;
    let mut plan = statement::plan(&state, query, &translate_error).await?;
    if let Some(max_rows) = max_rows.filter(|_| !is_explain(&plan)) {
        // One more row is planned, to detect that rows are cut off.
        let rows = usize::try_from(max_rows).unwrap_or(usize::MAX).saturating_add(1);
        plan = LogicalPlanBuilder::from(plan)
            .limit(0, Some(rows))
            .and_then(LogicalPlanBuilder::build)
            .map_err(&translate_error)?;
    }
    let is_nullable = plan.schema().fields().iter().map(|field| field.is_nullable()).collect();
    let plan = state.create_physical_plan(&plan).await.map_err(&translate_error)?;
    let plan = window::limit_memory(plan).map_err(&translate_error)?;
    Ok((stop::make_cancellable(plan, &canceller).map_err(&translate_error)?, is_nullable))
}

fn is_explain(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_))
}
