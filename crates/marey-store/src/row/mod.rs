//! The rows of stored tables as structs, which importers make and exporters read.
//!
//! A struct's fields are its table's columns in order; a [`Field`] may be several columns. So the
//! declaration in [`marey_model::table::stored`] stays the only one: [`Row::TABLE`] is it, and a test
//! holds the two together. Ids are those of the run.

mod bytes;
mod field;
mod tables;
mod word;

use arrow::array::ArrayRef;
use marey_model::table::Table;

pub use self::bytes::{Bytes, Damaged};
pub use self::field::{Args, Field};
pub use self::tables::{
    AsyncSpan, Collective, Counter, Device, Flow, GpuActivity, Instant, MemoryBlock, MemoryEvent,
    Metadata, Metric, Sample, Span, Step,
};
pub use self::word::{ActivityKind, CollectiveState, FlowPoint, InstantScope, MemoryAction};

/// A row of a stored table.
pub trait Row: Sized {
    /// Its table.
    const TABLE: &'static Table;
    /// What collects the columns of rows.
    type Columns: Default;
    /// Appends it to columns.
    fn append(&self, columns: &mut Self::Columns);
    /// Takes the columns, which are empty then.
    fn finish(columns: &mut Self::Columns) -> Vec<ArrayRef>;
    /// Reads a row of the table's columns.
    fn read(columns: &[ArrayRef], row: usize) -> Self;
    /// Appends its bytes, in this program's own form.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads its bytes back.
    fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged>;
    /// Bytes that it takes beyond the struct.
    fn heap_bytes(&self) -> usize;

    /// What rows are sorted by: when it began, in nanoseconds since 1970; 0, if they are not.
    fn start_nanos(&self) -> i64;
}

/// Declares rows: the struct, and how its fields go to columns and bytes and back.
macro_rules! rows {
    ($(
        $(#[$doc:meta])*
        $name:ident of $table:ident by ($($time:ident)?) { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ }
    )+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)+
        }

        const _: () = {
            /// The columns of each field.
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
                        let (own, rest) = columns.split_at(<$type as Field>::WIDTH);
                        columns = rest;
                        <$type as Field>::read(own, row)
                    };)+
                    debug_assert!(columns.is_empty());
                    Self { $($field,)+ }
                }

                fn put(&self, out: &mut Vec<u8>) {
                    $(self.$field.put(out);)+
                }

                fn take(input: &mut Bytes<'_>) -> Result<Self, Damaged> {
                    Ok(Self { $($field: <$type as Field>::take(input)?,)+ })
                }

                fn heap_bytes(&self) -> usize {
                    0 $(+ self.$field.heap_bytes())+
                }

                fn start_nanos(&self) -> i64 {
                    0 $(+ self.$time)?
                }
            }
        };
    )+};
}
use rows;
