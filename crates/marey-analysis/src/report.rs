//! [`Report`], the result of `marey analyze`: the summary, findings, sections and charts of a run.
//! A part whose query fails is missing with a reason, and the rest of the report remains.

use std::vec;

use marey_query::sql::SqlError;
use serde::Serialize;

use crate::ask::{Cell, Question, Questions, Rows};
use crate::charts::Charts;
use crate::finding::{Finding, FindingQuestions, FormattedCell};
use crate::rule::Thresholds;
use crate::section::Section;

/// Version of the JSON form of a report. It is raised when readers would have to change.
const REPORT_VERSION: u32 = 1;

/// A report on a run.
#[derive(Debug, Serialize)]
pub struct Report {
    version: u32,
    /// Version of marey that made the report.
    marey: &'static str,
    /// The path of the run, as the user gave it.
    pub path: String,
    /// The numbers at the top of the report.
    pub summary: Vec<Fact>,
    /// One line for each part of the run that is missing.
    pub warnings: Vec<String>,
    /// The findings of all rules, the most severe first.
    pub findings: Vec<Finding>,
    /// The sections that have rows or failed. If only sections were requested, also those without
    /// rows.
    pub tables: Vec<SectionRows>,
    /// The parts other than sections whose query failed.
    pub missing: Vec<MissingPart>,
    /// The data of the charts, if they were requested.
    pub charts: Option<Charts>,
}

/// A number of a run.
#[derive(Debug, Serialize)]
pub struct Fact {
    /// The name in JSON.
    pub name: &'static str,
    /// The label for people.
    pub label: &'static str,
    /// The value.
    pub value: Cell,
    /// The value as text, with its unit.
    pub text: String,
}

/// A section and its rows.
#[derive(Debug, Serialize)]
pub struct SectionRows {
    /// The name.
    pub name: &'static str,
    /// The heading.
    pub title: &'static str,
    /// The meaning of a row.
    pub doc: &'static str,
    /// The query.
    pub sql: &'static str,
    /// The columns.
    pub columns: Vec<ColumnDoc>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
    /// Whether rows were cut off.
    pub was_cut: bool,
    /// The reason why the query failed, if it did. There are no rows then.
    pub missing: Option<String>,
}

/// A part of a report whose query failed: a rule, the summary, or a chart.
#[derive(Debug, Serialize)]
pub struct MissingPart {
    /// The name of the rule or chart, or `summary` for the numbers at the top.
    pub name: &'static str,
    /// The reason, as a sentence.
    pub why: String,
}

/// A column with its description.
#[derive(Debug, Serialize)]
pub struct ColumnDoc {
    /// The name. The name of a quantity ends in its unit.
    pub name: String,
    /// The meaning of the values, if a view describes the column.
    pub doc: Option<&'static str>,
}

/// The contents of a report.
#[derive(Clone, Debug)]
pub struct ReportOptions {
    /// Thresholds of the rules.
    pub thresholds: Thresholds,
    /// The sections to include.
    pub sections: Vec<&'static Section>,
    /// Whether findings and summary are left out.
    pub is_sections_only: bool,
    /// Whether chart data is included.
    pub includes_charts: bool,
    /// Maximum number of rows per section.
    pub max_rows: u64,
}

/// The query for the numbers at the top of a report.
const SUMMARY: &str = include_str!("../report/summary.sql");

/// The numbers at the top of a report: the columns of the query, with their labels.
const FACTS: &[(&str, &str)] = &[
    ("process_count", "Processes"),
    ("rank_count", "Ranks"),
    ("recorded_epochs", "Recorded epochs"),
    ("device_names", "Devices"),
    ("device_count", "Devices used"),
    ("step_count", "Total steps"),
    ("total_nanos", "Total time"),
    ("mean_step_nanos", "Avg step time"),
    ("p50_step_nanos", "Median step time"),
    ("p90_step_nanos", "90 % of steps within"),
    ("max_step_nanos", "Slowest step"),
    ("busy_percent", "GPU busy"),
    ("compute_percent", "GPU computing"),
    ("exposed_communication_percent", "Exposed communication"),
    ("idle_percent", "GPU idle"),
    ("peak_bytes", "Peak GPU memory"),
    ("recording_overhead", "Cost of recording"),
];

impl Report {
    /// Reports on a run at `path`. `warnings` are the known gaps in its data.
    pub fn new(
        questions: &Questions<'_>,
        path: String,
        warnings: Vec<String>,
        options: &ReportOptions,
    ) -> Result<Self, SqlError> {
        let sections_only = options.is_sections_only;
        let finding_questions =
            (!sections_only).then(|| FindingQuestions::new(&options.thresholds));
        let mut report_questions = Vec::new();
        if let Some(finding_questions) = &finding_questions {
            report_questions.extend_from_slice(&finding_questions.questions);
            report_questions.push(Question::new(SUMMARY, &[]));
        }
        report_questions.extend(
            options
                .sections
                .iter()
                .map(|section| section.question(options.max_rows, sections_only)),
        );
        if options.includes_charts {
            report_questions.extend(Charts::questions());
        }
        let mut answers = Answers {
            remaining: questions.ask_each(&report_questions)?.into_iter(),
            missing: Vec::new(),
        };
        let (mut findings, mut summary) = (Vec::new(), Vec::new());
        if let Some(finding_questions) = finding_questions {
            let rows: Vec<Rows> =
                FindingQuestions::names().map(|name| answers.next(name)).collect();
            findings = finding_questions.findings(&rows);
            summary = facts(&answers.next("summary"));
        }
        let tables = options.sections.iter().map(|section| answers.section(section));
        let tables = tables.filter(|table| sections_only || !table.is_empty()).collect();
        let charts =
            options.includes_charts.then(|| Charts::from_answers(|name| answers.next(name)));
        Ok(Self {
            version: REPORT_VERSION,
            marey: env!("CARGO_PKG_VERSION"),
            path,
            summary,
            warnings,
            findings,
            tables,
            missing: answers.missing,
            charts,
        })
    }

