//! Writes a report as Markdown, for a comment or a page.

use std::io::{self, Write};

use marey_analysis::Report;
use marey_analysis::report::SectionRows;

use super::args::AnalyzeArgs;
use super::cells::{headings, is_number, values};
use super::text::{impact, overlaps};
use crate::text::{cut, printable};

/// Width limit of a cell.
const MAX_WIDTH: usize = 80;

/// Writes the report.
pub(super) fn write(report: &Report, args: &AnalyzeArgs, out: &mut impl Write) -> io::Result<()> {
    if !args.has_sections() {
        writeln!(out, "# Analysis of {}\n", escaped(&report.path))?;
        for warning in &report.warnings {
            writeln!(out, "> {}\n", escaped(warning))?;
        }
        writeln!(out, "| | |\n|---|---|")?;
        for fact in &report.summary {
            writeln!(out, "| {} | {} |", fact.label, escaped(&fact.text))?;
        }
        findings(report, args, out)?;
    }
    report.tables.iter().try_for_each(|table| section(table, args, out))
}

fn findings(report: &Report, args: &AnalyzeArgs, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n## Findings\n")?;
    if report.findings.is_empty() {
        writeln!(out, "No bottlenecks detected.")?;
    }
    for missing in &report.missing {
        writeln!(out, "> Not in this report: {}: {}\n", missing.name, escaped(&missing.why))?;
    }
    for finding in &report.findings {
        let severity = finding.severity.as_str().to_uppercase();
        let rank = finding.rank.map(|rank| format!(", rank {rank}")).unwrap_or_default();
        writeln!(out, "### {severity}: {}{rank}\n", finding.title)?;
        writeln!(out, "{}\n", escaped(&finding.description))?;
        writeln!(out, "- {}", impact(finding))?;
        if let Some(overlaps) = overlaps(finding) {
            writeln!(out, "- {}", escaped(&overlaps))?;
        }
        writeln!(out, "- Fix: {}", finding.hint)?;
        writeln!(out, "- Rule: `{}`\n", finding.rule)?;
        if args.sql {
            writeln!(out, "```sql\n{}\n```\n", finding.evidence.sql.trim_end())?;
        }
    }
    Ok(())
}

fn section(table: &SectionRows, args: &AnalyzeArgs, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n## {}\n\n{}\n", table.title, table.doc)?;
    if let Some(why) = &table.missing {
        return writeln!(out, "> Not in this report: {}", escaped(why));
    }
    row(headings(table), out)?;
    let line = |at| if is_number(table, at) { "---:" } else { "---" };
    writeln!(out, "|{}|", (0..table.columns.len()).map(line).collect::<Vec<_>>().join("|"))?;
    for cells in &table.rows {
        row(values(table, cells), out)?;
    }
    if table.was_cut {
        writeln!(out, "\nMore rows exist.")?;
    }
    if args.sql {
        writeln!(out, "\n```sql\n{}\n```", table.sql.trim_end())?;
    }
    Ok(())
}

fn row(cells: impl Iterator<Item = String>, out: &mut impl Write) -> io::Result<()> {
    let cells = cells.map(|cell| escaped(&cut(&cell, MAX_WIDTH)));
    writeln!(out, "| {} |", cells.collect::<Vec<_>>().join(" | "))
}

/// Escapes a text for Markdown.
fn escaped(text: &str) -> String {
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
    use super::escaped;

    #[test]
    fn names_do_not_become_markup() {
        assert_eq!(escaped("a<b>|c_d\n`e`"), "a\\<b\\>\\|c\\_d \\`e\\`");
    }
}
