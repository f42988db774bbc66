//! What rules find.

use std::collections::HashSet;
use std::fmt::{self, Display, Write};

use marey_model::quantity::{Grouped, Nanos, Real, Size};
use marey_model::table::stored;
use marey_query::sql::SqlError;
use serde::Serialize;

use crate::ask::{Cell, Question, Questions, Rows};
use crate::rule::{Rule, Thresholds};
use crate::rules;

/// A fault that a rule found.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Name of the rule.
    pub rule: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What it is about: an operation, a kernel, a cause, a rank.
    pub subject: String,
    /// How much it matters.
    pub severity: Severity,
    /// Time that it takes of each step, or of the recording if that has no steps.
    pub impact_nanos: f64,
    /// Whether times are of a step.
    pub is_per_step: bool,
    /// The same, in percent of the step; unknown if that took no time.
    pub impact_percent: Option<f64>,
    /// How much shorter a step could be without it, at most; unknown for what costs no time.
    pub gain_nanos: Option<f64>,
    /// How many times as fast a step would be then, the time of a step by that without the gain; not
    /// beyond 10.
    pub speedup: Option<f64>,
    /// How sure it is.
    pub confidence: Confidence,
    /// Rank of the process, if it has one.
    pub rank: Option<i64>,
    /// The process, in `processes`.
    pub process_id: Option<i64>,
    /// What was found, in a sentence.
    pub description: String,
    /// What to change.
    pub hint: &'static str,
    /// Where it is seen.
    pub evidence: Evidence,
}

/// Where a finding is seen.
#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    /// The query that finds it, and others of its rule.
    pub sql: String,
    /// Columns of the query.
    pub columns: Vec<String>,
    /// The finding's row.
    pub row: Vec<Cell>,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It costs much, or the run will fail.
    High,
    /// It is worth a look.
    Medium,
    /// It is there.
    Low,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Its numbers were read off.
    Measured,
    /// They were attributed to a cause.
    Likely,
    /// It was judged by names, or by a model.
    Possible,
}

impl Severity {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

impl Confidence {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Likely => "likely",
            Self::Possible => "possible",
        }
    }
}

/// What all rules find in a run: what matters most first, then what takes most.
pub fn findings(
    questions: &Questions<'_>,
    thresholds: &Thresholds,
) -> Result<Vec<Finding>, SqlError> {
    let asked = Asked::of(thresholds);
    let answers = questions.ask_all(&asked.questions)?;
    Ok(asked.found(&answers))
}

/// What is asked to find anything: a question for each rule, and one for which processes have steps.
pub(crate) struct Asked {
    pub(crate) questions: Vec<Question>,
}

impl Asked {
    pub(crate) fn of(thresholds: &Thresholds) -> Self {
        let stepped = Question {
            sql: "SELECT DISTINCT process_id FROM raw.steps".into(),
            max_rows: None,
            needs: &[&stored::STEPS],
            or_with: None,
        };
        let rules = rules::ALL.iter().map(|rule| rule.question(thresholds));
        Self { questions: rules.chain([stepped]).collect() }
    }

    /// What the questions are called, in their order.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        rules::ALL.iter().map(|rule| rule.name).chain(["steps of findings"])
    }

    /// What the answers to these questions say.
    pub(crate) fn found(&self, answers: &[Rows]) -> Vec<Finding> {
        let stepped = answers.last().into_iter().flat_map(|rows| rows.column("process_id"));
        let stepped: HashSet<i64> = stepped.filter_map(Cell::whole).collect();
        let answered = rules::ALL.iter().zip(&self.questions).zip(answers);
        let mut found: Vec<Finding> = answered
            .flat_map(|((rule, question), rows)| {
                let stepped = &stepped;
                (0..rows.rows.len()).map(move |at| rule.finding(&question.sql, rows, at, stepped))
            })
            .collect();
        found.sort_by(|a, b| {
            a.severity.cmp(&b.severity).then(b.impact_nanos.total_cmp(&a.impact_nanos))
        });
        found
    }
}

impl Rule {
    pub(crate) fn question(&self, thresholds: &Thresholds) -> Question {
        Question {
            sql: self.query(thresholds).into(),
            max_rows: None,
            needs: self.needs,
            or_with: None,
        }
    }

