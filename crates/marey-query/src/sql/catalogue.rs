//! Which table lies in which schema.

use std::sync::Arc;

use datafusion::catalog::{
    CatalogProvider, MemoryCatalogProvider, MemorySchemaProvider, SchemaProvider, TableProvider,
};
use datafusion::common::Result;
use datafusion::execution::SessionState;
use marey_model::table::{Table, stored, view};
use marey_store::Run;

use super::table::PartsTable;
use super::{information, views};

pub(super) const CATALOGUE: &str = "marey";
pub(super) const MAIN: &str = "main";
pub(super) const RAW: &str = "raw";
pub(super) const INFORMATION: &str = "information_schema";

/// Every table and view with its schema: `main` has the views, and the stored tables whose names no
/// view has.
pub(super) fn declared() -> impl Iterator<Item = (&'static str, &'static Table)> {
    let views = view::ALL.iter().map(|&table| (MAIN, table));
    let not_viewed =
        stored::ALL.iter().filter(|table| !is_view(table.name)).map(|&table| (MAIN, table));
    let raw = stored::ALL.iter().map(|&table| (RAW, table));
    let information = information::ALL.iter().map(|&table| (INFORMATION, table));
    views.chain(not_viewed).chain(raw).chain(information)
}

fn is_view(name: &str) -> bool {
    view::ALL.iter().any(|view| view.name == name)
}

/// The stored tables; the views and the information schema are planned over them.
pub(super) fn stored_tables(run: &Arc<Run>) -> Result<MemoryCatalogProvider> {
    let catalogue = MemoryCatalogProvider::new();
    let (main, raw) = (MemorySchemaProvider::new(), MemorySchemaProvider::new());
    for table in stored::ALL {
        let parts: Arc<dyn TableProvider> = Arc::new(PartsTable::new(Arc::clone(run), table));
        if !is_view(table.name) {
            main.register_table(table.name.into(), Arc::clone(&parts))?;
        }
        raw.register_table(table.name.into(), parts)?;
    }
    catalogue.register_schema(MAIN, Arc::new(main))?;
    catalogue.register_schema(RAW, Arc::new(raw))?;
    Ok(catalogue)
}

/// Adds the views and the information schema, for which all functions are known already.
pub(super) async fn complete(state: &SessionState) -> Result<()> {
    let catalogue = state.catalog_list().catalog(CATALOGUE).expect("registered before");
    let main = catalogue.schema(MAIN).expect("registered before");
    for view in view::ALL {
        main.register_table(view.name.into(), views::plan(state, view).await?)?;
    }
    catalogue.register_schema(INFORMATION, Arc::new(information::schema(state)?))?;
    Ok(())
}
