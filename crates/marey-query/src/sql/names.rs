//! The names that a query can use, for completion in editors and for hints in error messages.

use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;

/// The names that queries can use.
#[derive(Clone, Debug)]
pub struct SqlNames {
    /// Tables and views, those of the schema `main` first.
    pub tables: Vec<TableInfo>,
    /// Functions, in alphabetical order.
    pub functions: Vec<String>,
    /// SQL keywords, in capital letters and alphabetical order.
    pub keywords: &'static [&'static str],
}

/// A table or view with its columns.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// The schema. `main` is the default.
    pub schema: &'static str,
    /// The name.
    pub name: &'static str,
    /// The columns, in order.
    pub columns: Vec<&'static str>,
}

impl SqlNames {
    pub(super) fn new(functions: Vec<String>) -> Self {
        Self { tables: TableInfo::all().collect(), functions, keywords: ALL_KEYWORDS }
    }
}

impl TableInfo {
    /// All tables and views, those of the schema `main` first.
    pub fn all() -> impl Iterator<Item = Self> {
        super::catalogue::declared_tables().map(|(schema, table)| Self {
            schema,
            name: table.name,
            columns: table.columns.iter().map(|column| column.name).collect(),
        })
    }
}