    fn finding(&self, sql: &str, rows: &Rows, at: usize, stepped: &HashSet<i64>) -> Finding {
        let cell = |name: &str| rows.column(name).nth(at).unwrap_or(&Cell::Null);
        let impact_nanos = cell("impact_nanos").number().unwrap_or(0.0);
        let impact_percent = cell("impact_percent").number();
        let gain_nanos = cell("gain_nanos").number();
        let process_id = cell("process_id").whole();
        let is_per_step = process_id.is_some_and(|process| stepped.contains(&process));
        let per = if is_per_step { "of a step" } else { "of the recording" };
        Finding {
            rule: self.name,
            title: self.title,
            subject: cell("subject").text().to_owned(),
            severity: match cell("severity").text() {
                "high" => Severity::High,
                "medium" => Severity::Medium,
                _ => Severity::Low,
            },
            impact_nanos,
            is_per_step,
            impact_percent,
            gain_nanos,
            speedup: gain_nanos.zip(impact_percent).and_then(|(gain_nanos, percent)| {
                speedup(gain_nanos, 100.0 * impact_nanos / percent)
            }),
            confidence: match cell("confidence").text() {
                "measured" => Confidence::Measured,
                "likely" => Confidence::Likely,
                _ => Confidence::Possible,
            },
            rank: cell("rank").whole(),
            process_id,
            description: describe(&self.says.replace("{per}", per), &cell),
            hint: self.hint,
            evidence: Evidence {
                sql: sql.to_owned(),
                columns: rows.columns.clone(),
                row: rows.rows[at].clone(),
            },
        }
    }
}

/// What takes nearly all of the time is not mended away: beyond this nothing is promised.
const MAX_SPEEDUP: f64 = 10.0;

/// The time of a step by what would be left of it.
fn speedup(gain_nanos: f64, step_nanos: f64) -> Option<f64> {
    let rest = step_nanos - gain_nanos;
    let is_credible = rest > step_nanos / MAX_SPEEDUP && step_nanos.is_finite();
    is_credible.then(|| step_nanos / rest)
}

/// The sentence with the values of a row in the place of their columns' names.
fn describe<'a>(says: &str, cell: &dyn Fn(&str) -> &'a Cell) -> String {
    let mut sentence = String::new();
    let mut rest = says;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((column, after)) = after.split_once('}') else { break };
        // A String takes whatever is written.
        let _infallible = write!(sentence, "{before}{}", Shown { column, cell: cell(column) });
        rest = after;
    }
    sentence + rest
}

/// A value as people read it, in the unit that the end of its column's name says.
pub struct Shown<'a> {
    /// Name of the column.
    pub column: &'a str,
    /// Its value.
    pub cell: &'a Cell,
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { column, cell } = *self;
        match (cell, cell.number()) {
            (_, Some(value)) if column.ends_with("_nanos") => Nanos(value).fmt(f),
            (_, Some(value)) if is_of(column, "bytes") => Size(value.max(0.0) as u64).fmt(f),
            (_, Some(value)) if is_of(column, "bytes_per_second") => {
                write!(f, "{}/s", Size(value.max(0.0) as u64))
            }
            (_, Some(value)) if column.ends_with("_percent") => write!(f, "{value:.1} %"),
            (Cell::Int(value), _) if NAMES.iter().any(|name| is_of(column, name)) => value.fmt(f),
            (Cell::Int(value), _) => Grouped((*value).into()).fmt(f),
            (Cell::Real(value), _) => Real(*value).fmt(f),
            (Cell::Text(text), _) => f.write_str(text),
            (Cell::Flag(value), _) => f.write_str(if *value { "yes" } else { "no" }),
            (Cell::Null, _) => f.write_str("-"),
        }
    }
}

/// Columns whose numbers are names.
const NAMES: [&str; 7] = ["id", "pid", "rank", "device", "stream", "number", "position"];

/// Whether a column's name is, or ends in, this word.
fn is_of(column: &str, word: &str) -> bool {
    column.strip_suffix(word).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_has_its_values_in_their_units() {
        let cells = [
            ("wait_nanos", Cell::Real(1.5e6)),
            ("wait_percent", Cell::Real(12.34)),
            ("count", Cell::Int(1_234)),
            ("name", Cell::Text("aten::item".into())),
            ("size_bytes", Cell::Null),
        ];
        let cell = |name: &str| {
            cells.iter().find(|(own, _)| *own == name).map_or(&Cell::Null, |(_, cell)| cell)
        };
        let says = "{name}: {count} calls, {wait_nanos} ({wait_percent}), {size_bytes} {none}.";
        assert_eq!(describe(says, &cell), "aten::item: 1,234 calls, 1.50 ms (12.3 %), - -.");
        assert_eq!(describe("an { open brace", &cell), "an { open brace");
    }

    #[test]
    fn a_gain_of_half_a_step_is_twice_as_fast() {
        assert_eq!(speedup(5.0, 10.0), Some(2.0));
        assert_eq!(speedup(9.5, 10.0), None);
        assert_eq!(speedup(10.0, 10.0), None);
        assert_eq!(speedup(0.0, f64::NAN), None);
    }
}
