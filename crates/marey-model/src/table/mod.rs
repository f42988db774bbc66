//! Declares the tables and views of a run: every column with its type, unit and description.
//!
//! Arrow schemas, the SQL catalogue and the reference page are generated from them.
//! [`stored`] declares the tables that a run stores as Parquet; [`view`] and its neighbours declare
//! the views, with names in place of ids. Every timestamp is in nanoseconds since 1970, on one
//! clock for all processes of a run.

/// Declares tables, and a list of all of them if it is given a name. The doc comment of a table
/// describes a row, on the reference page too.
macro_rules! tables {
    (
        #[doc = $all_doc:literal]
        $all:ident;
        $(
            $(#[doc = $doc:literal])+
            $const:ident = $name:literal $(sorted by $sorted_by:literal)? [$($columns:tt)+]
        )+
    ) => {
        #[doc = $all_doc]
        pub const $all: &[&Table] = &[$(&$const),+];

        tables! { $($(#[doc = $doc])+ $const = $name $(sorted by $sorted_by)? [$($columns)+])+ }
    };
    ($(
        $(#[doc = $doc:literal])+
        $const:ident = $name:literal $(sorted by $sorted_by:literal)? [$($column:expr,)+]
    )+) => {$(
        $(#[doc = $doc])+
        pub const $const: Table = Table {
            name: $name,
            // Each line of a doc comment begins with a space.
            doc: concat!($($doc),+).trim_ascii(),
            columns: &[$($column),+],
            sorted_by: [$(Some($sorted_by),)? None][0],
        };
    )+};
}

pub mod device_time;
pub mod efficiency;
pub mod launching;
pub mod memory;
pub mod recording;
pub mod stepping;
pub mod stored;
pub mod training;
pub mod view;
pub mod waiting;

/// A table or a view.
#[derive(Debug)]
pub struct Table {
    /// Name in SQL; also the folder name of a stored table.
    pub name: &'static str,
    /// Description of a row, in one or two sentences.
    pub doc: &'static str,
    /// The columns, in order.
    pub columns: &'static [Column],
    /// The column that the rows of each file of a stored table are sorted by, ascending.
    pub sorted_by: Option<&'static str>,
}

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Name; a quantity ends in its unit.
    pub name: &'static str,
    /// Type.
    pub kind: ColumnKind,
    /// Whether a value may be null.
    pub is_nullable: bool,
    /// The table whose ids the column holds.
    pub target: Option<Target>,
    /// Description of the value, in one sentence.
    pub doc: &'static str,
}

/// A table that id columns of other tables refer to, by its column `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The string table.
    Strings,
    /// The calling-context tree.
    Contexts,
    /// Argument templates of events.
    Args,
    /// Processes.
    Processes,
    /// Threads.
    Threads,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A timestamp or duration in nanoseconds: signed 64-bit, delta-encoded.
    Nanos,
    /// A signed 64-bit integer.
    Int,
    /// An unsigned 64-bit integer.
    Bits,
    /// An id: unsigned 32-bit.
    Id,
    /// A 64-bit floating-point number.
    Real,
    /// A boolean.
    Flag,
    /// A string.
    Text,
    /// Bytes.
    Bytes,
    /// A list of 64-bit floating-point numbers.
    Reals,
    /// A list of signed 64-bit integers.
    Ints,
}

impl ColumnKind {
    /// Returns the name of the type in SQL, as documentation shows it.
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
    /// Whether the column holds timestamps, not durations.
    pub fn is_timestamp(&self) -> bool {
        self.kind == ColumnKind::Nanos && TIMESTAMPS.contains(&self.name)
    }
}

/// The names of timestamp columns.
const TIMESTAMPS: &[&str] = &["start_nanos", "end_nanos", "time_nanos", "created_nanos"];

impl Table {
    /// Returns the position of a column.
    pub fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|other| other.name == column)
    }
}

/// Declares a column that is never null.
pub const fn column(name: &'static str, kind: ColumnKind, doc: &'static str) -> Column {
    Column { name, kind, is_nullable: false, target: None, doc }
}

/// Declares a nullable column.
pub const fn nullable(name: &'static str, kind: ColumnKind, doc: &'static str) -> Column {
    Column { name, kind, is_nullable: true, target: None, doc }
}

/// Declares a column with ids of another table.
pub const fn id_of(target: Target, name: &'static str, doc: &'static str) -> Column {
    Column { name, kind: ColumnKind::Id, is_nullable: false, target: Some(target), doc }
}

/// Declares a nullable column with ids of another table.
pub const fn nullable_id_of(target: Target, name: &'static str, doc: &'static str) -> Column {
    Column { name, kind: ColumnKind::Id, is_nullable: true, target: Some(target), doc }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn declarations_are_complete_and_names_are_unique() {
        let tables = stored::ALL.iter().chain(view::ALL).chain(view::PYTHON);
        for table in tables {
            let names: HashSet<_> = table.columns.iter().map(|column| column.name).collect();
            assert_eq!(names.len(), table.columns.len(), "{}", table.name);
            assert!(table.doc.ends_with('.'), "{}", table.name);
            for column in table.columns {
                assert!(column.doc.ends_with('.'), "{}.{}", table.name, column.name);
                let has_time_unit = column.name.ends_with("_nanos");
                let is_time = matches!(column.kind, ColumnKind::Nanos | ColumnKind::Real);
                let is_consistent =
                    if has_time_unit { is_time } else { column.kind != ColumnKind::Nanos };
                assert!(is_consistent, "{}.{}", table.name, column.name);
            }
            assert!(table.sorted_by.is_none_or(|name| table.position(name).is_some()));
        }
        for list in [stored::ALL, view::ALL] {
            let names: HashSet<_> = list.iter().map(|table| table.name).collect();
            assert_eq!(names.len(), list.len());
        }
    }

    #[test]
    fn columns_are_found_by_name() {
        for table in stored::ALL.iter().chain(view::ALL) {
            for (position, column) in table.columns.iter().enumerate() {
                assert_eq!(table.position(column.name), Some(position));
            }
            assert_eq!(table.position("absent"), None);
        }
    }

    #[test]
    fn a_duration_is_not_a_timestamp() {
        assert!(column("start_nanos", ColumnKind::Nanos, "").is_timestamp());
        assert!(!column("duration_nanos", ColumnKind::Nanos, "").is_timestamp());
        assert!(!column("start_nanos", ColumnKind::Real, "").is_timestamp());
    }

    #[test]
    fn kinds_have_the_names_of_sql() {
        assert_eq!(ColumnKind::Id.as_str(), "UINTEGER");
        assert_eq!(ColumnKind::Ints.as_str(), "BIGINT[]");
    }
}