    /// The rows of a section, if it has any.
    pub fn table(&self, name: &str) -> Option<&SectionRows> {
        self.tables.iter().find(|table| table.name == name)
    }
}

/// The answers in the order of their questions. Those that failed are collected in `missing`.
struct Answers {
    remaining: vec::IntoIter<Result<Rows, SqlError>>,
    missing: Vec<MissingPart>,
}

impl Answers {
    fn next_answer(&mut self) -> Result<Rows, String> {
        let answer = self.remaining.next().unwrap_or_else(|| Ok(Rows::default()));
        answer.map_err(|error| match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        })
    }

    /// Returns the rows of the next answer. A failure is recorded under `name` and gives no rows.
    fn next(&mut self, name: &'static str) -> Rows {
        self.next_answer().unwrap_or_else(|why| {
            self.missing.push(MissingPart { name, why });
            Rows::default()
        })
    }

    /// The next answer as the rows of a section.
    fn section(&mut self, section: &Section) -> SectionRows {
        let (rows, missing) = match self.next_answer() {
            Ok(rows) => (rows, None),
            Err(why) => (Rows::default(), Some(why)),
        };
        SectionRows { missing, ..SectionRows::new(section, rows) }
    }
}

/// Returns the facts of the summary row whose value is known and not zero.
fn facts(rows: &Rows) -> Vec<Fact> {
    let facts = FACTS.iter().filter_map(|&(name, label)| {
        let value = rows.column(name).next()?.clone();
        let text = FormattedCell { column: name, cell: &value }.to_string();
        let is_known = !matches!(value, Cell::Null | Cell::Int(0));
        is_known.then_some(Fact { name, label, value, text })
    });
    facts.collect()
}

impl SectionRows {
    /// The rows of a section with the descriptions of its columns.
    fn new(section: &Section, rows: Rows) -> Self {
        let column = |name: String| ColumnDoc { doc: section.column_doc(&name), name };
        Self {
            name: section.name,
            title: section.title,
            doc: section.doc,
            sql: section.sql,
            columns: rows.columns.into_iter().map(column).collect(),
            rows: rows.rows,
            was_cut: rows.was_cut,
            missing: None,
        }
    }

    /// Whether there are no rows and no failure to report.
    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.missing.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(columns: &[&str], row: &[Cell]) -> Rows {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        Rows { columns, rows: vec![row.to_vec()], was_cut: true }
    }

    #[test]
    fn the_summary_has_the_numbers_that_are_known_and_not_zero() {
        let row = [Cell::Real(1.5e6), Cell::Int(0), Cell::Int(3), Cell::Null, Cell::Real(0.0)];
        let columns = ["total_nanos", "rank_count", "step_count", "peak_bytes", "busy_percent"];
        let facts = facts(&rows(&columns, &row));
        let facts: Vec<_> = facts.iter().map(|fact| (fact.name, fact.label, &*fact.text)).collect();
        assert_eq!(
            facts,
            [
                ("step_count", "Total steps", "3"),
                ("total_nanos", "Total time", "1.50 ms"),
                ("busy_percent", "GPU busy", "0.0 %"),
            ]
        );
    }

    #[test]
    fn answers_are_those_of_the_questions_in_order_and_failures_are_listed() {
        let section = &crate::section::ALL[0];
        let failure = || Err(SqlError::Memory { limit_bytes: 1 << 20 });
        let first = rows(&["number"], &[Cell::Int(1)]);
        let empty = Rows::default();
        let remaining = vec![failure(), Ok(first.clone()), Ok(first.clone()), Ok(empty), failure()];
        let mut answers = Answers { remaining: remaining.into_iter(), missing: Vec::new() };
        assert_eq!(answers.next("summary"), Rows::default());
        assert_eq!(answers.next("chart"), first);
        let [table, without_rows, failed] = [(); 3].map(|()| answers.section(section));
        assert_eq!((table.rows, table.was_cut), (first.rows, true));
        assert!(table.columns[0].doc.is_some());
        assert!(without_rows.is_empty() && !failed.is_empty());
        assert!(failed.missing.is_some_and(|why| why.contains("more than 1 MiB of memory; ")));
        assert_eq!(answers.missing.len(), 1);
        assert_eq!(answers.missing[0].name, "summary");
    }

    #[test]
    fn the_rows_of_a_section_are_found_by_its_name() {
        let mut answers = Answers { remaining: Vec::new().into_iter(), missing: Vec::new() };
        let sections = &crate::section::ALL[..2];
        let report = Report {
            version: REPORT_VERSION,
            marey: "",
            path: String::new(),
            summary: Vec::new(),
            warnings: Vec::new(),
            findings: Vec::new(),
            tables: sections.iter().map(|section| answers.section(section)).collect(),
            missing: Vec::new(),
            charts: None,
        };
        for section in sections {
            assert_eq!(report.table(section.name).map(|table| table.title), Some(section.title));
        }
        assert!(report.table("unknown").is_none());
    }
}
