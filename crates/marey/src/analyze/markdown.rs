//! Writes a report as Markdown, for a comment of a review or a page.

use std::io::{self, Write};

use marey_analysis::Report;
use marey_analysis::report::SectionRows;

use super::args::AnalyzeArgs;
use super::cells::{has_numbers, headings, row_values};
use super::text::{describe_impact, describe_overlaps};
use crate::text::{printable, truncate};

/// The maximum width of a cell.
const MAX_WIDTH: usize = 80;

/// Writes the report.
pub(super) fn write(report: &Report, args: &AnalyzeArgs, out: &mut impl Write) -> io::Result<()> {
    if !args.has_sections() {
        writeln!(out, "# Analysis of {}\n", escape(&report.path))?;
        for warning in &report.warnings {
            writeln!(out, "> {}\n", escape(warning))?;
        }
        writeln!(out, "| | |\n|---|---|")?;
        for fact in &report.summary {
            writeln!(out, "| {} | {} |", fact.label, escape(&fact.text))?;
        }
        write_findings(report, args, out)?;
    }
    report.tables.iter().try_for_each(|table| write_section(table, args, out))
}

fn write_findings(report: &Report, args: &AnalyzeArgs, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n## Findings\n")?;
    if report.findings.is_empty() {
        writeln!(out, "No bottlenecks detected.")?;
    }
    for missing in &report.missing {
        writeln!(out, "> Not in this report: {}: {}\n", missing.name, escape(&missing.why))?;
    }
    for finding in &report.findings {
        let severity = finding.severity.as_str().to_uppercase();
        let rank = finding.rank.map(|rank| format!(", rank {rank}")).unwrap_or_default();
        writeln!(out, "### {severity}: {}{rank}\n", finding.title)?;
        writeln!(out, "{}\n", escape(&finding.description))?;
        writeln!(out, "- {}", describe_impact(finding))?;
        if let Some(overlaps) = describe_overlaps(finding) {
            writeln!(out, "- {}", escape(&overlaps))?;
        }
        writeln!(out, "- Fix: {}", finding.hint)?;
        writeln!(out, "- Rule: `{}`\n", finding.rule)?;
        if args.sql {
            writeln!(out, "```sql\n{}\n```\n", finding.evidence.sql.trim_end())?;
        }
    }
    Ok(())
}

fn write_section(table: &SectionRows, args: &AnalyzeArgs, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n## {}\n\n{}\n", table.title, table.doc)?;
    if let Some(why) = &table.missing {
        return writeln!(out, "> Not in this report: {}", escape(why));
    }
    write_row(headings(table), out)?;
    let line = |index| if has_numbers(table, index) { "---:" } else { "---" };
    writeln!(out, "|{}|", (0..table.columns.len()).map(line).collect::<Vec<_>>().join("|"))?;
    for cells in &table.rows {
        write_row(row_values(table, cells), out)?;
    }
    if table.was_cut {
        writeln!(out, "\nMore rows exist.")?;
    }
    if args.sql {
        writeln!(out, "\n```sql\n{}\n```", table.sql.trim_end())?;
    }
    Ok(())
}

fn write_row(cells: impl Iterator<Item = String>, out: &mut impl Write) -> io::Result<()> {
    let cells = cells.map(|cell| escape(&truncate(&cell, MAX_WIDTH)));
    writeln!(out, "| {} |", cells.collect::<Vec<_>>().join(" | "))
}

/// Escapes a text for Markdown.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in printable(&text.replace(['\n', '\r'], " ")).chars() {
        match letter {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '!' | '&' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn names_do_not_become_markup() {
        assert_eq!(escape("a<b>|c_d\n`e`"), "a\\<b\\>\\|c\\_d \\`e\\`");
    }
}
