//! The errors of queries, translated from `DataFusion`'s. Each has a message of one line and
//! possibly a hint on how to fix the query.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use marey_store::StoreError;

use crate::near;

/// The reason why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// The text is not valid SQL.
    #[error("{message}{}", position_suffix(*.line, *.column))]
    Syntax {
        /// The parser's message.
        message: String,
        /// Line, from 1, if the parser reports it.
        line: Option<u64>,
        /// Column, from 1.
        column: Option<u64>,
    },
    /// The text has no statement.
    #[error("there is no statement")]
    Empty,
    /// The text has several statements.
    #[error("{count} statements were given, but a query is one")]
    ManyStatements {
        /// The number of statements.
        count: usize,
    },
    /// The query may nest deeper than the stack of the planner allows.
    #[error(
        "the query has {operators} operators and keywords; at most {max_operators} are planned"
    )]
    TooDeep {
        /// The number of operators and keywords.
        operators: usize,
        /// The limit.
        max_operators: usize,
    },
    /// The statement would modify something.
    #[error("marey queries read only: {statement} is refused")]
    ReadOnly {
        /// The first word of the statement.
        statement: String,
    },
    /// There is no such table or view.
    #[error("there is no table `{name}`")]
    UnknownTable {
        /// The name as written.
        name: String,
        /// Similar names, the most similar first.
        nearest: Vec<String>,
        /// All tables.
        available: Vec<String>,
    },
    /// There is no such column.
    #[error("there is no column `{name}`")]
    UnknownColumn {
        /// The name as written.
        name: String,
        /// Similar names, the most similar first.
        nearest: Vec<String>,
        /// All columns that are in scope.
        available: Vec<String>,
    },
    /// There is no such function.
    #[error("there is no function `{name}`")]
    UnknownFunction {
        /// The name as written.
        name: String,
        /// Similar names, the most similar first.
        nearest: Vec<String>,
    },
    /// The query is valid SQL, but cannot be planned.
    #[error("{message}")]
    Plan {
        /// The reason.
        message: String,
    },
    /// A value could not be computed.
    #[error("{message}")]
    Execution {
        /// The reason.
        message: String,
    },
    /// The query exceeds its memory limit.
    #[error("the query needs more than {} of memory", format_bytes(*.limit_bytes))]
    Memory {
        /// The limit.
        limit_bytes: usize,
    },
    /// A part of the run could not be read.
    #[error("the run cannot be read: {message}")]
    Unreadable {
        /// The reason.
        message: String,
    },
    /// A small table of the run could not be read.
    #[error(transparent)]
    Store(#[from] Arc<StoreError>),
    /// The query was cancelled.
    #[error("the query was stopped")]
    Cancelled,
    /// A defect of marey or of its engine.
    #[error("the query failed inside the engine: {message}")]
    Internal {
        /// The engine's message.
        message: String,
    },
}

impl SqlError {
    /// A hint on how to fix the query, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::TooDeep { .. } => Some("`x IN (…)` takes any number of values".into()),
            Self::ReadOnly { .. } => {
                Some("use SELECT, WITH, VALUES, EXPLAIN, SHOW or DESCRIBE".into())
            }
            Self::ManyStatements { .. } => Some("run one statement at a time".into()),
            Self::UnknownTable { nearest, available, .. } => {
                Some(suggestion("the tables are", nearest, available))
            }
            Self::UnknownColumn { nearest, available, .. } => {
                Some(suggestion("the columns are", nearest, available))
            }
            Self::UnknownFunction { nearest, .. } if nearest.is_empty() => {
                Some("SELECT name, description FROM information_schema.functions lists them".into())
            }
            Self::UnknownFunction { nearest, .. } => Some(suggestion("", nearest, &[])),
            Self::Memory { .. } => Some(
                "raise it with `--memory-limit` (in Python `marey.open(..., memory_limit=...)`), or ask for fewer rows"
                    .into(),
            ),
            Self::Store(error) => error.hint(),
            _ => None,
        }
    }

    /// Returns the error for a panic of the engine. The panic ended only the query.
    pub(super) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::Internal { message: to_one_line(text.unwrap_or("it panicked")) }
    }

    /// Returns the error for a table that does not exist, with the most similar names.
    pub fn unknown_table(name: String, available: Vec<String>) -> Self {
        Self::UnknownTable { nearest: near::nearest(&name, &available), name, available }
    }

    /// Returns the error for a function that does not exist, with the most similar names.
    fn unknown_function(name: String, available: &[String]) -> Self {
        Self::UnknownFunction { nearest: near::nearest(&name, available), name }
    }

    /// Translates an error of the engine.
    pub(super) fn from_engine(
        error: &DataFusionError,
        limit_bytes: usize,
        functions: &[String],
    ) -> Self {
        ErrorTranslator { limit_bytes, functions }.translate(error)
    }
}

