//! Writes a report of `marey analyze` as plain text.

use std::io::{self, Write};

use marey_analysis::report::SectionRows;
use marey_analysis::{Finding, Report, Severity};
use marey_model::quantity::{Grouped, Nanos};

use super::args::AnalyzeArgs;
use super::cells::{has_numbers, headings, row_values};
use crate::aligned::{Align, HEADING_RULE, TextLayout, write_rows};
use crate::output::Style;
use crate::text::{printable, truncate_name};

/// The maximum number of operations in the list of the top ones.
const TOP_OPERATIONS: usize = 5;

/// The maximum width of the name of an operation.
const MAX_WIDTH: usize = 60;

/// Writes the report.
pub(super) fn write(
    report: &Report,
    args: &AnalyzeArgs,
    layout: TextLayout,
    out: &mut impl Write,
) -> io::Result<()> {
    if !args.has_sections() {
        let title = format!("Analysis of {}", printable(&report.path));
        writeln!(
            out,
            "{HEADING_RULE}\n{}\n{HEADING_RULE}\n",
            layout.paint.with(Style::Bold, title)
        )?;
        write_summary(report, layout, out)?;
        write_top_operations(report, layout, out)?;
        write_findings(report, args, layout, out)?;
        write_missing(report, layout, out)?;
    }
    for table in &report.tables {
        write_section(table, args, layout, out)?;
    }
    if !args.has_sections() {
        writeln!(out, "{HEADING_RULE}")?;
    }
    Ok(())
}

fn write_heading(text: &str, layout: TextLayout, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", layout.paint.with(Style::Bold, format_args!("{text}:")))
}

fn write_summary(report: &Report, layout: TextLayout, out: &mut impl Write) -> io::Result<()> {
    if report.summary.is_empty() {
        return Ok(());
    }
    write_heading("Summary", layout, out)?;
    for fact in &report.summary {
        writeln!(out, "  {}: {}", fact.label, printable(&fact.text))?;
    }
    writeln!(out)
}

fn write_top_operations(
    report: &Report,
    layout: TextLayout,
    out: &mut impl Write,
) -> io::Result<()> {
    let Some(table) = report.table("operations") else { return Ok(()) };
    write_heading("Top Operations", layout, out)?;
    let column_index =
        |name| table.columns.iter().position(|column| column.name == name).unwrap_or(0);
    let (name_index, time_index, count_index) =
        (column_index("name"), column_index("self_nanos"), column_index("count"));
    for (position, row) in table.rows.iter().take(TOP_OPERATIONS).enumerate() {
        let time = Nanos(row[time_index].number().unwrap_or(0.0));
        let count = row[count_index].integer().unwrap_or(0);
        let calls = if count == 1 { "call" } else { "calls" };
        let name = printable(row[name_index].text()).into_owned();
        let (position, count) = (position + 1, Grouped(count.into()));
        writeln!(
            out,
            "  {position}. {}: {time} ({count} {calls})",
            truncate_name(&name, MAX_WIDTH)
        )?;
    }
    writeln!(out)
}

fn write_findings(
    report: &Report,
    args: &AnalyzeArgs,
    layout: TextLayout,
    out: &mut impl Write,
) -> io::Result<()> {
    if report.findings.is_empty() {
        let is_empty = report.summary.is_empty() && report.missing.is_empty();
        let text = if is_empty { "Nothing was recorded." } else { "No bottlenecks detected." };
        return writeln!(out, "{text}\n");
    }
    write_heading("Bottlenecks Detected", layout, out)?;
    for finding in &report.findings {
        let (label, style) = match finding.severity {
            Severity::High => ("[HIGH]", Style::Red),
            Severity::Medium => ("[MEDIUM]", Style::Yellow),
            Severity::Low => ("[LOW]", Style::Green),
        };
        let rank = finding.rank.map(|rank| format!(" (rank {rank})")).unwrap_or_default();
        let description = printable(&finding.description);
        let label = layout.paint.with(style, label);
        writeln!(out, "  {label} {}{rank}: {description}", finding.rule)?;
        writeln!(out, "    {}", layout.paint.with(Style::Dim, describe_impact(finding)))?;
        if let Some(overlaps) = describe_overlaps(finding) {
            writeln!(out, "    {overlaps}")?;
        }
        writeln!(out, "    Fix: {}", finding.hint)?;
        if args.sql {
            for line in finding.evidence.sql.lines() {
                writeln!(out, "      {line}")?;
            }
        }
    }
    writeln!(out)
}

/// Describes the impact of a finding, the possible gain, and the confidence.
pub(super) fn describe_impact(finding: &Finding) -> String {
    let mut parts = Vec::new();
    if finding.impact_nanos > 0.0 {
        let share = finding.impact_percent.map(|share| format!(" ({share:.1} %)"));
        let period = if finding.is_per_step { "per step" } else { "of the recording" };
        let (time, share) = (Nanos(finding.impact_nanos), share.unwrap_or_default());
        parts.push(format!("{time} {period}{share}"));
    }
    if let Some(gain) = finding.gain_nanos.filter(|gain| *gain > 0.0) {
        let speedup = finding.speedup.map(|times| format!(", {times:.2}x as fast"));
        parts.push(format!("fixing it saves up to {}{}", Nanos(gain), speedup.unwrap_or_default()));
    }
    parts.push(finding.confidence.as_str().to_owned());
    parts.join("; ")
}

/// Names the other findings that count some of the same time, if there are any.
pub(super) fn describe_overlaps(finding: &Finding) -> Option<String> {
    let overlaps = finding.overlaps.iter().map(|other| {
        let (subject, nanos) = (printable(&other.subject), Nanos(other.nanos));
        format!("{} of {} (up to {nanos})", other.rule, truncate_name(&subject, MAX_WIDTH))
    });
    let overlaps = overlaps.collect::<Vec<_>>().join(", ");
    (!overlaps.is_empty()).then(|| format!("Overlaps in time with: {overlaps}"))
}

/// Lists the rules and sections that failed, so that a reader does not take their absence for a
/// result.
fn write_missing(report: &Report, layout: TextLayout, out: &mut impl Write) -> io::Result<()> {
    if report.missing.is_empty() {
        return Ok(());
    }
    write_heading("Not in this report", layout, out)?;
    for missing in &report.missing {
        writeln!(out, "  {}: {}", missing.name, printable(&missing.why))?;
    }
    writeln!(out)
}

fn write_section(
    table: &SectionRows,
    args: &AnalyzeArgs,
    layout: TextLayout,
    out: &mut impl Write,
) -> io::Result<()> {
    write_heading(table.title, layout, out)?;
    if let Some(why) = &table.missing {
        writeln!(out, "  not in this report: {}", printable(why))?;
    } else if table.rows.is_empty() {
        writeln!(out, "  no rows")?;
    }
    let headings: Vec<String> = headings(table).collect();
    let rows: Vec<Vec<String>> =
        table.rows.iter().map(|row| row_values(table, row).collect()).collect();
    let align = |index| if has_numbers(table, index) { Align::Right } else { Align::Left };
    let aligns: Vec<Align> = (0..headings.len()).map(align).collect();
    write_rows(&headings, &rows, &aligns, layout, out)?;
    if table.was_cut {
        writeln!(out, "  {}", layout.paint.with(Style::Dim, "… and more: --top N"))?;
    }
    if args.sql {
        for line in table.sql.lines() {
            writeln!(out, "    {line}")?;
        }
    }
    writeln!(out)
}
