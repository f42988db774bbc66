//! Parses and plans a query. Exactly one statement is accepted, and only if it modifies nothing.

use std::thread;

use datafusion::common::{DataFusionError, TableReference};
use datafusion::execution::SessionState;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::Tokenizer;

use super::catalogue::{CATALOGUE, MAIN_SCHEMA};
use super::engine::STACK_BYTES;
use super::error::syntax_error;
use super::{SqlError, bounds};

/// A statement that only reads.
pub(super) struct ReadQuery {
    statement: Statement,
    /// The table of a DESCRIBE. The statement itself reads the schema and does not reference the
    /// table.
    described_table: Option<TableReference>,
}

/// Parses a text that must have exactly one statement.
pub(super) fn parse(sql: &str) -> Result<ReadQuery, SqlError> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
    let tokens = tokens.map_err(|error| syntax_error(&error.to_string()))?;
    bounds::check_depth(&tokens)?;
    let parsed = DFParserBuilder::new(tokens)
        .with_dialect(&GenericDialect {})
        .build()
        .and_then(|mut parser| parser.parse_statements());
    let mut statements = parsed.map_err(|error| SqlError::from_engine(&error, 0, &[]))?;
    match statements.len() {
        0 => Err(SqlError::Empty),
        1 => check_read_only(statements.remove(0).expect("there is one")),
        count => Err(SqlError::ManyStatements { count }),
    }
}

/// Whether a query reads a table or view with a name, in any schema. A text that is no query reads
/// none.
pub fn reads(sql: &str, name: &str) -> bool {
    let reads = || {
        let references = parse(sql).map(|query| resolve_table_references(&query.statement, true));
        matches!(references, Ok(Ok((tables, _))) if tables.iter().any(|table| table.table() == name))
    };
    // A panic of the parser is a text that is no query, as it is where the query runs.
    thread::scope(|scope| {
        let parser_thread =
            thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, reads);
        parser_thread.is_ok_and(|parser_thread| parser_thread.join().unwrap_or(false))
    })
}

/// Rejects statements that modify something, and turns SHOW and DESCRIBE into queries.
fn check_read_only(statement: Statement) -> Result<ReadQuery, SqlError> {
    match &statement {
        Statement::Explain(explain) => {
            check_read_only(Statement::clone(&explain.statement))?;
        }
        Statement::Statement(inner) => match &**inner {
            ast::Statement::Query(_) => {}
            ast::Statement::ShowTables { .. } => return parse(SHOW_TABLES),
            ast::Statement::ShowFunctions { .. } => return parse(SHOW_FUNCTIONS),
            ast::Statement::ShowColumns { show_options, .. } => {
                let scope = show_options.show_in.as_ref();
                return match scope.and_then(|scope| scope.parent_name.as_ref()) {
                    Some(table) => describe(table),
                    None => Err(syntax_error("SHOW COLUMNS needs FROM and a table")),
                };
            }
            ast::Statement::ExplainTable { table_name, .. } => return describe(table_name),
            _ => return Err(read_only_error(&statement)),
        },
        _ => return Err(read_only_error(&statement)),
    }
    Ok(ReadQuery { statement, described_table: None })
}

const SHOW_TABLES: &str = "SELECT table_schema, table_name, table_type, description \
    FROM information_schema.tables WHERE table_schema <> 'information_schema'";

const SHOW_FUNCTIONS: &str = "SELECT * FROM information_schema.functions";

fn describe(table: &ast::ObjectName) -> Result<ReadQuery, SqlError> {
    let table = TableReference::parse_str(&table.to_string());
    let escape = |text: &str| text.replace('\'', "''");
    let columns = parse(&format!(
        "SELECT column_name, data_type, is_nullable, description FROM information_schema.columns \
         WHERE table_schema = '{}' AND table_name = '{}' ORDER BY ordinal_position",
        escape(table.schema().unwrap_or(MAIN_SCHEMA)),
        escape(table.table())
    ))?;
    Ok(ReadQuery { described_table: Some(table), ..columns })
}

fn read_only_error(statement: &Statement) -> SqlError {
    let text = statement.to_string();
    let word = text.split_whitespace().next().unwrap_or_default().to_uppercase();
    SqlError::ReadOnly { statement: word }
}

/// Plans a query. Its tables are resolved first, so that an error can suggest similar names.
pub(super) async fn plan(
    state: &SessionState,
    query: ReadQuery,
    translate_error: impl Fn(DataFusionError) -> SqlError,
) -> Result<LogicalPlan, SqlError> {
    let ReadQuery { statement, described_table } = query;
    bounds::check_size(&statement)?;
    if let Some(table) = described_table {
        check_table_exists(state, &table)?;
    }
    for table in state.resolve_table_references(&statement).map_err(&translate_error)? {
        let is_function =
            table.schema().is_none() && state.table_functions().contains_key(table.table());
        if !is_function {
            check_table_exists(state, &table)?;
        }
    }
    let plan = state.statement_to_plan(statement).await.map_err(&translate_error)?;
    let read_only_options =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    match read_only_options.verify_plan(&plan) {
        Ok(()) => Ok(plan),
        Err(_) => Err(SqlError::ReadOnly { statement: plan.display().to_string() }),
    }
}

fn check_table_exists(state: &SessionState, table: &TableReference) -> Result<(), SqlError> {
    let schema_name = table.schema().unwrap_or(MAIN_SCHEMA);
    let exists = table.catalog().is_none_or(|name| name == CATALOGUE)
        && state
            .schema_for_ref(table.clone())
            .is_ok_and(|schema| schema.table_exist(table.table()));
    if exists {
        return Ok(());
    }
    let catalogue = state.catalog_list().catalog(CATALOGUE);
    let names = |schema: &str| -> Vec<String> {
        catalogue
            .iter()
            .filter_map(|catalogue| catalogue.schema(schema))
            .flat_map(|schema| schema.table_names())
            .collect()
    };
    let mut available = names(schema_name);
    if available.is_empty() {
        available = names(MAIN_SCHEMA);
    } else if schema_name != MAIN_SCHEMA {
        for name in &mut available {
            *name = format!("{schema_name}.{name}");
        }
    }
    available.sort();
    Err(SqlError::unknown_table(table.to_string(), available))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_reads_the_tables_that_it_names_and_no_words_in_texts() {
        for sql in [
            "SELECT * FROM python.backtrace;",
            "select func from BACKTRACE",
            "WITH last AS (SELECT * FROM python.backtrace) SELECT * FROM last",
            "SELECT 1 WHERE 1 IN (SELECT depth FROM \"backtrace\")",
            "EXPLAIN SELECT * FROM backtrace",
        ] {
            assert!(reads(sql, "backtrace"), "{sql}");
        }
        for sql in [
            "SELECT 'backtrace'",
            "SELECT name AS backtrace FROM spans",
            "SELECT 1 -- FROM backtrace",
            "SELECT * FROM backtraces",
            "SELECT * FROM",
            "DROP TABLE backtrace",
        ] {
            assert!(!reads(sql, "backtrace"), "{sql}");
        }
    }
}
