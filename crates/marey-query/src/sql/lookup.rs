//! Lookups from the ids of a run to their values: columns by id, read once on first use, and paths.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt32Array, new_empty_array};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options, concat, take};
use datafusion::arrow::datatypes::{DataType, UInt32Type};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use marey_model::table::{Table, stored};
use marey_store::Run;

use super::paths::Paths;

/// The value that is looked up: a path, or a column of the table in which the id is the row.
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

/// The columns of a run by id, and the paths of its contexts.
pub(super) struct Lookups {
    run: Arc<Run>,
    pool: Arc<dyn MemoryPool>,
    columns: [LazyValue<Column>; Lookup::ALL.len()],
    first_ids: [LazyValue<Column>; Lookup::ALL.len()],
    arg_texts: LazyValue<Column>,
    paths: LazyValue<Paths>,
}

/// A value that is created on first use, by one thread while other threads wait: creating it
/// several times at once would multiply the memory.
struct LazyValue<T> {
    initialized: OnceLock<Reserved<T>>,
    init_lock: Mutex<()>,
}

struct Reserved<T> {
    value: T,
    /// Accounts for the memory of the value as long as it lives.
    _reservation: MemoryReservation,
}

/// The value of each id.
type Column = ArrayRef;

impl<T> Default for LazyValue<T> {
    fn default() -> Self {
        Self { initialized: OnceLock::new(), init_lock: Mutex::new(()) }
    }
}

impl<T> LazyValue<T> {
    /// The value, created on first use; `reservation` accounts for its memory.
    fn get(
        &self,
        reservation: MemoryReservation,
        create: impl FnOnce(&MemoryReservation) -> Result<T>,
    ) -> Result<&T> {
        if let Some(initialized) = self.initialized.get() {
            return Ok(&initialized.value);
        }
        let _init_guard = self.init_lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(initialized) = self.initialized.get() {
            return Ok(&initialized.value);
        }
        let value = create(&reservation)?;
        Ok(&self.initialized.get_or_init(|| Reserved { value, _reservation: reservation }).value)
    }
}

impl Lookups {
    pub(super) fn new(run: Arc<Run>, pool: Arc<dyn MemoryPool>) -> Self {
        Self {
            run,
            pool,
            columns: Default::default(),
            first_ids: Default::default(),
            arg_texts: LazyValue::default(),
            paths: LazyValue::default(),
        }
    }

    /// The number of ids, which start at 0.
    pub(super) fn count(&self, lookup: Lookup) -> Result<usize> {
        match lookup {
            Lookup::Path => Ok(self.paths()?.count()),
            _ => Ok(self.column(lookup)?.len()),
        }
    }

    /// The values of ids; null for unknown ids.
    pub(super) fn values(&self, lookup: Lookup, ids: &ArrayRef) -> Result<ArrayRef> {
        match lookup {
            Lookup::Path => {
                let paths = self.paths()?;
                paths.build(&ids_or_null(ids, paths.count())?)
            }
            _ => take_by_id(self.column(lookup)?, ids),
        }
    }

    /// For each id the first id with the same text, to group by instead of the text.
    pub(super) fn first_ids_with_same_value(
        &self,
        lookup: Lookup,
        ids: &ArrayRef,
    ) -> Result<ArrayRef> {
        let first_ids =
            self.first_ids[lookup as usize].get(self.reserve("names"), |reservation| {
                let first_ids: UInt32Array = if lookup == Lookup::Path {
                    self.paths()?.first_ids_with_same_value(reservation)?.into()
                } else {
                    first_ids_with_same_text(self.column(lookup)?, reservation)?
                };
                reservation.try_resize(first_ids.get_array_memory_size())?;
                Ok(Arc::new(first_ids) as ArrayRef)
            })?;
        take_by_id(first_ids, ids)
    }

    /// The argument text of each id, with placeholders for its numbers.
    pub(super) fn arg_texts(&self) -> Result<&ArrayRef> {
        let read = |reservation: &_| self.read_by_id(&stored::ARGS, "text", reservation);
        self.arg_texts.get(self.reserve("args"), read)
    }

    /// A reservation for memory of the columns.
    pub(super) fn reserve(&self, consumer: &'static str) -> MemoryReservation {
        MemoryConsumer::new(consumer).register(&self.pool)
    }

