//! Asks a run the queries of reports, comparisons and gates, several at a time, and returns their
//! rows as plain values. All queries of one [`Questions`] can be cancelled together.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use marey_model::table::Table;
use marey_query::sql::{Answer, Canceller, Database, SqlError};
use serde::Serialize;

/// Queries on one run, which can be cancelled together.
pub struct Questions<'a> {
    database: &'a Database,
    /// The cancellers of the queries so far. `None` once all were cancelled.
    cancellers: Mutex<Option<Vec<Canceller>>>,
    answered: AtomicUsize,
}

/// A query, and the conditions under which it need not be asked.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) sql: Cow<'static, str>,
    pub(crate) max_rows: Option<u64>,
    /// If this is not empty and none of these tables has rows, the query is not asked and its
    /// answer has no rows.
    pub(crate) needed_tables: &'static [&'static Table],
    /// An exception to `needed_tables`: the question is asked all the same if this query returns a
    /// row.
    pub(crate) probe: Option<&'static str>,
}

impl Question {
    /// Returns a query for all of its rows.
    pub(crate) fn new(
        sql: impl Into<Cow<'static, str>>,
        needed_tables: &'static [&'static Table],
    ) -> Self {
        Self { sql: sql.into(), max_rows: None, needed_tables, probe: None }
    }
}

/// A value of an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// No value.
    Null,
    /// A boolean.
    Flag(bool),
    /// A whole number.
    Int(i64),
    /// A real number. NaN and infinity become null in JSON.
    Real(f64),
    /// Text, or a value of any other type converted to text.
    Text(String),
}

impl Cell {
    /// The value as a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match *self {
            Self::Int(value) => Some(value as f64),
            Self::Real(value) => Some(value),
            Self::Null | Self::Flag(_) | Self::Text(_) => None,
        }
    }

    /// The value as a whole number, if it is one.
    pub fn integer(&self) -> Option<i64> {
        match *self {
            Self::Int(value) => Some(value),
            _ => None,
        }
    }

    /// The value as text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value as text, or an empty text if it is none.
    pub fn text(&self) -> &str {
        self.as_text().unwrap_or_default()
    }
}

/// The rows of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with a value for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Whether rows were cut off at the requested maximum.
    pub was_cut: bool,
}

impl Rows {
    /// Returns the values of a column, or nulls if there is no column of this name.
    pub(crate) fn column(&self, name: &str) -> impl Iterator<Item = &Cell> {
        let index = self.columns.iter().position(|column| column == name);
        self.rows.iter().map(move |row| index.map_or(&Cell::Null, |index| &row[index]))
    }

    /// Returns the value of a column in one of the rows, or null if there is no column of this
    /// name.
    pub(crate) fn cell<'a>(&self, row: &'a [Cell], name: &str) -> &'a Cell {
        let index = self.columns.iter().position(|column| column == name);
        index.map_or(&Cell::Null, |index| &row[index])
    }
}

impl<'a> Questions<'a> {
    /// Queries on the run of `database`.
    pub fn new(database: &'a Database) -> Self {
        let cancellers = Mutex::new(Some(Vec::new()));
        Self { database, cancellers, answered: AtomicUsize::new(0) }
    }

    /// The number of queries answered so far.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Cancels all queries, running and future.
    pub fn cancel(&self) {
        let mut cancellers = self.cancellers.lock().unwrap_or_else(PoisonError::into_inner);
        cancellers.take().into_iter().flatten().for_each(|query| query.cancel());
    }

    /// Returns the answers in the order of the questions, or an error if any question fails.
    pub(crate) fn ask_all(&self, questions: &[Question]) -> Result<Vec<Rows>, SqlError> {
        self.ask_each(questions)?.into_iter().collect()
    }

    /// Returns the answer or the error of each question, in the order of the questions. Fails if
    /// the queries were cancelled, or if all of them failed.
    pub(crate) fn ask_each(
        &self,
        questions: &[Question],
    ) -> Result<Vec<Result<Rows, SqlError>>, SqlError> {
        let questions: Vec<Option<&Question>> = questions
            .iter()
            .map(|question| self.can_have_rows(question).then_some(question))
            .collect();
        let answered_before = self.answered();
        let too_large = self.compute_shared_views(questions.iter().flatten())?;
        let mut answers = self.ask_at_once(&questions, |question| {
            let Some(question) = question else { return Ok(Rows::default()) };
            let uses_view = |view: &str| marey_query::sql::mentions(&question.sql, view);
            match too_large.iter().find(|(view, _)| uses_view(view)) {
                Some(&(_, limit_bytes)) => Err(SqlError::Memory { limit_bytes }),
                None => self.ask(&question.sql, question.max_rows),
            }
        });
        if self.is_cancelled() {
            return Err(SqlError::Cancelled);
        }
        let first_error_index = answers.iter().position(Result::is_err);
        if let Some(first_error_index) =
            first_error_index.filter(|_| self.answered() == answered_before)
        {
            return answers.swap_remove(first_error_index).map(|_| Vec::new());
        }
        Ok(answers)
    }

