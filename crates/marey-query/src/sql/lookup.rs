//! What the ids of a run stand for: columns by id, read once, on first use.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder, UInt32Array};
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{DataType, UInt32Type};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use marey_model::table::{Table, stored};
use marey_store::{Run, StoreError};

/// What an id is looked up for: a column whose row is the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lookup {
    Name,
    Path,
    Kind,
    Depth,
    ThreadName,
    ProcessOf,
    Pid,
    Rank,
}

impl Lookup {
    pub(super) const ALL: [Self; 8] = [
        Self::Name,
        Self::Path,
        Self::Kind,
        Self::Depth,
        Self::ThreadName,
        Self::ProcessOf,
        Self::Pid,
        Self::Rank,
    ];

    pub(super) const fn data_type(self) -> DataType {
        match self {
            Self::Name | Self::Path | Self::Kind | Self::ThreadName => DataType::Utf8View,
            Self::Depth | Self::ProcessOf => DataType::UInt32,
            Self::Pid | Self::Rank => DataType::Int64,
        }
    }
}

/// The columns of a run by id.
pub(super) struct Lookups {
    run: Arc<Run>,
    pool: Arc<dyn MemoryPool>,
    columns: [OnceLock<Column>; Lookup::ALL.len()],
    firsts: [OnceLock<Column>; Lookup::ALL.len()],
    arg_texts: OnceLock<Column>,
}

struct Column {
    values: ArrayRef,
    /// Accounts for the values as long as they live.
    _reservation: MemoryReservation,
}

impl Lookups {
    pub(super) fn new(run: Arc<Run>, pool: Arc<dyn MemoryPool>) -> Self {
        Self {
            run,
            pool,
            columns: Default::default(),
            firsts: Default::default(),
            arg_texts: OnceLock::new(),
        }
    }

    /// The value of each id, from 0; null where there is none.
    pub(super) fn column(&self, lookup: Lookup) -> Result<&ArrayRef> {
        self.kept(&self.columns[lookup as usize], || match lookup {
            Lookup::Name => self.by_id(&stored::STRINGS, "text"),
            Lookup::Path => self.paths(),
            Lookup::Kind => self.by_id(&stored::CONTEXTS, "kind"),
            Lookup::Depth => self.by_id(&stored::CONTEXTS, "depth"),
            Lookup::ThreadName => self.by_id(&stored::THREADS, "name"),
            Lookup::ProcessOf => self.by_id(&stored::THREADS, "process_id"),
            Lookup::Pid => self.by_id(&stored::PROCESSES, "pid"),
            Lookup::Rank => self.by_id(&stored::PROCESSES, "rank"),
        })
    }

    /// For each id the first one with the same text: what to group by in place of the text.
    pub(super) fn first_with_same(&self, lookup: Lookup) -> Result<&ArrayRef> {
        self.kept(&self.firsts[lookup as usize], || {
            let values = self.column(lookup)?.as_string_view();
            let mut firsts = HashMap::new();
            let ids =
                (0..).zip(values.iter()).map(|(id, text)| Some(*firsts.entry(text?).or_insert(id)));
            Ok(Arc::new(ids.collect::<UInt32Array>()))
        })
    }

    /// The text of each id of arguments, with gaps for their numbers.
    pub(super) fn arg_texts(&self) -> Result<&ArrayRef> {
        self.kept(&self.arg_texts, || self.by_id(&stored::ARGS, "text"))
    }

    /// Accounts for what is being made of the columns.
    pub(super) fn reservation(&self, made: &'static str) -> MemoryReservation {
        MemoryConsumer::new(made).register(&self.pool)
    }

    fn kept<'a>(
        &self,
        cell: &'a OnceLock<Column>,
        read: impl FnOnce() -> Result<ArrayRef>,
    ) -> Result<&'a ArrayRef> {
        if let Some(column) = cell.get() {
            return Ok(&column.values);
        }
        let values = read()?;
        let reservation = self.reservation("names");
        reservation.try_grow(values.get_array_memory_size())?;
        Ok(&cell.get_or_init(|| Column { values, _reservation: reservation }).values)
    }

    /// A column of a small table in the order of its ids.
    fn by_id(&self, table: &'static Table, column: &str) -> Result<ArrayRef> {
        let read = |error: StoreError| DataFusionError::External(Box::new(Arc::new(error)));
        let batch = self.run.read(table).map_err(read)?;
        let declared = |column| batch.column_by_name(column).expect("declared");
        let values = match declared(column).data_type() {
            DataType::Utf8 => cast(declared(column), &DataType::Utf8View)?,
            _ => Arc::clone(declared(column)),
        };
        let ids = declared("id").as_primitive::<UInt32Type>().values();
        if ids.iter().enumerate().all(|(row, &id)| row == id as usize) {
            return Ok(values);
        }
        let len = ids.iter().max().map_or(0, |&max| max as usize + 1);
        if len > MAX_GAPS + 4 * ids.len() {
            let message =
                format!("the ids of `{}` go up to {len}, with {} rows", table.name, ids.len());
            return Err(DataFusionError::Execution(message));
        }
        let mut rows = vec![None; len];
        for (row, &id) in (0..).zip(ids) {
            rows[id as usize] = Some(row);
        }
        Ok(take(&values, &UInt32Array::from(rows), None)?)
    }

    /// The names on the way to each context, without the root's.
    fn paths(&self) -> Result<ArrayRef> {
        let names = self.column(Lookup::Name)?.as_string_view();
        let name_ids = self.by_id(&stored::CONTEXTS, "name_id")?;
        let parents = self.by_id(&stored::CONTEXTS, "parent_id")?;
        let (name_ids, parents) =
            (name_ids.as_primitive::<UInt32Type>(), parents.as_primitive::<UInt32Type>());
        let reservation = self.reservation("paths");
        let mut paths = StringViewBuilder::new().with_fixed_block_size(PATH_BLOCK_BYTES);
        let mut path = Vec::new();
        for context in 0..parents.len() {
            path.clear();
            if parents.is_valid(context) {
                let (parent, name) =
                    (parents.value(context) as usize, name_ids.value(context) as usize);
                if parent >= context || name >= names.len() {
                    let message = format!("context {context} has no parent or no name before it");
                    return Err(DataFusionError::Execution(message));
                }
                path.extend_from_slice(paths.get_value(parent));
                if parents.is_valid(parent) {
                    path.push(b'/');
                }
                path.extend_from_slice(names.value(name).as_bytes());
            }
            reservation.try_grow(path.len())?;
            paths.append_value(str::from_utf8(&path).expect("joined from texts"));
        }
        Ok(Arc::new(paths.finish()))
    }
}

/// How many ids may be missing in a small table.
const MAX_GAPS: usize = 1 << 16;
const PATH_BLOCK_BYTES: u32 = 1 << 20;

/// Functions are the same if they look up in the same run.
impl PartialEq for Lookups {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.run, &other.run)
    }
}

impl Eq for Lookups {}

impl std::hash::Hash for Lookups {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.run).hash(state);
    }
}

impl fmt::Debug for Lookups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookups").field("run", &self.run.path()).finish_non_exhaustive()
    }
}