    /// The value of each id, from 0; null for ids that do not occur.
    fn column(&self, lookup: Lookup) -> Result<&ArrayRef> {
        let (table, column) = match lookup {
            Lookup::Name => (&stored::STRINGS, "text"),
            Lookup::Kind => (&stored::CONTEXTS, "kind"),
            Lookup::Depth => (&stored::CONTEXTS, "depth"),
            Lookup::ThreadName => (&stored::THREADS, "name"),
            Lookup::ProcessOf => (&stored::THREADS, "process_id"),
            Lookup::Pid => (&stored::PROCESSES, "pid"),
            Lookup::Rank => (&stored::PROCESSES, "rank"),
            Lookup::Path => return internal_err!("paths are built on demand"),
        };
        let read = |reservation: &_| self.read_by_id(table, column, reservation);
        self.columns[lookup as usize].get(self.reserve("names"), read)
    }

    fn paths(&self) -> Result<&Paths> {
        self.paths.get(self.reserve("paths"), |reservation| {
            let read = |column| self.read_by_id(&stored::CONTEXTS, column, reservation);
            let (name_ids, parents) = (read("name_id")?, read("parent_id")?);
            Paths::new(Arc::clone(self.column(Lookup::Name)?), &name_ids, &parents)
        })
    }

    /// A column of a table in the order of its ids. Strings stay in the buffers that they were read
    /// into, some thousand in each: a single buffer is limited to 2 GiB.
    ///
    /// Reserves the memory of the column, and of its copies until the column is complete.
    fn read_by_id(
        &self,
        table: &'static Table,
        column: &str,
        reservation: &MemoryReservation,
    ) -> Result<ArrayRef> {
        let bytes_before = reservation.size();
        let (mut values, mut ids) = (Vec::new(), Vec::new());
        for batch in self.run.batches(table) {
            let batch =
                batch.map_err(|error| DataFusionError::External(Box::new(Arc::new(error))))?;
            let declared_column = |column| batch.column_by_name(column).expect("declared");
            let values_of_batch = match declared_column(column).data_type() {
                DataType::Utf8 => cast(declared_column(column), &DataType::Utf8View)?,
                _ => Arc::clone(declared_column(column)),
            };
            let ids_of_batch = declared_column("id").as_primitive::<UInt32Type>().values();
            let copied_bytes =
                size_of_val(&**ids_of_batch) + values_of_batch.len() * MAX_VALUE_BYTES;
            reservation.try_grow(values_of_batch.get_array_memory_size() + copied_bytes)?;
            values.push(values_of_batch);
            ids.extend_from_slice(ids_of_batch);
        }
        let values = match &values[..] {
            [] => new_empty_array(&column_type(table, column)),
            values => concat(&values.iter().map(AsRef::as_ref).collect::<Vec<_>>())?,
        };
        let column = if ids.iter().enumerate().all(|(row, &id)| row == id as usize) {
            values
        } else {
            sort_by_id(table, &values, &ids, reservation)?
        };
        reservation.try_resize(bytes_before + column.get_array_memory_size())?;
        Ok(column)
    }
}

/// Size of a value of a column outside of its text: at most a view of a string.
const MAX_VALUE_BYTES: usize = size_of::<u128>();

/// Returns the value of each id of a table, null for ids that do not occur. Reserves the memory
/// before using it.
fn sort_by_id(
    table: &Table,
    values: &ArrayRef,
    ids: &[u32],
    reservation: &MemoryReservation,
) -> Result<ArrayRef> {
    let id_count = ids.iter().max().map_or(0, |&max| max as usize + 1);
    if id_count > MAX_UNUSED_IDS + 4 * ids.len() {
        let message =
            format!("the ids of `{}` go up to {id_count}, with {} rows", table.name, ids.len());
        return Err(DataFusionError::Execution(message));
    }
    reservation
        .try_grow(id_count * (size_of::<Option<u32>>() + size_of::<u32>() + MAX_VALUE_BYTES))?;
    let mut rows = vec![None; id_count];
    for (row, &id) in (0..).zip(ids) {
        rows[id as usize] = Some(row);
    }
    Ok(take(values, &UInt32Array::from(rows), None)?)
}

/// Returns for each text the number of the first equal one. Reserves the memory before using it.
fn first_ids_with_same_text(
    texts: &ArrayRef,
    reservation: &MemoryReservation,
) -> Result<UInt32Array> {
    const BYTES_PER_TEXT: usize = 48; // in the map, while it grows
    let texts = texts.as_string_view();
    reservation.try_grow(texts.len() * size_of::<Option<u32>>())?;
    let mut ids_by_text: HashMap<&str, u32> = HashMap::new();
    let mut first_ids = Vec::with_capacity(texts.len());
    for (id, text) in (0..).zip(texts) {
        if ids_by_text.len() == ids_by_text.capacity() {
            let additional = ids_by_text.len().max(1);
            reservation.try_grow(additional * BYTES_PER_TEXT)?;
            ids_by_text.reserve(additional);
        }
        first_ids.push(text.map(|text| *ids_by_text.entry(text).or_insert(id)));
    }
    Ok(first_ids.into())
}

