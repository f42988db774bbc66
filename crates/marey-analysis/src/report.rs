//! All that there is to say about a run.

use std::borrow::Cow;
use std::vec;

use marey_query::sql::SqlError;
use serde::Serialize;

use crate::ask::{Cell, Question, Questions, Rows};
use crate::charts::Charts;
use crate::finding::{Asked, Finding, Shown};
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
    /// The sections that have rows, were asked for alone, or could not be had.
    pub tables: Vec<SectionRows>,
    /// What could not be had, beside sections.
    pub missing: Vec<Missing>,
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
    /// Why it could not be had, if it could not; it has no rows then.
    pub missing: Option<String>,
}

/// A part of a report that could not be had: a rule, the summary, or a chart.
#[derive(Debug, Serialize)]
pub struct Missing {
    /// Name of the rule or chart; `summary` for the numbers at the top.
    pub name: &'static str,
    /// Why, in a sentence.
    pub why: String,
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

/// What is asked for the top of a report.
const SUMMARY: Question = Question {
    sql: Cow::Borrowed(include_str!("../report/summary.sql")),
    max_rows: None,
    needs: &[],
    or_with: None,
};

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
        let is_alone = options.has_sections_only;
        let asked = (!is_alone).then(|| Asked::of(&options.thresholds));
        let mut all = Vec::new();
        if let Some(asked) = &asked {
            all.extend_from_slice(&asked.questions);
            all.push(SUMMARY);
        }
        all.extend(options.sections.iter().map(|one| one.question(options.max_rows, is_alone)));
        if options.has_charts {
            all.extend(Charts::questions());
        }
        let mut answers =
            Answers { rest: questions.ask_each(&all)?.into_iter(), missing: Vec::new() };
        let (mut findings, mut summary) = (Vec::new(), Vec::new());
        if let Some(asked) = asked {
            let rows: Vec<Rows> = Asked::names().map(|name| answers.next(name)).collect();
            findings = asked.found(&rows);
            summary = facts(&answers.next("summary"));
        }
        let tables = options.sections.iter().map(|section| answers.section(section));
        let tables = tables.filter(|table| is_alone || !table.is_empty()).collect();
        let charts = options.has_charts.then(|| Charts::of(|name| answers.next(name)));
        Ok(Self {
            version: VERSION,
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

/// Answers in the order of their questions, and which of them there are not.
struct Answers {
    rest: vec::IntoIter<Result<Rows, SqlError>>,
    missing: Vec<Missing>,
}

impl Answers {
    fn next_answer(&mut self) -> Result<Rows, String> {
        let answer = self.rest.next().unwrap_or_else(|| Ok(Rows::default()));
        answer.map_err(|error| match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        })
    }

    /// The rows of the next answer; none if that is missing, which is noted under this name.
    fn next(&mut self, name: &'static str) -> Rows {
        self.next_answer().unwrap_or_else(|why| {
            self.missing.push(Missing { name, why });
            Rows::default()
        })
    }

    /// The next answer as the rows of a section.
    fn section(&mut self, section: &Section) -> SectionRows {
        let (rows, missing) = match self.next_answer() {
            Ok(rows) => (rows, None),
            Err(why) => (Rows::default(), Some(why)),
        };
        SectionRows { missing, ..SectionRows::of(section, rows) }
    }
}

/// What is known of the numbers at the top.
fn facts(rows: &Rows) -> Vec<Fact> {
    let facts = FACTS.iter().filter_map(|&(name, label)| {
        let value = rows.column(name).next()?.clone();
        let text = Shown { column: name, cell: &value }.to_string();
        let is_known = !matches!(value, Cell::Null | Cell::Int(0));
        is_known.then_some(Fact { name, label, value, text })
    });
    facts.collect()
}

impl SectionRows {
    /// The rows that a section has.
    fn of(section: &Section, rows: Rows) -> Self {
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

    /// Whether there is nothing to say of it.
    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.missing.is_none()
    }
}
