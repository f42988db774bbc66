//! A report as plain text.

use std::io::{self, Write};

use marey_analysis::report::SectionRows;
use marey_analysis::{Finding, Report, Severity};
use marey_model::quantity::{Grouped, Nanos};

use super::args::AnalyzeArgs;
use super::cells::{headings, is_number, values};
use crate::aligned::{Align, Look, RULE, write_rows};
use crate::output::Style;
use crate::text::{cut, printable};

/// Operations of the list at the top.
const TOP_OPERATIONS: usize = 5;

/// Longest name of an operation.
const WIDEST: usize = 60;

/// Writes all of it.
pub(super) fn write(
    report: &Report,
    args: &AnalyzeArgs,
    look: Look,
    out: &mut impl Write,
) -> io::Result<()> {
    if !args.has_sections() {
        let title = format!("Analysis of {}", printable(&report.path));
        writeln!(out, "{RULE}\n{}\n{RULE}\n", look.paint.with(Style::Bold, title))?;
        summary(report, look, out)?;
        top_operations(report, look, out)?;
        findings(report, args, look, out)?;
        missing(report, look, out)?;
    }
    for table in &report.tables {
        section(table, args, look, out)?;
    }
    if !args.has_sections() {
        writeln!(out, "{RULE}")?;
    }
    Ok(())
}

fn heading(text: &str, look: Look, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", look.paint.with(Style::Bold, format_args!("{text}:")))
}

fn summary(report: &Report, look: Look, out: &mut impl Write) -> io::Result<()> {
    if report.summary.is_empty() {
        return Ok(());
    }
    heading("Summary", look, out)?;
    for fact in &report.summary {
        writeln!(out, "  {}: {}", fact.label, printable(&fact.text))?;
    }
    writeln!(out)
}

fn top_operations(report: &Report, look: Look, out: &mut impl Write) -> io::Result<()> {
    let Some(table) = report.table("operations") else { return Ok(()) };
    heading("Top Operations", look, out)?;
    let at = |name| table.columns.iter().position(|column| column.name == name).unwrap_or(0);
    let (name, time, count) = (at("name"), at("self_nanos"), at("count"));
    for (place, row) in table.rows.iter().take(TOP_OPERATIONS).enumerate() {
        let time = Nanos(row[time].number().unwrap_or(0.0));
        let count = row[count].whole().unwrap_or(0);
        let calls = if count == 1 { "call" } else { "calls" };
        let name = printable(row[name].text()).into_owned();
        let (place, count) = (place + 1, Grouped(count.into()));
        writeln!(out, "  {place}. {}: {time} ({count} {calls})", cut(&name, WIDEST))?;
    }
    writeln!(out)
}

fn findings(
    report: &Report,
    args: &AnalyzeArgs,
    look: Look,
    out: &mut impl Write,
) -> io::Result<()> {
    if report.findings.is_empty() {
        let is_empty = report.summary.is_empty() && report.missing.is_empty();
        let text = if is_empty { "Nothing was recorded." } else { "No bottlenecks detected." };
        return writeln!(out, "{text}\n");
    }
    heading("Bottlenecks Detected", look, out)?;
    for finding in &report.findings {
        let (word, style) = match finding.severity {
            Severity::High => ("[HIGH]", Style::Red),
            Severity::Medium => ("[MEDIUM]", Style::Yellow),
            Severity::Low => ("[LOW]", Style::Green),
        };
        let rank = finding.rank.map(|rank| format!(" (rank {rank})")).unwrap_or_default();
        let description = printable(&finding.description);
        let word = look.paint.with(style, word);
        writeln!(out, "  {word} {}{rank}: {description}", finding.rule)?;
        writeln!(out, "    {}", look.paint.with(Style::Dim, impact(finding)))?;
        if let Some(overlaps) = overlaps(finding) {
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

/// What a finding costs, what mending it may save, and how sure it is.
pub(super) fn impact(finding: &Finding) -> String {
    let mut parts = Vec::new();
    if finding.impact_nanos > 0.0 {
        let share = finding.impact_percent.map(|share| format!(" ({share:.1} %)"));
        let per = if finding.is_per_step { "a step" } else { "of the recording" };
        let (time, share) = (Nanos(finding.impact_nanos), share.unwrap_or_default());
        parts.push(format!("{time} {per}{share}"));
    }
    if let Some(gain) = finding.gain_nanos.filter(|gain| *gain > 0.0) {
        let times = finding.speedup.map(|times| format!(", {times:.2}x as fast"));
        parts.push(format!("mending it saves up to {}{}", Nanos(gain), times.unwrap_or_default()));
    }
    parts.push(finding.confidence.as_str().to_owned());
    parts.join("; ")
}

/// Says which other findings may count the same time, if any does.
pub(super) fn overlaps(finding: &Finding) -> Option<String> {
    let overlaps = finding.overlaps.iter().map(|other| {
        let (subject, nanos) = (printable(&other.subject), Nanos(other.nanos));
        format!("{} of {} (up to {nanos})", other.rule, cut(&subject, WIDEST))
    });
    let overlaps = overlaps.collect::<Vec<_>>().join(", ");
    (!overlaps.is_empty()).then(|| format!("Counts the same time in part as: {overlaps}"))
}

/// What could not be had, so that nobody takes it for what is not there.
fn missing(report: &Report, look: Look, out: &mut impl Write) -> io::Result<()> {
    if report.missing.is_empty() {
        return Ok(());
    }
    heading("Not in this report", look, out)?;
    for missing in &report.missing {
        writeln!(out, "  {}: {}", missing.name, printable(&missing.why))?;
    }
    writeln!(out)
}

fn section(
    table: &SectionRows,
    args: &AnalyzeArgs,
    look: Look,
    out: &mut impl Write,
) -> io::Result<()> {
    heading(table.title, look, out)?;
    if let Some(why) = &table.missing {
        writeln!(out, "  not in this report: {}", printable(why))?;
    } else if table.rows.is_empty() {
        writeln!(out, "  no rows")?;
    }
    let headings: Vec<String> = headings(table).collect();
    let rows: Vec<Vec<String>> =
        table.rows.iter().map(|row| values(table, row).collect()).collect();
    let align = |at| if is_number(table, at) { Align::Right } else { Align::Left };
    let aligns: Vec<Align> = (0..headings.len()).map(align).collect();
    write_rows(&headings, &rows, &aligns, look, out)?;
    if table.was_cut {
        writeln!(out, "  {}", look.paint.with(Style::Dim, "… and more: --top N"))?;
    }
    if args.sql {
        for line in table.sql.lines() {
            writeln!(out, "    {line}")?;
        }
    }
    writeln!(out)
}
