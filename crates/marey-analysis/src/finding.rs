//! [`Finding`], the result of a [`Rule`]: a performance problem with its severity, evidence and
//! remedy. The queries of all rules are run here, and each row of their answers becomes a finding.

use std::collections::HashSet;
use std::fmt::{self, Display, Write};

use marey_model::quantity::{Grouped, Nanos, Real, Size};
use marey_model::table::stored;
use marey_query::sql::SqlError;
use serde::Serialize;

use crate::ask::{Cell, Question, Questions, Rows};
use crate::overlap::{self, Overlap};
use crate::rule::{Rule, Thresholds};
use crate::rules;

/// A performance problem that a rule found.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The name of the rule.
    pub rule: &'static str,
    /// The heading of the rule.
    pub title: &'static str,
    /// The operation, kernel, cause or rank that the finding is about.
    pub subject: String,
    /// The severity, which follows from the impact.
    pub severity: Severity,
    /// The time that the problem costs per step, or over the whole recording if there are no steps.
    pub impact_nanos: f64,
    /// Whether times are per step.
    pub is_per_step: bool,
    /// The impact in per cent of the step. Unknown if the step took no time.
    pub impact_percent: Option<f64>,
    /// The most time per step that a fix saves. Unknown for findings that cost no time.
    pub gain_nanos: Option<f64>,
    /// The resulting speedup: the time of a step divided by that time without the gain. `None` if
    /// it would exceed 10.
    pub speedup: Option<f64>,
    /// The reliability of the finding.
    pub confidence: Confidence,
    /// The rank of the process, if it has one.
    pub rank: Option<i64>,
    /// The id of the process in the table `processes`.
    pub process_id: Option<i64>,
    /// The finding as a sentence.
    pub description: String,
    /// The remedy.
    pub hint: &'static str,
    /// Other findings that may count the same time.
    pub overlaps: Vec<Overlap>,
    /// The query and the row behind the finding.
    pub evidence: Evidence,
}

/// The data behind a finding.
#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    /// The query of the rule.
    pub sql: String,
    /// The columns of the query.
    pub columns: Vec<String>,
    /// The row of the finding.
    pub row: Vec<Cell>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The problem costs much time, or will make the run fail.
    High,
    /// The problem is worth a look.
    Medium,
    /// The problem costs little.
    Low,
}

/// The reliability of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The numbers are measurements.
    Measured,
    /// The numbers are measurements, but their attribution to a cause is inferred.
    Likely,
    /// The finding is inferred from names or from a model.
    Possible,
}

impl Severity {
    /// The name of the severity.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

impl Confidence {
    /// The name of the confidence.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Likely => "likely",
            Self::Possible => "possible",
        }
    }
}

/// Returns the findings of all rules, sorted by severity and then by impact.
pub fn findings(
    questions: &Questions<'_>,
    thresholds: &Thresholds,
) -> Result<Vec<Finding>, SqlError> {
    let finding_questions = FindingQuestions::new(thresholds);
    let answers = questions.ask_all(&finding_questions.questions)?;
    Ok(finding_questions.findings(&answers))
}

/// The queries behind findings: one for each rule, and a last one for the processes that have
/// steps.
pub(crate) struct FindingQuestions {
    pub(crate) questions: Vec<Question>,
}

impl FindingQuestions {
    pub(crate) fn new(thresholds: &Thresholds) -> Self {
        let sql = "SELECT DISTINCT process_id FROM raw.steps";
        let processes_with_steps = Question::new(sql, &[&stored::STEPS]);
        let rules = rules::ALL.iter().map(|rule| rule.question(thresholds));
        Self { questions: rules.chain([processes_with_steps]).collect() }
    }

    /// The names of the questions, in their order.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        rules::ALL.iter().map(|rule| rule.name).chain(["steps of findings"])
    }

    /// The findings in the answers to these questions.
    pub(crate) fn findings(&self, answers: &[Rows]) -> Vec<Finding> {
        let processes_with_steps =
            answers.last().into_iter().flat_map(|rows| rows.column("process_id"));
        let processes_with_steps: HashSet<i64> =
            processes_with_steps.filter_map(Cell::integer).collect();
        let answered_rules = rules::ALL.iter().zip(&self.questions).zip(answers);
        let mut findings: Vec<Finding> = answered_rules
            .flat_map(|((rule, question), rows)| {
                let processes_with_steps = &processes_with_steps;
                (0..rows.rows.len())
                    .map(move |row| rule.finding(&question.sql, rows, row, processes_with_steps))
            })
            .collect();
        findings.sort_by(|a, b| {
            a.severity.cmp(&b.severity).then(b.impact_nanos.total_cmp(&a.impact_nanos))
        });
        overlap::fill_in_overlaps(&mut findings);
        findings
    }
}

impl Rule {
    pub(crate) fn question(&self, thresholds: &Thresholds) -> Question {
        Question::new(self.query(thresholds), self.needed_tables)
    }

    fn finding(
        &self,
        sql: &str,
        rows: &Rows,
        row: usize,
        processes_with_steps: &HashSet<i64>,
    ) -> Finding {
        let cell = |name: &str| rows.column(name).nth(row).unwrap_or(&Cell::Null);
        let impact_nanos = cell("impact_nanos").number().unwrap_or(0.0);
        let impact_percent = cell("impact_percent").number();
        let gain_nanos = cell("gain_nanos").number();
        let process_id = cell("process_id").integer();
        let is_per_step = process_id.is_some_and(|process| processes_with_steps.contains(&process));
        let period = if is_per_step { "per step" } else { "over the recording" };
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
            rank: cell("rank").integer(),
            process_id,
            description: fill_template(&self.description.replace("{per}", period), &cell),
            hint: self.hint,
            overlaps: Vec::new(),
            evidence: Evidence {
                sql: sql.to_owned(),
                columns: rows.columns.clone(),
                row: rows.rows[row].clone(),
            },
        }
    }
}

