//! All that there is to say about a run.

use marey_query::sql::SqlError;
use serde::Serialize;

use crate::ask::{Cell, Questions, each};
use crate::charts::Charts;
use crate::finding::{Finding, Shown, findings};
use crate::rule::Thresholds;
use crate::section::Section;

/// What the form of a report's JSON is called; it goes up when a reader would have to change.
const VERSION: u32 = 1;

/// A report on a run.
#[derive(Debug, Serialize)]
pub struct Report {
    version: u32,
    /// Version of the program that made it.
    marey: &'static str,
    /// What the user calls the run.
    pub path: String,
    /// What stands at its top.
    pub summary: Vec<Fact>,
    /// What the run lacks, each in a line.
    pub warnings: Vec<String>,
    /// What rules found, what matters most first.
    pub findings: Vec<Finding>,
    /// The sections that have rows, or were asked for alone.
    pub tables: Vec<SectionRows>,
    /// What is drawn, if that is wanted.
    pub charts: Option<Charts>,
}

/// A number of a run.
#[derive(Debug, Serialize)]
pub struct Fact {
    /// Its name in a report of data.
    pub name: &'static str,
    /// What people call it.
    pub label: &'static str,
    /// Its value.
    pub value: Cell,
    /// The same as people read it.
    pub text: String,
}

/// A section and its rows.
#[derive(Debug, Serialize)]
pub struct SectionRows {
    /// Its name.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What a row is.
    pub doc: &'static str,
    /// The query.
    pub sql: &'static str,
    /// Its columns.
    pub columns: Vec<ColumnDoc>,
    /// Its rows.
    pub rows: Vec<Vec<Cell>>,
    /// Whether there were more.
    pub was_cut: bool,
}

/// A column, and what it means.
#[derive(Debug, Serialize)]
pub struct ColumnDoc {
    /// Its name; one that is a quantity ends in its unit.
    pub name: String,
    /// What its values mean, if a view says so.
    pub doc: Option<&'static str>,
}

/// What a report shall have.
#[derive(Clone, Debug)]
pub struct Options {
    /// Thresholds of the rules.
    pub thresholds: Thresholds,
    /// The sections.
    pub sections: Vec<&'static Section>,
    /// Nothing but the sections.
    pub has_sections_only: bool,
    /// Also what is drawn.
    pub has_charts: bool,
    /// Rows of each section, at most.
    pub max_rows: u64,
}

/// What stands at the top of a report: the columns of the query, and what people call them.
const FACTS: &[(&str, &str)] = &[
    ("process_count", "Processes"),
    ("rank_count", "Ranks"),
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
];

impl Report {
    /// Reports on a run, that the user calls so and that lacks this.
    pub fn of(
        questions: &Questions<'_>,
        path: String,
        warnings: Vec<String>,
        options: &Options,
    ) -> Result<Self, SqlError> {
        let tables = each(&options.sections, |section| {
            SectionRows::of(section, questions, options.max_rows)
        })?;
        let mut report = Self {
            version: VERSION,
            marey: env!("CARGO_PKG_VERSION"),
            path,
            summary: Vec::new(),
            warnings,
            findings: Vec::new(),
            tables: tables
                .into_iter()
                .filter(|table| options.has_sections_only || !table.rows.is_empty())
                .collect(),
            charts: None,
        };
        if !options.has_sections_only {
            report.summary = facts(questions)?;
            report.findings = findings(questions, &options.thresholds)?;
        }
        if options.has_charts {
            report.charts = Some(Charts::of(questions)?);
        }
        Ok(report)
    }

    /// The rows of a section, if it has any.
    pub fn table(&self, name: &str) -> Option<&SectionRows> {
        self.tables.iter().find(|table| table.name == name)
    }
}

/// What is known of the numbers at the top.
fn facts(questions: &Questions<'_>) -> Result<Vec<Fact>, SqlError> {
    let rows = questions.ask(include_str!("../report/summary.sql"), None)?;
    let facts = FACTS.iter().filter_map(|&(name, label)| {
        let value = rows.column(name).next()?.clone();
        let text = Shown { column: name, cell: &value }.to_string();
        let is_known = !matches!(value, Cell::Null | Cell::Int(0));
        is_known.then_some(Fact { name, label, value, text })
    });
    Ok(facts.collect())
}

impl SectionRows {
    /// Asks for a section.
    pub fn of(
        section: &Section,
        questions: &Questions<'_>,
        max_rows: u64,
    ) -> Result<Self, SqlError> {
        let rows = questions.ask(section.sql, Some(max_rows))?;
        let column = |name: String| ColumnDoc { doc: section.column_doc(&name), name };
        Ok(Self {
            name: section.name,
            title: section.title,
            doc: section.doc,
            sql: section.sql,
            columns: rows.columns.into_iter().map(column).collect(),
            rows: rows.rows,
            was_cut: rows.was_cut,
        })
    }
}
