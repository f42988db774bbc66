//! The engine that all queries of a database share: `DataFusion`'s session with marey's functions
//! and optimizer rules, the compute threads, and the memory limit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::{MemTable, TableProvider, ViewTable};
use datafusion::execution::context::SessionContext;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryReservation};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SessionState, SessionStateBuilder, SessionStateDefaults, TaskContext};
use datafusion::prelude::SessionConfig;
use marey_model::table::stored;
use marey_store::{Part, Run};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::answer::Answer;
use super::catalogue::{self, CATALOGUE, MAIN_SCHEMA};
use super::distinct_buffers::DistinctBuffers;
use super::lookup::Lookups;
use super::memory::QueryMemory;
use super::names::SqlNames;
use super::spill::SpillFiles;
use super::store::RunStore;
use super::table::empty_plan;
use super::{Limits, SqlError, function, physical, rule};

/// Stack size of the threads. Plans are walked recursively, and the longest permitted query must
/// fit.
pub(super) const STACK_BYTES: usize = 64 << 20;

pub(super) struct Engine {
    pub(super) session: SessionContext,
    pub(super) limits: Limits,
    pub(super) names: Arc<SqlNames>,
    /// The views whose rows are kept in memory, each with the reservation of that memory.
    kept_views: Mutex<HashMap<&'static str, MemoryReservation>>,
    /// `Some` until the engine is dropped.
    runtime: Option<Runtime>,
}

impl Engine {
    pub(super) fn open(run: &Arc<Run>, limits: Limits) -> std::result::Result<Self, SqlError> {
        let limits = Limits { threads: limits.threads.max(1), ..limits };
        let translate_error = |error| SqlError::from_engine(&error, limits.memory_bytes, &[]);
        let runtime = Builder::new_multi_thread()
            .worker_threads(limits.threads)
            .max_blocking_threads(limits.threads)
            .thread_name("marey-sql")
            .thread_stack_size(STACK_BYTES)
            .enable_time()
            .build()
            .map_err(|error| SqlError::Internal { message: format!("no threads: {error}") })?;
        let session = create_session(run, limits).map_err(translate_error)?;
        let state = session.state();
        let names = Arc::new(SqlNames::new(function_names(&state)));
        Ok(Self { session, limits, names, kept_views: Mutex::default(), runtime: Some(runtime) })
    }

    /// Whether the rows of a view are kept.
    pub(super) fn has_kept_view(&self, view: &str) -> bool {
        self.kept_views().contains_key(view)
    }

    /// Keeps the rows of a view in memory. Later queries read them instead of computing the view
    /// again.
    pub(super) fn keep_view(
        &self,
        view: &'static str,
        rows: Answer,
    ) -> std::result::Result<(), SqlError> {
        let translate_error = self.error_translator();
        let schema = rows.schema();
        let pool = &self.session.runtime_env().memory_pool;
        let reservation = MemoryConsumer::new(view).register(pool);
        let (mut buffers, mut batches) = (DistinctBuffers::default(), Vec::new());
        for batch in rows {
            let batch = batch?;
            reservation.try_grow(buffers.add(&batch)).map_err(&translate_error)?;
            batches.push(batch);
        }
        let table: Arc<dyn TableProvider> = if batches.is_empty() {
            Arc::new(ViewTable::new(empty_plan(&schema).map_err(&translate_error)?, None))
        } else {
            Arc::new(MemTable::try_new(schema, vec![batches]).map_err(&translate_error)?)
        };
        self.session.register_table(view, table).map_err(&translate_error)?;
        self.kept_views().insert(view, reservation);
        Ok(())
    }

    fn kept_views(&self) -> MutexGuard<'_, HashMap<&'static str, MemoryReservation>> {
        self.kept_views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime().block_on(future)
    }

    pub(super) fn spawn<F>(&self, future: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.runtime().spawn(future)
    }

    /// The context that a query runs in, and a receiver that resolves once its memory is released.
    pub(super) fn task_context(&self) -> (Arc<TaskContext>, oneshot::Receiver<()>) {
        let shared_environment = self.session.runtime_env();
        let (memory, memory_released) =
            QueryMemory::new(Arc::clone(&shared_environment.memory_pool));
        let query_environment =
            RuntimeEnv { memory_pool: Arc::new(memory), ..RuntimeEnv::clone(&shared_environment) };
        let context = TaskContext::from(&self.session).with_runtime(Arc::new(query_environment));
        (Arc::new(context), memory_released)
    }