/// Highest speedup that is reported. An estimate that leaves almost no time is not credible.
const MAX_SPEEDUP: f64 = 10.0;

/// Returns the time of a step divided by the time that remains without the gain, if it is credible.
fn speedup(gain_nanos: f64, step_nanos: f64) -> Option<f64> {
    let remaining_nanos = step_nanos - gain_nanos;
    let is_credible = remaining_nanos > step_nanos / MAX_SPEEDUP && step_nanos.is_finite();
    is_credible.then(|| step_nanos / remaining_nanos)
}

/// Returns the template with each `{column}` replaced by the value of that column.
fn fill_template<'a>(template: &str, cell: &dyn Fn(&str) -> &'a Cell) -> String {
    let mut sentence = String::new();
    let mut remaining = template;
    while let Some((before, after)) = remaining.split_once('{') {
        let Some((column, after)) = after.split_once('}') else { break };
        // Writing to a String cannot fail.
        let _infallible =
            write!(sentence, "{before}{}", FormattedCell { column, cell: cell(column) });
        remaining = after;
    }
    sentence + remaining
}

/// A value formatted for people. The end of the column's name tells the unit.
pub struct FormattedCell<'a> {
    /// The name of the column.
    pub column: &'a str,
    /// The value.
    pub cell: &'a Cell,
}

impl Display for FormattedCell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { column, cell } = *self;
        match (cell, cell.number()) {
            (_, Some(value)) if column.ends_with("_nanos") => Nanos(value).fmt(f),
            (_, Some(value)) if has_suffix(column, "bytes") => Size(value.max(0.0) as u64).fmt(f),
            (_, Some(value)) if has_suffix(column, "bytes_per_second") => {
                write!(f, "{}/s", Size(value.max(0.0) as u64))
            }
            (_, Some(value)) if column.ends_with("_percent") => write!(f, "{value:.1} %"),
            (Cell::Int(value), _)
                if ID_COLUMN_SUFFIXES.iter().any(|name| has_suffix(column, name)) =>
            {
                value.fmt(f)
            }
            (Cell::Int(value), _) => Grouped((*value).into()).fmt(f),
            (Cell::Real(value), _) => Real(*value).fmt(f),
            (Cell::Text(text), _) => f.write_str(text),
            (Cell::Flag(value), _) => f.write_str(if *value { "yes" } else { "no" }),
            (Cell::Null, _) => f.write_str("-"),
        }
    }
}

/// Columns of identifiers, which are shown without digit grouping.
const ID_COLUMN_SUFFIXES: [&str; 7] =
    ["id", "pid", "rank", "device", "stream", "number", "position"];

/// Whether a column's name is this word or ends in `_` and this word.
fn has_suffix(column: &str, word: &str) -> bool {
    column.strip_suffix(word).is_some_and(|stem| stem.is_empty() || stem.ends_with('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_shows_values_in_their_units() {
        let cells = [
            ("wait_nanos", Cell::Real(1.5e6)),
            ("wait_percent", Cell::Real(12.34)),
            ("count", Cell::Int(1_234)),
            ("name", Cell::Text("aten::item".into())),
            ("size_bytes", Cell::Null),
        ];
        let cell = |name: &str| {
            cells.iter().find(|(column, _)| *column == name).map_or(&Cell::Null, |(_, cell)| cell)
        };
        let template = "{name}: {count} calls, {wait_nanos} ({wait_percent}), {size_bytes} {none}.";
        assert_eq!(
            fill_template(template, &cell),
            "aten::item: 1,234 calls, 1.50 ms (12.3 %), - -."
        );
        assert_eq!(fill_template("an { open brace", &cell), "an { open brace");
    }

    #[test]
    fn a_gain_of_half_a_step_doubles_the_speed() {
        assert_eq!(speedup(5.0, 10.0), Some(2.0));
        assert_eq!(speedup(9.5, 10.0), None);
        assert_eq!(speedup(9.0, 10.0), None);
        assert_eq!(speedup(10.0, 10.0), None);
        assert_eq!(speedup(0.0, f64::NAN), None);
    }

    #[test]
    fn a_value_is_shown_in_the_unit_that_its_column_is_named_after() {
        let shown = |column: &str, cell: Cell| FormattedCell { column, cell: &cell }.to_string();
        let size = Size(2_000_000).to_string();
        for column in ["bytes", "peak_bytes"] {
            assert_eq!(shown(column, Cell::Int(2_000_000)), size);
        }
        let per_second = format!("{size}/s");
        assert_eq!(shown("peak_bytes_per_second", Cell::Real(2e6)), per_second);
        for (column, text) in [("id", "12345"), ("process_id", "12345"), ("grid", "12,345")] {
            assert_eq!(shown(column, Cell::Int(12_345)), text, "{column}");
        }
        assert_eq!(shown("is_open", Cell::Flag(true)), "yes");
    }

    #[test]
    fn severities_and_confidences_have_names() {
        let severities = [Severity::High, Severity::Medium, Severity::Low];
        assert_eq!(severities.map(Severity::as_str), ["high", "medium", "low"]);
        let confidences = [Confidence::Measured, Confidence::Likely, Confidence::Possible];
        assert_eq!(confidences.map(Confidence::as_str), ["measured", "likely", "possible"]);
    }
}
