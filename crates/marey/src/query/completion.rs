//! Completes words in the prompt of `marey query`, and tells whether its input is a whole
//! statement.

use marey_query::sql::{SqlNames, TableInfo};
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use super::prompt::{COMMAND_PREFIX, COMMANDS};
use super::statement::is_complete;
use crate::schema::MAIN_SCHEMA;

/// The SQL keywords that are completed, which are the common ones.
const KEYWORDS: [&str; 41] = [
    "ALL",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CROSS",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "ELSE",
    "END",
    "EXISTS",
    "EXPLAIN",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OVER",
    "PARTITION",
    "SELECT",
    "SHOW",
    "THEN",
    "UNION",
    "WHEN",
    "WHERE",
];

/// The words that can complete the input.
pub(super) struct Completions {
    tables: Vec<TableInfo>,
    /// Names of tables, columns and functions, and keywords, sorted.
    words: Vec<String>,
}

impl Completions {
    pub(super) fn new(names: &SqlNames) -> Self {
        let tables = names.tables.clone();
        let columns = tables.iter().flat_map(|table| table.columns.iter().chain([&table.name]));
        let mut words: Vec<_> = columns.chain(&KEYWORDS).map(ToString::to_string).collect();
        words.extend(names.functions.iter().map(|function| format!("{function}(")));
        words.sort();
        words.dedup();
        Self { tables, words }
    }

    /// Returns the start of the word at the end of `line`, and its completions.
    fn candidates(&self, line: &str) -> (usize, Vec<String>) {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let start = line.trim_end_matches(is_word).len();
        let (before, word) = line.split_at(start);
        let names = match before.strip_suffix('.') {
            Some(owner) => self.names_in(&owner[owner.trim_end_matches(is_word).len()..]),
            None if before == COMMAND_PREFIX => {
                COMMANDS.iter().map(|command| command.name).collect()
            }
            None if before.starts_with(COMMAND_PREFIX) => self.names_in(MAIN_SCHEMA),
            None if word.is_empty() => Vec::new(),
            None => self.all_words(),
        };
        let fitting = names.into_iter().filter(|name| starts_with_ignoring_case(name, word));
        (start, fitting.map(str::to_owned).collect())
    }

    /// Returns the tables of a schema or the columns of a table. For another name, which may be an
    /// alias, returns all words.
    fn names_in(&self, owner: &str) -> Vec<&str> {
        let is_owner = |name: &str| name.eq_ignore_ascii_case(owner);
        let tables = self.tables.iter().filter(|table| is_owner(table.schema));
        let tables: Vec<&str> = tables.map(|table| table.name).collect();
        match self.tables.iter().find(|table| is_owner(table.name)) {
            Some(table) => table.columns.clone(),
            None if tables.is_empty() => self.all_words(),
            None => tables,
        }
    }

    fn all_words(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }
}

fn starts_with_ignoring_case(name: &str, start: &str) -> bool {
    name.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}

impl Completer for Completions {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.candidates(&line[..pos]))
    }
}

impl Validator for Completions {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input().trim();
        let is_finished = text.is_empty() || text.starts_with(COMMAND_PREFIX) || is_complete(text);
        Ok(if is_finished { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Helper for Completions {}
impl Highlighter for Completions {}
impl Hinter for Completions {
    type Hint = String;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_depends_on_the_position() {
        let table =
            |schema, name, column| TableInfo { schema, name, columns: vec![column, "path"] };
        let words = Completions::new(&SqlNames {
            tables: vec![
                table("main", "spans", "name"),
                table("main", "steps", "number"),
                table("raw", "spans", "name_id"),
                table("raw", "strings", "id"),
            ],
            functions: vec!["sum".into()],
            keywords: &[],
        });
        for (line, start, expected) in [
            ("s", 0, &["SELECT", "SHOW", "spans", "steps", "strings", "sum("][..]),
            ("SEL", 0, &["SELECT"]),
            ("select nam", 7, &["name", "name_id"]),
            ("select spans.n", 13, &["name"]),
            ("select s.nu", 9, &["NULL", "number"]),
            ("select * from raw.s", 18, &["spans", "strings"]),
            ("select é", 7, &[]),
            ("select ", 7, &[]),
            ("\\", 1, &["?", "d", "f", "q"]),
            ("\\d st", 3, &["steps"]),
        ] {
            let (offset, names) = words.candidates(line);
            assert_eq!(
                (offset, names),
                (start, expected.iter().map(ToString::to_string).collect()),
                "{line}"
            );
        }
    }
}
