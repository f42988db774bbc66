//! Renders a comparison and its verdicts as GitHub's Markdown, for a comment on a pull request.

use std::fmt::Write;

use marey_model::printable::printable;

use crate::compare::{ChangeCategory, Comparison, MetricChange, OperationDifference, Significance};
use crate::gate::{Outcome, Verdict};
use crate::metric::{Better, Unit};
use crate::run_measurements::Operation;

use super::show;

/// Returns a comparison as Markdown: the verdicts if there are any, the metrics, and the operations
/// and kernels whose time changed most, at most `max_changes` of each.
pub fn markdown(comparison: &Comparison, verdicts: &[Verdict], max_changes: usize) -> String {
    let (before, after) = (escape(&comparison.before), escape(&comparison.after));
    let mut out = format!("### marey: {after} against {before}\n\n");
    if !verdicts.is_empty() {
        let rows = verdicts.iter().map(verdict_row);
        let headers = ["verdict", "condition", "before", "after", "judged", "95 % interval", "why"];
        push_table(&mut out, &headers, rows);
        out.push('\n');
    }
    let headers = ["metric", "before", "after", "change", "%", "95 % interval", "significant"];
    push_table(&mut out, &headers, comparison.metrics.iter().map(metric_row));
    let tables = [("Operations", &comparison.operations), ("Kernels", &comparison.kernels)];
    for (title, differences) in tables {
        let changed = differences.iter().filter(|row| row.category != ChangeCategory::Unchanged);
        let rows: Vec<_> = changed.take(max_changes).map(difference_row).collect();
        if !rows.is_empty() {
            out.extend(["\n#### ", title, ", per step\n\n"]);
            let headers = ["where", "before", "after", "change", "%", ""];
            push_table(&mut out, &headers, rows.into_iter());
        }
    }
    out
}

fn difference_row(row: &OperationDifference) -> [String; 6] {
    let side =
        |side: Option<&Operation>| show::value(side.map(|side| side.total_nanos), Unit::Nanos);
    [
        escape(&row.path.join("/")),
        side(row.before.as_ref()),
        side(row.after.as_ref()),
        show::change(Some(row.change_nanos()), Unit::Nanos),
        show::percent(Some(row.change_percent())),
        row.category.as_str().to_owned(),
    ]
}

fn verdict_row(verdict: &Verdict) -> [String; 7] {
    let sign = match verdict.outcome {
        Outcome::Pass => "✅",
        Outcome::Regression => "❌",
        Outcome::Inconclusive => "❔",
    };
    let unit = verdict.metric.unit();
    let judged_number = |number| show::judged_number(verdict, number);
    [
        format!("{sign} {}", verdict.outcome),
        escape(&verdict.expression),
        show::value(verdict.before, unit),
        show::value(verdict.after, unit),
        judged_number(verdict.change),
        show::interval(verdict.interval, judged_number),
        escape(&verdict.why),
    ]
}

fn metric_row(row: &MetricChange) -> [String; 7] {
    let unit = row.metric.unit();
    let worsening = row.change.map_or(0.0, |change| match row.metric.better() {
        Better::Lower => change,
        Better::Higher => -change,
        Better::Neither => 0.0,
    });
    let significant = match row.significance {
        Significance::Yes if worsening > 0.0 => "yes, worse",
        Significance::Yes if worsening < 0.0 => "yes, better",
        Significance::Yes => "yes",
        Significance::No => "no",
        Significance::Unknown => "unknown",
    };
    [
        escape(&row.metric.title()),
        show::value(row.before, unit),
        show::value(row.after, unit),
        show::change(row.change, unit),
        show::percent(row.change_percent),
        show::interval(row.interval_percent, show::percent),
        significant.into(),
    ]
}

#[expect(clippy::let_underscore_must_use, reason = "writing to a String cannot fail")]
fn push_table<const N: usize>(
    out: &mut String,
    headers: &[&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    let _ = writeln!(out, "| {} |\n|{}", headers.join(" | "), " --- |".repeat(N));
    for row in rows {
        let _ = writeln!(out, "| {} |", row.join(" | "));
    }
}

/// Returns the text with all Markdown escaped, so that it can be part of a table cell. Newlines
/// become spaces.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let text = printable(&text.replace(['\n', '\r', '\t'], " ")).into_owned();
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '|' | '`' | '*' | '_' | '~' | '[' | ']' | '#' | '!' | '$' => {
                out.extend(['\\', letter]);
            }
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn text_cannot_break_out_of_its_table_cell() {
        assert_eq!(escape("a|b`c`\n<b>*x*"), "a\\|b\\`c\\` &lt;b&gt;\\*x\\*");
        assert_eq!(escape("\\|"), "\\\\\\|");
    }
}