    /// A function that translates the engine's errors.
    pub(super) fn error_translator(
        &self,
    ) -> impl Fn(DataFusionError) -> SqlError + Send + Sync + Clone + use<> {
        let (limit_bytes, names) = (self.limits.memory_bytes, Arc::clone(&self.names));
        move |error| SqlError::from_engine(&error, limit_bytes, &names.functions)
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("taken only when dropped")
    }
}

impl Drop for Engine {
    /// Does not wait for queries that are still running.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn create_session(run: &Arc<Run>, limits: Limits) -> Result<SessionContext> {
    let is_small = is_small_run(run, limits);
    // The session has all functions of SQL, but no file formats: those are 3 MB of code, and a
    // query reads only the run.
    let mut builder = SessionStateBuilder::new()
        .with_expr_planners(SessionStateDefaults::default_expr_planners())
        .with_scalar_functions(SessionStateDefaults::default_scalar_functions())
        .with_higher_order_functions(SessionStateDefaults::default_higher_order_functions())
        .with_aggregate_functions(SessionStateDefaults::default_aggregate_functions())
        .with_window_functions(SessionStateDefaults::default_window_functions())
        .with_table_function_list(SessionStateDefaults::default_table_functions())
        .with_optimizer_rules(rule::optimizer_rules())
        .with_config(session_config(is_small, limits))
        .with_runtime_env(runtime_environment(run, limits)?);
    if is_small {
        builder = builder.with_physical_optimizer_rules(physical::small_run_rules());
    }
    let session = SessionContext::new_with_state(builder.build());
    let pool = Arc::clone(&session.runtime_env().memory_pool);
    function::register(&session, &Arc::new(Lookups::new(Arc::clone(run), pool)));
    // The session owns the catalogue, so a strong reference back would be a cycle.
    let state = session.state_weak_ref();
    let state: catalogue::SessionAccess = Arc::new(move || Some(state.upgrade()?.read().clone()));
    session.register_catalog(CATALOGUE, Arc::new(catalogue::create_catalogue(run, &state)?));
    Ok(session)
}

/// Whether several concurrent queries with one thread each are faster than one query at a time with
/// all threads.
pub(super) fn is_small_run(run: &Run, limits: Limits) -> bool {
    let parts = stored::ALL.iter().flat_map(|table| run.parts(table));
    parts.map(Part::row_count).sum::<u64>() < limits.small_run_rows
}

fn session_config(is_small: bool, limits: Limits) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema(CATALOGUE, MAIN_SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(false) // marey has its own, with descriptions
        .with_target_partitions(if is_small { 1 } else { limits.threads });
    let options = config.options_mut();
    options.sql_parser.collect_spans = false;
    // Round-robin repartitioning would spread sorted rows over threads to compute the columns above
    // the sort, and the reader of the partitions would not restore the order. It is not needed,
    // because files are large enough to be scanned in ranges.
    options.optimizer.enable_round_robin_repartition = false;
    // In measurements, filtering rows while decoding cost more than it saved, except for a top-N
    // query with one key.
    options.execution.parquet.pushdown_filters = false;
    // A third pass changed no plan of a report, but took a tenth of the planning time. The second
    // makes plans that read fewer columns and sort earlier, which pays only with many rows.
    options.optimizer.max_passes = if is_small { 1 } else { 2 };
    // A sort reserves memory to merge its spills. The reservation must fit into the limit as well.
    let merge_reservation_bytes = &mut options.execution.sort_spill_reservation_bytes;
    *merge_reservation_bytes = (*merge_reservation_bytes).min(limits.memory_bytes / 16);
    config
}

/// Returns the runtime environment: limited memory, temporary files for spills, and access to no
/// other files than those of the run.
fn runtime_environment(run: &Arc<Run>, limits: Limits) -> Result<Arc<RuntimeEnv>> {
    let environment = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(limits.memory_bytes)))
        .with_disk_manager_builder(
            DiskManagerBuilder::default().with_temp_file_factory(Arc::new(SpillFiles)),
        )
        .build_arc()?;
    environment.deregister_object_store(ObjectStoreUrl::local_filesystem().as_ref())?;
    let store = Arc::new(RunStore::new(Arc::clone(run)));
    environment.register_object_store(RunStore::url()?.as_ref(), store);
    Ok(environment)
}

/// The names of all functions, aliases included, in alphabetical order.
fn function_names(state: &SessionState) -> Vec<String> {
    let mut names: Vec<String> = state.scalar_functions().keys().cloned().collect();
    names.extend(state.aggregate_functions().keys().cloned());
    names.extend(state.window_functions().keys().cloned());
    names.extend(state.table_functions().keys().cloned());
    names.sort();
    names.dedup();
    names
}
