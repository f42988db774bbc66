//! SQL over a run: [`Database`] plans a query, and [`Answer`] gives its rows.
//!
//! Views with names in place of ids lie in the schema `main`, the tables as they are stored in
//! `raw`, and what all of them mean in `information_schema`. Nothing can be changed, no file
//! outside the run is read, and queries have a limit of memory, beyond which they wait in temporary
//! files or end.

mod answer;
mod bounds;
mod catalogue;
mod engine;
mod error;
mod function;
mod held;
mod information;
mod lookup;
mod memory;
mod names;
mod paths;
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
pub use error::SqlError;
pub use held::Held;
pub use names::{Names, TableName};
pub use shared::names;

use engine::Engine;

/// What queries may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of all queries of a database together.
    pub memory_bytes: usize,
    /// Threads that compute; at least one does.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { memory_bytes: 2 << 30, threads }
    }
}

/// A run, open to SQL.
pub struct Database {
    run: Arc<Run>,
    limits: Limits,
    /// Made when the first query needs it: who asks nothing needs no threads.
    engine: Mutex<Option<Arc<Engine>>>,
}

impl Database {
    /// Of a run. Reads nothing of its tables yet.
    pub fn new(run: Arc<Run>, limits: Limits) -> Self {
        Self { run, limits, engine: Mutex::default() }
    }

    /// The run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The names that a query may use.
    pub fn names(&self) -> Result<Arc<Names>, SqlError> {
        Ok(Arc::clone(&self.engine()?.names))
    }

    /// Plans a query; its rows are computed as the answer is read, at most `max_rows` of them.
    ///
    /// # Panics
    /// If it is called on a thread of an asynchronous runtime, which it would block; so does
    /// reading the answer.
    pub fn query(&self, sql: &str, max_rows: Option<u64>) -> Result<Answer, SqlError> {
        let engine = self.engine()?;
        let canceller = Canceller::new();
        let planning = plan(Arc::clone(&engine), sql.to_owned(), canceller.clone(), max_rows);
        // On a thread of the engine, whose stack is large; a panic ends this query only.
        let planned = engine.spawn(std::panic::AssertUnwindSafe(planning).catch_unwind());
        let (plan, nullable) = match engine.block_on(planned) {
            Ok(Ok(planned)) => planned?,
            Ok(Err(panic)) => return Err(SqlError::panicked(&*panic)),
            Err(join) => return Err(SqlError::Internal { message: join.to_string() }),
        };
        Ok(Answer::new(engine, plan, &nullable, canceller, max_rows))
    }

    /// How many queries at once are answered soonest: of a small run one on each thread, otherwise
    /// one after the other by all of them, with all the memory.
    pub fn queries_at_once(&self) -> usize {
        if engine::is_small(&self.run) { self.limits.threads.max(1) } else { 1 }
    }

    /// Returns the views that several of these queries name and whose rows are worth keeping. They come
    /// in waves: a view names only views of earlier waves.
    pub fn shared_views(&self, queries: &[&str]) -> Result<Vec<Vec<&'static str>>, SqlError> {
        let engine = self.engine()?;
        let mut waves = shared::waves(&self.run, queries);
        for wave in &mut waves {
            wave.retain(|view| !engine.keeps(view));
        }
        Ok(waves)
    }

    /// Keeps the rows of a view, given as the answer to a query of all of them: whatever names the
    /// view afterwards does not compute it again.
    pub fn keep(&self, view: &'static str, rows: Answer) -> Result<(), SqlError> {
        self.engine()?.keep(view, rows)
    }

    fn engine(&self) -> Result<Arc<Engine>, SqlError> {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = &*engine {
            return Ok(Arc::clone(engine));
        }
        let made = Arc::new(Engine::open(&self.run, self.limits)?);
        Ok(Arc::clone(engine.insert(made)))
    }
}

/// The plan, and which of its columns may have nulls in some run: the plan itself says so of this
/// run, without the tables that are empty here.
async fn plan(
    engine: Arc<Engine>,
    sql: String,
    canceller: Canceller,
    max_rows: Option<u64>,
) -> Result<(Arc<dyn ExecutionPlan>, Vec<bool>), SqlError> {
    let explain = engine.explainer();
    let state = engine.session.state();
    let query = statement::parse(&sql)?;
    let mut plan = statement::plan(&state, query, &explain).await?;
    if let Some(max_rows) = max_rows.filter(|_| !is_explained(&plan)) {
        // One more, to see that there are more.
        let rows = usize::try_from(max_rows).unwrap_or(usize::MAX).saturating_add(1);
        plan = LogicalPlanBuilder::from(plan)
            .limit(0, Some(rows))
            .and_then(LogicalPlanBuilder::build)
            .map_err(&explain)?;
    }
    let nullable = plan.schema().fields().iter().map(|field| field.is_nullable()).collect();
    let plan = state.create_physical_plan(&plan).await.map_err(&explain)?;
    let plan = window::accounted(plan).map_err(&explain)?;
    Ok((stop::stoppable(plan, &canceller).map_err(&explain)?, nullable))
}

fn is_explained(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_))
}