/// The facts that the translation of an error needs.
struct ErrorTranslator<'a> {
    limit_bytes: usize,
    functions: &'a [String],
}

impl ErrorTranslator<'_> {
    fn translate(&self, error: &DataFusionError) -> SqlError {
        let message = || to_one_line(&error.strip_backtrace());
        match error {
            DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
                self.translate(inner)
            }
            DataFusionError::Shared(inner) => self.translate(inner),
            DataFusionError::Collection(errors) => match errors.first() {
                Some(first) => self.translate(first),
                None => SqlError::Internal { message: message() },
            },
            DataFusionError::SQL(parser, _) => syntax_error(&parser.to_string()),
            DataFusionError::SchemaError(schema, _) => Self::translate_schema_error(schema),
            DataFusionError::ResourcesExhausted(_) => {
                SqlError::Memory { limit_bytes: self.limit_bytes }
            }
            DataFusionError::Plan(text) => self.translate_plan_error(text),
            DataFusionError::NotImplemented(text) | DataFusionError::Configuration(text) => {
                SqlError::Plan { message: to_one_line(text) }
            }
            DataFusionError::Execution(text) => SqlError::Execution { message: to_one_line(text) },
            DataFusionError::ArrowError(arrow, _) => self.translate_arrow_error(arrow),
            DataFusionError::External(inner) => match inner.downcast_ref::<Arc<StoreError>>() {
                Some(store) => SqlError::Store(Arc::clone(store)),
                None => SqlError::Execution { message: to_one_line(&inner.to_string()) },
            },
            DataFusionError::ParquetError(inner) => {
                SqlError::Unreadable { message: to_one_line(&inner.to_string()) }
            }
            DataFusionError::ObjectStore(inner) => {
                SqlError::Unreadable { message: to_one_line(&inner.to_string()) }
            }
            DataFusionError::IoError(inner) => {
                SqlError::Unreadable { message: to_one_line(&inner.to_string()) }
            }
            DataFusionError::Internal(_)
            | DataFusionError::ExecutionJoin(_)
            | DataFusionError::Substrait(_)
            | DataFusionError::Ffi(_) => SqlError::Internal { message: message() },
        }
    }

    fn translate_arrow_error(&self, error: &ArrowError) -> SqlError {
        match error {
            ArrowError::ExternalError(inner) => match inner.downcast_ref::<DataFusionError>() {
                Some(inner) => self.translate(inner),
                None => SqlError::Execution { message: to_one_line(&inner.to_string()) },
            },
            ArrowError::DivideByZero => {
                SqlError::Execution { message: "a number was divided by zero".into() }
            }
            ArrowError::ArithmeticOverflow(text)
            | ArrowError::ComputeError(text)
            | ArrowError::CastError(text)
            | ArrowError::InvalidArgumentError(text)
            | ArrowError::ParseError(text) => SqlError::Execution { message: to_one_line(text) },
            ArrowError::ParquetError(text) => SqlError::Unreadable { message: to_one_line(text) },
            other => SqlError::Execution { message: to_one_line(&other.to_string()) },
        }
    }

    fn translate_plan_error(&self, text: &str) -> SqlError {
        let name = text
            .strip_prefix("Invalid function '")
            .and_then(|after_prefix| after_prefix.split('\'').next());
        match name {
            Some(name) => SqlError::unknown_function(name.to_owned(), self.functions),
            None => SqlError::Plan { message: strip_engine_text(&to_one_line(text)).to_owned() },
        }
    }

    fn translate_schema_error(error: &SchemaError) -> SqlError {
        match error {
            SchemaError::FieldNotFound { field, valid_fields } => {
                let mut available: Vec<String> = Vec::new();
                for column in valid_fields {
                    if !available.contains(&column.name) {
                        available.push(column.name.clone());
                    }
                }
                let nearest = near::nearest(&field.name, &available);
                SqlError::UnknownColumn { name: field.flat_name(), nearest, available }
            }
            SchemaError::AmbiguousReference { field } => {
                let message = format!(
                    "the column `{}` is in several tables: write TABLE.COLUMN",
                    field.flat_name()
                );
                SqlError::Plan { message }
            }
            SchemaError::DuplicateQualifiedField { name, .. }
            | SchemaError::DuplicateUnqualifiedField { name } => SqlError::Plan {
                message: format!("two columns are named `{name}`: name one with AS"),
            },
        }
    }
}