    /// Calls `ask` for each item, with the number of concurrent calls that is fastest. Concurrent
    /// queries share the memory, so those that failed are asked again, one at a time.
    fn ask_at_once<I: Sync, T: Send>(
        &self,
        items: &[I],
        ask: impl Fn(&I) -> Result<T, SqlError> + Sync,
    ) -> Vec<Result<T, SqlError>> {
        let thread_count = self.database.queries_at_once();
        let mut answers = map_on_threads(items, thread_count, &ask);
        if thread_count > 1 && !self.is_cancelled() {
            let failed = items.iter().zip(&mut answers).filter(|(_, answer)| answer.is_err());
            failed.for_each(|(item, answer)| *answer = ask(item));
        }
        answers
    }

    /// Computes each view that several questions use, and keeps its rows. Returns the views that
    /// exceed the memory limit, with the limit, so that no question tries again. Any other error
    /// appears again in the questions that use the view.
    fn compute_shared_views<'q>(
        &self,
        questions: impl Iterator<Item = &'q &'q Question>,
    ) -> Result<Vec<(&'static str, usize)>, SqlError> {
        let queries: Vec<&str> = questions.map(|question| &*question.sql).collect();
        let mut too_large = Vec::new();
        for wave in self.database.shared_views(&queries)? {
            let outcomes = self.ask_at_once(&wave, |view| {
                let rows = self.start(&format!("SELECT * FROM {view}"), None)?;
                self.database.keep_view(view, rows)
            });
            for (view, outcome) in wave.into_iter().zip(outcomes) {
                if let Err(SqlError::Memory { limit_bytes }) = outcome {
                    too_large.push((view, limit_bytes));
                }
            }
        }
        Ok(too_large)
    }

    fn can_have_rows(&self, question: &Question) -> bool {
        let run = self.database.run();
        let has_rows = |table: &&Table| run.parts(table).iter().any(|part| part.row_count() > 0);
        question.needed_tables.is_empty()
            || question.needed_tables.iter().any(has_rows)
            // If the probe fails, the question is asked to be safe.
            || question.probe.is_some_and(|sql| {
                !self.ask(sql, Some(1)).is_ok_and(|answer| answer.rows.is_empty())
            })
    }

    fn is_cancelled(&self) -> bool {
        self.cancellers.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Starts a query, and registers it for cancellation.
    fn start(&self, sql: &str, max_rows: Option<u64>) -> Result<Answer, SqlError> {
        if self.is_cancelled() {
            return Err(SqlError::Cancelled);
        }
        let answer = self.database.query(sql, max_rows)?;
        match &mut *self.cancellers.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(cancellers) => cancellers.push(answer.canceller()),
            None => return Err(SqlError::Cancelled),
        }
        Ok(answer)
    }

    /// Runs a query and returns its rows.
    pub(crate) fn ask(&self, sql: &str, max_rows: Option<u64>) -> Result<Rows, SqlError> {
        let mut answer = self.start(sql, max_rows)?;
        let schema = answer.schema();
        let columns = schema.fields().iter().map(|field| field.name().clone()).collect();
        let mut rows = Vec::new();
        for batch in &mut answer {
            push_rows(&mut rows, &batch?);
        }
        self.answered.fetch_add(1, Ordering::Relaxed);
        Ok(Rows { columns, rows, was_cut: answer.was_cut() })
    }
}

