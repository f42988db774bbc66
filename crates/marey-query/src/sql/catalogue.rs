//! The catalogue of a run for `DataFusion`: the schemas of the database, which create their tables
//! and views when a query first names them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::execution::SessionState;
use marey_model::table::{Table, stored, view};
use marey_store::Run;

use super::table::PartsTable;
use super::{information, views};

pub(super) const CATALOGUE: &str = "marey";
pub(super) const MAIN_SCHEMA: &str = "main";
pub(super) const RAW_SCHEMA: &str = "raw";
pub(super) const PYTHON_SCHEMA: &str = "python";
pub(super) const INTERNAL_SCHEMA: &str = "internal";
pub(super) const INFORMATION_SCHEMA: &str = "information_schema";

/// Returns all tables and views with their schema, except for the schema `internal`. `main` has all
/// views, and the stored tables whose name no view has.
pub(super) fn declared_tables() -> impl Iterator<Item = (&'static str, &'static Table)> {
    let views = view::ALL.iter().map(|&table| (MAIN_SCHEMA, table));
    let tables_without_view =
        stored::ALL.iter().filter(|table| !is_view(table.name)).map(|&table| (MAIN_SCHEMA, table));
    let python_views = view::PYTHON.iter().map(|&table| (PYTHON_SCHEMA, table));
    let raw_tables = stored::ALL.iter().map(|&table| (RAW_SCHEMA, table));
    let information_tables = information::ALL.iter().map(|&table| (INFORMATION_SCHEMA, table));
    views.chain(tables_without_view).chain(python_views).chain(raw_tables).chain(information_tables)
}

fn is_view(name: &str) -> bool {
    view::ALL.iter().any(|view| view.name == name)
}

/// Access to the session that owns the catalogue. Planning a view needs its state.
pub(super) type SessionAccess = Arc<dyn Fn() -> Option<SessionState> + Send + Sync>;

/// Returns the catalogue of a run. Tables and views are created when a query first names them,
/// because planning all views takes longer than most queries do.
pub(super) fn create_catalogue(
    run: &Arc<Run>,
    session: &SessionAccess,
) -> Result<MemoryCatalogProvider> {
    let catalogue = MemoryCatalogProvider::new();
    for name in [MAIN_SCHEMA, PYTHON_SCHEMA, RAW_SCHEMA, INTERNAL_SCHEMA, INFORMATION_SCHEMA] {
        let (run, session, created_tables) =
            (Arc::clone(run), Arc::clone(session), Mutex::default());
        catalogue
            .register_schema(name, Arc::new(RunSchema { name, run, session, created_tables }))?;
    }
    Ok(catalogue)
}

/// A schema, with the tables that were created so far.
struct RunSchema {
    name: &'static str,
    run: Arc<Run>,
    session: SessionAccess,
    created_tables: Mutex<HashMap<&'static str, Arc<dyn TableProvider>>>,
}

impl RunSchema {
    fn tables(&self) -> impl Iterator<Item = &'static Table> {
        let internal = views::INTERNAL_VIEWS.iter().map(|&view| (INTERNAL_SCHEMA, view));
        let tables = declared_tables().chain(internal);
        tables.filter(|(schema, _)| *schema == self.name).map(|(_, table)| table)
    }

    fn created_tables(&self) -> MutexGuard<'_, HashMap<&'static str, Arc<dyn TableProvider>>> {
        self.created_tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn create_table(&self, table: &'static Table) -> Result<Arc<dyn TableProvider>> {
        let state = || {
            let session_dropped =
                || DataFusionError::Internal("the session of the schema is gone".to_owned());
            (self.session)().ok_or_else(session_dropped)
        };
        match self.name {
            INFORMATION_SCHEMA => information::table(&state()?, table),
            MAIN_SCHEMA if is_view(table.name) => views::plan(&state()?, &self.run, table).await,
            PYTHON_SCHEMA | INTERNAL_SCHEMA => views::plan(&state()?, &self.run, table).await,
            _ => Ok(Arc::new(PartsTable::new(Arc::clone(&self.run), table)?)),
        }
    }
}

#[async_trait]
impl SchemaProvider for RunSchema {
    fn table_names(&self) -> Vec<String> {
        self.tables().map(|table| table.name.to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(table) = self.tables().find(|table| table.name == name) else { return Ok(None) };
        if let Some(created) = self.created_tables().get(name) {
            return Ok(Some(Arc::clone(created)));
        }
        let created = self.create_table(table).await?;
        Ok(Some(Arc::clone(self.created_tables().entry(table.name).or_insert(created))))
    }

    /// Replaces a view by a table.
    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(declaration) = self.tables().find(|table| table.name == name) else {
            return exec_err!("`{name}` is not declared");
        };
        Ok(self.created_tables().insert(declaration.name, table))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables().any(|table| table.name == name)
    }
}

impl fmt::Debug for RunSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("name", &self.name).finish_non_exhaustive()
    }
}
