//! The names that a query may use, for completion and hints.

use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;

/// The names that a query may use.
#[derive(Clone, Debug)]
pub struct Names {
    /// Tables and views, those of the schema `main` first.
    pub tables: Vec<TableName>,
    /// Functions, in alphabetical order.
    pub functions: Vec<String>,
    /// The words of SQL, in alphabetical order and capital letters.
    pub keywords: &'static [&'static str],
}

/// A table or a view, and its columns.
#[derive(Clone, Debug)]
pub struct TableName {
    /// Its schema: `main` need not be said.
    pub schema: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its columns, in order.
    pub columns: Vec<&'static str>,
}

impl Names {
    pub(super) fn new(functions: Vec<String>) -> Self {
        Self { tables: TableName::all().collect(), functions, keywords: ALL_KEYWORDS }
    }
}

impl TableName {
    /// Every table and view, those of the schema `main` first.
    pub fn all() -> impl Iterator<Item = Self> {
        super::catalogue::declared().map(|(schema, table)| Self {
            schema,
            name: table.name,
            columns: table.columns.iter().map(|column| column.name).collect(),
        })
    }
}
