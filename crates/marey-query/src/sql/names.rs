//! The names that a query can use, for completion in editors and for hints in error messages.

use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;

/// The names that queries can use.
#[derive(Clone, Debug)]
pub struct Names {
    /// Tables and views, those of the schema `main` first.
    pub tables: Vec<TableName>,
    /// Functions, in alphabetical order.
    pub functions: Vec<String>,
    /// SQL keywords, in capital letters and alphabetical order.
    pub keywords: &'static [&'static str],
}

/// A table or view with its columns.
#[derive(Clone, Debug)]
pub struct TableName {
    /// The schema. `main` is the default.
    pub schema: &'static str,
    /// The name.
    pub name: &'static str,
    /// The columns, in order.
    pub columns: Vec<&'static str>,
}

impl Names {
    pub(super) fn new(functions: Vec<String>) -> Self {
        Self { tables: TableName::all().collect(), functions, keywords: ALL_KEYWORDS }
    }
}

impl TableName {
    /// All tables and views, those of the schema `main` first.
    pub fn all() -> impl Iterator<Item = Self> {
        super::catalogue::declared_tables().map(|(schema, table)| Self {
            schema,
            name: table.name,
            columns: table.columns.iter().map(|column| column.name).collect(),
        })
    }
}
