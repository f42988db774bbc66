//! The tables of a run: every column, with its unit and a sentence, declared once.
//!
//! Arrow schemas, the SQL catalogue and the reference page are made from these declarations.
//! [`stored`] are the tables that a run keeps as Parquet; [`view`] are the ones that people query,
//! with names in place of ids. Every time is in nanoseconds since 1970, on one clock for all
//! processes of a run.

pub mod device_time;
pub mod efficiency;
pub mod launching;
pub mod stepping;
pub mod stored;
pub mod view;
pub mod waiting;

/// A table or a view.
#[derive(Debug)]
pub struct Table {
    /// Name in SQL, and the folder of a stored table.
    pub name: &'static str,
    /// What a row is, in a sentence or two.
    pub doc: &'static str,
    /// The columns, in order.
    pub columns: &'static [Column],
    /// The column that a stored table's rows ascend by, within each of its files.
    pub sorted_by: Option<&'static str>,
}

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Its name; one that is a quantity ends in its unit.
    pub name: &'static str,
    /// What it holds.
    pub kind: ColumnKind,
    /// Whether a row may have no value here.
    pub is_nullable: bool,
    /// The table whose ids it holds.
    pub refers: Option<Target>,
    /// What the value means, in a sentence.
    pub doc: &'static str,
}

/// A table whose rows others refer to, by its column `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Texts.
    Strings,
    /// The calling-context tree.
    Contexts,
    /// Arguments of events.
    Args,
    /// Processes.
    Processes,
    /// Threads.
    Threads,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A moment or a length of time in nanoseconds: 64 bits with a sign, close to the row before.
    Nanos,
    /// A whole number of 64 bits with a sign.
    Int,
    /// A whole number of 64 bits without a sign.
    Bits,
    /// An id: 32 bits without a sign.
    Id,
    /// A real number of 64 bits.
    Real,
    /// Yes or no.
    Flag,
    /// A text.
    Text,
    /// Bytes.
    Bytes,
    /// A list of real numbers.
    Reals,
    /// A list of whole numbers of 64 bits with a sign.
    Ints,
}

impl ColumnKind {
    /// The word that documentation uses: the type's name in SQL.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nanos | Self::Int => "BIGINT",
            Self::Bits => "UBIGINT",
            Self::Id => "UINTEGER",
            Self::Real => "DOUBLE",
            Self::Flag => "BOOLEAN",
            Self::Text => "VARCHAR",
            Self::Bytes => "BLOB",
            Self::Reals => "DOUBLE[]",
            Self::Ints => "BIGINT[]",
        }
    }
}

impl Column {
    /// Whether it holds moments, not lengths of time.
    pub fn is_moment(&self) -> bool {
        self.kind == ColumnKind::Nanos && MOMENTS.contains(&self.name)
    }
}

/// The names of columns that hold moments.
const MOMENTS: &[&str] = &["start_nanos", "end_nanos", "time_nanos", "created_nanos"];

impl Table {
    /// The position of a column.
    pub fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|other| other.name == column)
    }
}

/// A column that always has a value.
pub const fn column(name: &'static str, kind: ColumnKind, doc: &'static str) -> Column {
    Column { name, kind, is_nullable: false, refers: None, doc }
}

/// A column that may have none.
pub const fn maybe(name: &'static str, kind: ColumnKind, doc: &'static str) -> Column {
    Column { name, kind, is_nullable: true, refers: None, doc }
}

/// An id of another table's row.
pub const fn id_of(target: Target, name: &'static str, doc: &'static str) -> Column {
    Column { name, kind: ColumnKind::Id, is_nullable: false, refers: Some(target), doc }
}

/// An id of another table's row, if there is one.
pub const fn maybe_id_of(target: Target, name: &'static str, doc: &'static str) -> Column {
    Column { name, kind: ColumnKind::Id, is_nullable: true, refers: Some(target), doc }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn declarations_are_complete_and_no_name_stands_twice() {
        let tables = stored::ALL.iter().chain(view::ALL);
        for table in tables {
            let names: HashSet<_> = table.columns.iter().map(|column| column.name).collect();
            assert_eq!(names.len(), table.columns.len(), "{}", table.name);
            assert!(table.doc.ends_with('.'), "{}", table.name);
            for column in table.columns {
                assert!(column.doc.ends_with('.'), "{}.{}", table.name, column.name);
                let is_said = column.name.ends_with("_nanos");
                let is_time = matches!(column.kind, ColumnKind::Nanos | ColumnKind::Real);
                let is_right = if is_said { is_time } else { column.kind != ColumnKind::Nanos };
                assert!(is_right, "{}.{}", table.name, column.name);
            }
            assert!(table.sorted_by.is_none_or(|name| table.position(name).is_some()));
        }
        for list in [stored::ALL, view::ALL] {
            let names: HashSet<_> = list.iter().map(|table| table.name).collect();
            assert_eq!(names.len(), list.len());
        }
    }
}
