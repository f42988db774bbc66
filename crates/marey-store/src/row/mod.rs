//! Structs for the rows of stored tables, which importers write and exporters read.
//!
//! The fields of a struct are the columns of its table in order, but a [`Field`] may occupy several
//! columns. The declaration in [`marey_model::table::stored`] is authoritative: [`Row::TABLE`]
//! refers to it, and a test compares both. Ids are those of the run.

mod bytes;
mod enums;
mod field;
mod tables;

use arrow::array::ArrayRef;
use marey_model::table::Table;

pub use self::bytes::{DamagedRow, RowBytes};
pub use self::enums::{ActivityKind, CollectiveState, FlowPoint, InstantScope, MemoryAction};
pub use self::field::{Args, Field};
pub use self::tables::{
    AsyncSpan, Collective, Counter, Device, Flow, GpuActivity, Instant, MemoryBlock, MemoryEvent,
    Metadata, Metric, Sample, Span, Step, Variable, for_each_table,
};

/// A row of a stored table.
pub trait Row: Sized {
    /// The table.
    const TABLE: &'static Table;
    /// Builders of the columns.
    type Columns: Default;
    /// Appends the row to the columns.
    fn append(&self, columns: &mut Self::Columns);
    /// Returns the finished columns and resets the builders.
    fn finish(columns: &mut Self::Columns) -> Vec<ArrayRef>;
    /// Reads a row from the table's columns.
    fn read(columns: &[ArrayRef], row: usize) -> Self;
    /// Appends the encoded row.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads an encoded row.
    fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow>;
    /// Returns the bytes on the heap.
    fn heap_bytes(&self) -> usize;

    /// Returns the sort key: the time in nanoseconds since 1970, or 0 if the table is not sorted.
    fn start_nanos(&self) -> i64;
}

/// An operation on the rows of every table, which [`for_each_table`] calls.
pub trait TableVisitor {
    /// The reason why it failed.
    type Error;
    /// Visits the table of `R`.
    fn visit<R: Row>(&mut self) -> Result<(), Self::Error>;
}

/// Declares a struct for each table, with conversions to columns and bytes.
macro_rules! rows {
    ($(
        $(#[$doc:meta])*
        $name:ident of $table:ident by ($($time:ident)?) { $($field:ident: $type:ty,)+ }
    )+) => {
        /// Visits each table that has a row struct.
        pub fn for_each_table<V: TableVisitor>(visitor: &mut V) -> Result<(), V::Error> {
            $(visitor.visit::<$name>()?;)+
            Ok(())
        }

        $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(
                #[doc = concat!("Described in [`stored::", stringify!($table), "`].")]
                pub $field: $type,
            )+
        }

        const _: () = {
            /// Builders of each field's columns.
            #[derive(Debug, Default)]
            pub struct Columns {
                $($field: <$type as Field>::Columns,)+
            }

            impl Row for $name {
                const TABLE: &'static Table = &stored::$table;
                type Columns = Columns;

                fn append(&self, columns: &mut Columns) {
                    $(self.$field.append(&mut columns.$field);)+
                }

                fn finish(columns: &mut Columns) -> Vec<ArrayRef> {
                    let mut arrays = Vec::with_capacity(Self::TABLE.columns.len());
                    $(<$type as Field>::finish(&mut columns.$field, &mut arrays);)+
                    arrays
                }

                fn read(columns: &[ArrayRef], row: usize) -> Self {
                    let mut columns = columns;
                    $(let $field = {
                        let (field_columns, rest) = columns.split_at(<$type as Field>::WIDTH);
                        columns = rest;
                        <$type as Field>::read(field_columns, row)
                    };)+
                    debug_assert!(columns.is_empty());
                    Self { $($field,)+ }
                }

                fn encode(&self, out: &mut Vec<u8>) {
                    $(self.$field.encode(out);)+
                }

                fn decode(input: &mut RowBytes<'_>) -> Result<Self, DamagedRow> {
                    Ok(Self { $($field: <$type as Field>::decode(input)?,)+ })
                }

                fn heap_bytes(&self) -> usize {
                    0 $(+ self.$field.heap_bytes())+
                }

                fn start_nanos(&self) -> i64 {
                    0 $(+ self.$time)?
                }
            }
        };
        )+
    };
}
use rows;