/// Returns the error for a parser's message. The position moves from the text to fields.
pub(super) fn syntax_error(text: &str) -> SqlError {
    let text = text.trim_start_matches("sql parser error: ");
    let position = text.rfind(" at Line: ").and_then(|start| {
        let (line, column) = text[start + " at Line: ".len()..].split_once(", Column: ")?;
        Some((start, line.trim().parse().ok()?, column.trim().parse().ok()?))
    });
    match position {
        Some((start, line, column)) => SqlError::Syntax {
            message: to_one_line(&text[..start]),
            line: Some(line),
            column: Some(column),
        },
        None => SqlError::Syntax { message: to_one_line(text), line: None, column: None },
    }
}

/// Returns the complaint of a function about its arguments, without the engine's text around it.
fn strip_engine_text(text: &str) -> &str {
    let Some((_, complaint)) = text.split_once("coercion failed with: ") else { return text };
    let complaint = complaint.split(" No function matches").next().unwrap_or(complaint);
    complaint.trim_start_matches("Error during planning: ").trim_end_matches('.')
}

fn position_suffix(line: Option<u64>, column: Option<u64>) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!(", at line {line}, column {column}"),
        _ => String::new(),
    }
}

/// Returns a number of bytes in the largest unit of which it has at least one, truncated.
fn format_bytes(bytes: usize) -> String {
    match (bytes >> 20, bytes >> 10) {
        (0, 0) => format!("{bytes} bytes"),
        (0, kibibytes) => format!("{kibibytes} KiB"),
        (mebibytes, _) => format!("{mebibytes} MiB"),
    }
}

/// Longest message, in characters. The engine's messages may contain a whole expression.
const MAX_MESSAGE_CHARS: usize = 1_000;

/// The text on one line, without the engine's prefixes and its request for a bug report.
fn to_one_line(text: &str) -> String {
    const ENGINE_PREFIXES: [&str; 7] = [
        "Internal error: ",
        "Error during planning: ",
        "Execution error: ",
        "Optimizer rule ",
        "External error: ",
        "Arrow error: ",
        "This feature is not implemented: ",
    ];
    let mut text = text.split("\nThis issue was likely caused").next().unwrap_or_default().trim();
    while let Some(after_prefix) =
        ENGINE_PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix))
    {
        text = after_prefix;
    }
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let message =
        words.split(" You might need to add explicit type casts").next().unwrap_or(&words);
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.trim_end_matches('.').to_owned(),
    }
}

fn suggestion(list_heading: &str, nearest: &[String], available: &[String]) -> String {
    match nearest {
        [] => format!("{list_heading} {}", available.join(", ")),
        [only] => format!("did you mean `{only}`?"),
        several => format!("did you mean one of {}?", several.join(", ")),
    }
}
