//! Tests of questions on a run: which ones are asked, and what happens if one fails.

use marey_model::table::{Table, stored};
use marey_query::sql::SqlError;

use super::sample_run;
use crate::ask::{Cell, Question, Questions, Rows};

fn question(sql: &'static str) -> Question {
    Question { sql: sql.into(), max_rows: None, needed_tables: &[], probe: None }
}

fn one() -> Rows {
    Rows { columns: vec!["one".into()], rows: vec![vec![Cell::Int(1)]], was_cut: false }
}

const ONE: &str = "SELECT 1 AS one";
const UNKNOWN: &str = "SELECT * FROM nothing";
const STEPS: &[&Table] = &[&stored::STEPS];
const SAMPLES: &[&Table] = &[&stored::SAMPLES];

#[test]
fn a_question_without_the_rows_that_it_needs_is_not_asked() {
    let database = sample_run::with_steps(2);
    let questions = Questions::new(&database);
    let no_row = "SELECT number FROM raw.steps WHERE number < 0";
    let ask = |needed_tables, probe| {
        let question = Question { needed_tables, probe, ..question(ONE) };
        questions.ask_all(&[question]).unwrap().remove(0)
    };
    assert_eq!(ask(SAMPLES, None), Rows::default());
    assert_eq!(ask(SAMPLES, Some(no_row)), Rows::default());
    assert_eq!(ask(SAMPLES, Some(ONE)), one());
    assert_eq!(ask(SAMPLES, Some(UNKNOWN)), one());
    assert_eq!(ask(STEPS, None), one());
    assert_eq!(ask(&[&stored::SAMPLES, &stored::STEPS], Some(no_row)), one());
}

#[test]
fn a_failed_question_leaves_the_answers_of_the_others() {
    let database = sample_run::with_steps(1);
    let questions = Questions::new(&database);
    let both = [question(UNKNOWN), question(ONE)];
    let answers = questions.ask_each(&both).unwrap();
    assert!(matches!(answers[0], Err(SqlError::UnknownTable { .. })));
    assert_eq!(answers[1].as_ref().unwrap(), &one());
    assert_eq!(questions.answered(), 1);
    assert!(matches!(questions.ask_all(&both), Err(SqlError::UnknownTable { .. })));
    // An answer of an earlier call does not count.
    assert!(matches!(questions.ask_each(&both[..1]), Err(SqlError::UnknownTable { .. })));
}

#[test]
fn questions_that_share_a_view_are_answered_as_when_asked_alone() {
    let database = sample_run::with_steps(3);
    let steps = question("SELECT step_count AS count FROM step_summary");
    let window = question("SELECT window_nanos AS nanos FROM step_summary");
    let answers = Questions::new(&database).ask_all(&[steps, window]).unwrap();
    assert_eq!(answers[0].rows, [[Cell::Int(3)]]);
    assert_eq!(answers[1].rows, [[Cell::Int(33_000_000)]]);
}

#[test]
fn rows_beyond_the_maximum_are_cut() {
    let database = sample_run::with_steps(3);
    let steps = question("SELECT number FROM raw.steps ORDER BY number");
    let ask = |max_rows| {
        let question = Question { max_rows, ..steps.clone() };
        Questions::new(&database).ask_all(&[question]).unwrap().remove(0)
    };
    assert_eq!((ask(None).rows.len(), ask(None).was_cut), (3, false));
    assert_eq!((ask(Some(2)).rows.len(), ask(Some(2)).was_cut), (2, true));
}

#[test]
fn after_a_cancellation_nothing_is_asked() {
    let database = sample_run::with_steps(1);
    let questions = Questions::new(&database);
    questions.cancel();
    assert!(matches!(questions.ask(ONE, None), Err(SqlError::Cancelled)));
    for asked in [&[][..], &[question(ONE)]] {
        assert!(matches!(questions.ask_each(asked), Err(SqlError::Cancelled)));
    }
    assert_eq!(questions.answered(), 0);
}
