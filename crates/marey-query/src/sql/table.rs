//! [`PartsTable`], the `DataFusion` table provider of a stored table, which scans its Parquet
//! parts.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, DFSchema, Result, Statistics};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use marey_model::table::Table;
use marey_store::Run;

use super::store::RunStore;

/// The parts of a table. A column that a part lacks is null.
#[derive(Debug)]
pub(super) struct PartsTable {
    run: Arc<Run>,
    table: &'static Table,
    schema: SchemaRef,
    /// The plan of the table, if it has no rows.
    empty_plan: Option<LogicalPlan>,
}

impl PartsTable {
    pub(super) fn new(run: Arc<Run>, table: &'static Table) -> Result<Self> {
        let schema = sql_schema(table);
        let is_empty = run.parts(table).iter().all(|part| part.row_count() == 0);
        let empty_plan = is_empty.then(|| empty_plan(&schema)).transpose()?;
        Ok(Self { run, table, schema, empty_plan })
    }
}

/// Returns the plan of a table without rows. The optimizer removes joins with it.
pub(super) fn empty_plan(schema: &SchemaRef) -> Result<LogicalPlan> {
    let schema = Arc::new(DFSchema::try_from(Arc::clone(schema))?);
    Ok(LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema }))
}

/// Returns the declared schema with strings as string views, which lookups of names can gather
/// without copying. It lacks the descriptions of columns, which plans would copy in each operator.
pub(super) fn sql_schema(table: &Table) -> SchemaRef {
    let stored_schema = marey_store::arrow_schema(table);
    let fields = stored_schema.fields().iter().map(|field| {
        let data_type = match field.data_type() {
            DataType::Utf8 => DataType::Utf8View,
            other => other.clone(),
        };
        Field::new(field.name(), data_type, field.is_nullable())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

#[async_trait]
impl TableProvider for PartsTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        self.empty_plan.as_ref().map(Cow::Borrowed)
    }

    /// Filters exclude row groups and pages. The rows that remain are filtered above the scan.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr], // the optimizer of physical plans pushes them into the source
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let parts = self.run.parts(self.table);
        let url = RunStore::url()?;
        let runtime = state.runtime_env();
        let reader = CachedParquetFileReaderFactory::new(
            runtime.object_store(&url)?,
            runtime.cache_manager.get_file_metadata_cache(),
        );
        let source = ParquetSource::new(Arc::clone(&self.schema))
            .with_table_parquet_options(state.table_options().parquet.clone())
            .with_parquet_file_reader_factory(Arc::new(reader));
        let files = parts.iter().map(|part| PartitionedFile::new_from_meta(RunStore::meta(part)));
        let scan = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_file_groups(
                FileGroup::new(files.collect()).split_files(state.config().target_partitions()),
            )
            .with_statistics(self.counts())
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.counts())
    }
}

impl PartsTable {
    /// Returns the counts in the manifest, which are enough to answer `count(*)`.
    fn counts(&self) -> Statistics {
        let parts = self.run.parts(self.table);
        let rows: u64 = parts.iter().map(marey_store::Part::row_count).sum();
        let bytes: u64 = parts.iter().map(marey_store::Part::len_bytes).sum();
        Statistics {
            num_rows: Precision::Exact(rows as usize),
            total_byte_size: Precision::Inexact(bytes as usize),
            column_statistics: vec![ColumnStatistics::new_unknown(); self.table.columns.len()],
        }
    }
}