/// Calls `ask` for each item on `thread_count` threads. Returns the results in the order of the
/// items.
fn map_on_threads<I: Sync, T: Send>(
    items: &[I],
    thread_count: usize,
    ask: impl Fn(&I) -> T + Sync,
) -> Vec<T> {
    let next_index = AtomicUsize::new(0);
    let run_worker = || {
        let mut results = Vec::new();
        while let Some((index, item)) = Some(next_index.fetch_add(1, Ordering::Relaxed))
            .and_then(|index| items.get(index).map(|item| (index, item)))
        {
            results.push((index, ask(item)));
        }
        results
    };
    let mut results = thread::scope(|scope| {
        let workers: Vec<_> =
            (1..thread_count.min(items.len())).map(|_| scope.spawn(run_worker)).collect();
        let mut results = run_worker();
        for worker in workers {
            results.extend(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn push_rows(rows: &mut Vec<Vec<Cell>>, batch: &RecordBatch) {
    let first_new_row = rows.len();
    rows.resize_with(first_new_row + batch.num_rows(), || Vec::with_capacity(batch.num_columns()));
    for column in batch.columns() {
        let cells = cells(column.as_ref());
        rows[first_new_row..].iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
    }
}

/// The values of a column as cells.
fn cells(column: &dyn Array) -> Vec<Cell> {
    let data_type = column.data_type();
    let plain_type = match data_type {
        DataType::Boolean => DataType::Boolean,
        data_type if data_type.is_integer() => DataType::Int64,
        data_type if data_type.is_numeric() => DataType::Float64,
        _ => DataType::Utf8,
    };
    // A value that does not fit, such as an integer beyond 2^63, becomes null.
    let Ok(column) = cast(column, &plain_type) else { return vec![Cell::Null; column.len()] };
    let cell = |index: usize| match plain_type {
        _ if column.is_null(index) => Cell::Null,
        DataType::Boolean => Cell::Flag(column.as_boolean().value(index)),
        DataType::Int64 => Cell::Int(column.as_primitive::<Int64Type>().value(index)),
        DataType::Float64 => Cell::Real(column.as_primitive::<Float64Type>().value(index)),
        _ => Cell::Text(column.as_string::<i32>().value(index).to_owned()),
    };
    (0..column.len()).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::tests::sample_run;
    use marey_query::sql::Limits;

    use arrow::array::{BooleanArray, Float32Array, StringArray, UInt64Array};

    #[test]
    fn a_column_becomes_cells_of_its_type() {
        let flags = BooleanArray::from(vec![Some(true), None]);
        assert_eq!(cells(&flags), [Cell::Flag(true), Cell::Null]);
        let large = UInt64Array::from(vec![7, u64::MAX]);
        assert_eq!(cells(&large), [Cell::Int(7), Cell::Null]);
        assert_eq!(cells(&Float32Array::from(vec![0.5])), [Cell::Real(0.5)]);
        assert_eq!(cells(&StringArray::from(vec!["x"])), [Cell::Text("x".to_owned())]);
    }

    #[test]
    fn a_cell_has_a_value_of_its_own_type_only() {
        let text = Cell::Text("x".to_owned());
        assert_eq!((Cell::Int(3).number(), Cell::Int(3).integer()), (Some(3.0), Some(3)));
        assert_eq!((Cell::Real(0.5).number(), Cell::Real(0.5).integer()), (Some(0.5), None));
        assert_eq!((text.number(), text.as_text(), text.text()), (None, Some("x"), "x"));
        assert_eq!((Cell::Null.as_text(), Cell::Null.text()), (None, ""));
    }

    #[test]
    fn values_are_found_by_the_name_of_their_column() {
        let rows = Rows {
            columns: vec!["a".to_owned(), "b".to_owned()],
            rows: vec![vec![Cell::Int(1), Cell::Int(2)], vec![Cell::Int(3), Cell::Int(4)]],
            ..Rows::default()
        };
        assert_eq!(rows.column("b").collect::<Vec<_>>(), [&Cell::Int(2), &Cell::Int(4)]);
        assert_eq!(rows.column("c").collect::<Vec<_>>(), [&Cell::Null; 2]);
        assert_eq!(rows.cell(&rows.rows[1], "a"), &Cell::Int(3));
        assert_eq!(rows.cell(&rows.rows[1], "c"), &Cell::Null);
    }

    #[test]
    fn what_fails_beside_others_is_asked_again_alone_unless_cancelled() {
        for (threads, is_cancelled, expected) in [(2, false, 4), (2, true, 2), (1, false, 2)] {
            let database = sample_run::with_limits(1, Limits { threads, ..Limits::default() });
            let questions = Questions::new(&database);
            if is_cancelled {
                questions.cancel();
            }
            let asked = AtomicUsize::new(0);
            let answers = questions.ask_at_once(&[1, 2], |item| {
                let is_first_round = asked.fetch_add(1, Ordering::Relaxed) < 2;
                if is_first_round { Err(SqlError::Memory { limit_bytes: 1 }) } else { Ok(*item) }
            });
            assert_eq!(asked.into_inner(), expected, "{threads} {is_cancelled}");
            let answers: Vec<_> = answers.into_iter().filter_map(Result::ok).collect();
            assert_eq!(answers, if expected == 4 { vec![1, 2] } else { vec![] });
        }
    }

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        for at_once in [1, 3, 200] {
            assert_eq!(map_on_threads(&items, at_once, |item| *item), items);
        }
        assert!(map_on_threads(&[], 3, |item: &u32| *item).is_empty());
    }
}
