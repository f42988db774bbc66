//! From a text to a plan: one statement, which only reads.

use datafusion::common::{DataFusionError, TableReference};
use datafusion::execution::SessionState;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::SqlError;
use super::catalogue::{CATALOGUE, MAIN};
use super::error::syntax;

/// What nests without parentheses, as a chain of sums does. Plans are walked recursively, and so
/// many levels fit on the stack of the engine's threads several times.
const MAX_OPERATORS: usize = 500;

/// The one statement of a text.
pub(super) fn parse(sql: &str) -> Result<Statement, SqlError> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize();
    let tokens = tokens.map_err(|error| syntax(&error.to_string()))?;
    let operators = tokens.iter().filter(|token| may_nest(token)).count();
    if operators > MAX_OPERATORS {
        return Err(SqlError::TooDeep { operators, max_operators: MAX_OPERATORS });
    }
    let parsed = DFParserBuilder::new(sql)
        .with_dialect(&GenericDialect {})
        .build()
        .and_then(|mut parser| parser.parse_statements());
    let mut statements = parsed.map_err(|error| SqlError::of(&error, 0, &[]))?;
    match statements.len() {
        0 => Err(SqlError::Empty),
        1 => read_only(statements.remove(0).expect("there is one")),
        count => Err(SqlError::ManyStatements { count }),
    }
}

/// Whether it can make an expression or a query one level deeper. Lists do not, and parentheses
/// have a limit of their own in the parser.
fn may_nest(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::BETWEEN
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
                | Keyword::JOIN
                | Keyword::WITH
        ),
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::Comma
        | Token::Period
        | Token::LParen
        | Token::RParen
        | Token::SemiColon
        | Token::Whitespace(_)
        | Token::EOF => false,
        _ => true,
    }
}

/// Refuses what changes something, and makes queries of SHOW and DESCRIBE.
fn read_only(statement: Statement) -> Result<Statement, SqlError> {
    let sql = match &statement {
        Statement::Explain(explain) => {
            read_only(Statement::clone(&explain.statement))?;
            return Ok(statement);
        }
        Statement::Statement(inner) => match &**inner {
            ast::Statement::Query(_) => return Ok(statement),
            ast::Statement::ShowTables { .. } => SHOW_TABLES.to_owned(),
            ast::Statement::ShowFunctions { .. } => SHOW_FUNCTIONS.to_owned(),
            ast::Statement::ShowColumns { show_options, .. } => {
                match show_options.show_in.as_ref().and_then(|within| within.parent_name.as_ref()) {
                    Some(table) => show_columns(table),
                    None => return Err(syntax("SHOW COLUMNS needs FROM and a table")),
                }
            }
            ast::Statement::ExplainTable { table_name, .. } => show_columns(table_name),
            _ => return Err(refused(&statement)),
        },
        _ => return Err(refused(&statement)),
    };
    parse(&sql)
}

const SHOW_TABLES: &str = "SELECT table_schema, table_name, table_type, description \
    FROM information_schema.tables WHERE table_schema <> 'information_schema'";

const SHOW_FUNCTIONS: &str = "SELECT * FROM information_schema.functions";

fn show_columns(table: &ast::ObjectName) -> String {
    let parts: Vec<_> = table.0.iter().filter_map(ast::ObjectNamePart::as_ident).collect();
    let folded = |ident: &ast::Ident| match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    };
    let (schema, name) = match parts[..] {
        [.., schema, name] => (folded(schema), folded(name)),
        [name] => (MAIN.to_owned(), folded(name)),
        [] => (String::new(), String::new()),
    };
    let quoted = |text: String| text.replace('\'', "''");
    format!(
        "SELECT column_name, data_type, is_nullable, description FROM information_schema.columns \
         WHERE table_schema = '{}' AND table_name = '{}' ORDER BY ordinal_position",
        quoted(schema),
        quoted(name)
    )
}

fn refused(statement: &Statement) -> SqlError {
    let text = statement.to_string();
    let word = text.split_whitespace().next().unwrap_or_default().to_uppercase();
    SqlError::ReadOnly { statement: word }
}

/// The plan of a statement, whose tables are looked for before, so that the nearest can be named.
pub(super) async fn plan(
    state: &SessionState,
    statement: Statement,
    explain: impl Fn(DataFusionError) -> SqlError,
) -> Result<LogicalPlan, SqlError> {
    for table in state.resolve_table_references(&statement).map_err(&explain)? {
        let is_function =
            table.schema().is_none() && state.table_functions().contains_key(table.table());
        if !is_function {
            find(state, &table)?;
        }
    }
    let plan = state.statement_to_plan(statement).await.map_err(&explain)?;
    let reading =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    match reading.verify_plan(&plan) {
        Ok(()) => Ok(plan),
        Err(_) => Err(SqlError::ReadOnly { statement: plan.display().to_string() }),
    }
}

fn find(state: &SessionState, table: &TableReference) -> Result<(), SqlError> {
    let schema_name = table.schema().unwrap_or(MAIN);
    let is_there = table.catalog().is_none_or(|name| name == CATALOGUE)
        && state
            .schema_for_ref(table.clone())
            .is_ok_and(|schema| schema.table_exist(table.table()));
    if is_there {
        return Ok(());
    }
    let catalogue = state.catalog_list().catalog(CATALOGUE);
    let names = |schema: &str| -> Vec<String> {
        catalogue
            .iter()
            .filter_map(|all| all.schema(schema))
            .flat_map(|schema| schema.table_names())
            .collect()
    };
    let mut known = names(schema_name);
    if known.is_empty() {
        known = names(MAIN);
    } else if schema_name != MAIN {
        for name in &mut known {
            *name = format!("{schema_name}.{name}");
        }
    }
    known.sort();
    Err(SqlError::unknown_table(table.to_string(), known))
}