/// The type of a table's column, with strings as views.
fn column_type(table: &Table, column: &str) -> DataType {
    let schema = marey_store::arrow_schema(table);
    match schema.field_with_name(column).expect("declared").data_type() {
        DataType::Utf8 => DataType::Utf8View,
        other => other.clone(),
    }
}

/// The values of ids; null for unknown ids.
fn take_by_id(values: &ArrayRef, ids: &ArrayRef) -> Result<ArrayRef> {
    Ok(take(values, &ids_or_null(ids, values.len())?, None)?)
}

/// The ids as row numbers; null for unknown ids.
pub(super) fn ids_or_null(ids: &ArrayRef, id_count: usize) -> Result<UInt32Array> {
    let null_on_overflow = CastOptions { safe: true, ..CastOptions::default() };
    let ids = cast_with_options(ids, &DataType::UInt32, &null_on_overflow)?;
    let ids = ids.as_primitive::<UInt32Type>();
    if ids.values().iter().all(|&id| (id as usize) < id_count) {
        return Ok(ids.clone());
    }
    Ok(ids.iter().map(|id| id.filter(|&id| (id as usize) < id_count)).collect())
}

/// Number of ids that may be unused in a small table.
const MAX_UNUSED_IDS: usize = 1 << 16;

/// Two functions are equal if they look up in the same run.
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use datafusion::arrow::buffer::Buffer;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};
    use marey_model::args::NewArgs;
    use marey_store::Assembler;

    use super::*;

    /// Lookups of a run that has these argument texts, with unlimited memory.
    fn lookups(texts: impl Iterator<Item = String>) -> Lookups {
        Lookups::new(run(texts), Arc::new(UnboundedMemoryPool::default()))
    }

    fn run(texts: impl Iterator<Item = String>) -> Arc<Run> {
        let mut assembler = Assembler::temporary(&marey_store::temp_dir());
        for text in texts {
            let mut new = NewArgs::default();
            new.text("why", &text);
            assembler.args(&mut new).unwrap();
        }
        let (run, _) = assembler.open(None, Path::new("test")).unwrap();
        Arc::new(run)
    }

    #[test]
    fn the_copies_of_a_column_that_is_read_count_as_memory() {
        let run = run((0..20_000).map(|number| format!("text {number}")));
        let read = |pool: Arc<dyn MemoryPool>| {
            let lookups = Lookups::new(Arc::clone(&run), Arc::clone(&pool));
            lookups.arg_texts().map(|_| pool.reserved())
        };
        let bytes = read(Arc::new(UnboundedMemoryPool::default())).unwrap();
        assert!(bytes > 0);
        read(Arc::new(GreedyMemoryPool::new(bytes))).unwrap_err();
        assert_eq!(read(Arc::new(GreedyMemoryPool::new(2 * bytes))).unwrap(), bytes);
    }

    #[test]
    fn a_value_that_all_threads_need_is_created_once() {
        const THREADS: usize = 8;
        let (lazy, create_count, barrier) =
            (LazyValue::default(), AtomicUsize::new(0), Barrier::new(THREADS));
        let lookups = lookups([].into_iter());
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    barrier.wait();
                    let create = |_: &MemoryReservation| {
                        create_count.fetch_add(1, Ordering::Relaxed);
                        (0..1_000).for_each(|_| thread::yield_now());
                        Ok(7)
                    };
                    assert_eq!(*lazy.get(lookups.reserve("test"), create).unwrap(), 7);
                });
            }
        });
        assert_eq!(create_count.into_inner(), 1);
    }

    #[test]
    fn texts_keep_the_buffers_that_they_were_read_into() {
        const TEXTS: usize = 10_000;
        let text = |number: usize| format!("of {}", "abcdefghij".repeat(number % 7 + 1));
        let letters = |number: usize| {
            number
                .to_string()
                .bytes()
                .map(|digit| char::from(digit - b'0' + b'a'))
                .collect::<String>()
        };
        let lookups = lookups((0..TEXTS).map(|number| letters(number) + &text(number)));
        let texts = lookups.arg_texts().unwrap().as_string_view();
        assert_eq!(texts.len(), TEXTS);
        for (number, found) in texts.iter().enumerate() {
            let expected_text = letters(number) + &text(number);
            assert_eq!(found, Some(&*format!(r#"{{"why":"{expected_text}"}}"#)));
        }
        let total_bytes: usize = texts.iter().flatten().map(str::len).sum();
        let largest = texts.data_buffers().iter().map(Buffer::len).max().unwrap();
        assert!(largest < total_bytes / 2, "{largest} of {total_bytes} bytes in one buffer");
    }
}
