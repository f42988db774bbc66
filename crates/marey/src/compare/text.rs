//! Writes a comparison of `marey compare` as plain text.

use std::io::{self, Write};

use marey_analysis::Comparison;
use marey_analysis::compare::{ChangeCategory, OperationDifference, Rename, Significance};
use marey_analysis::render::show;
use marey_analysis::tables::reason_text;
use marey_model::quantity::{Nanos, Real};

use crate::aligned::{Align, HEADING_RULE, TextLayout, write_rows};
use crate::output::Style;
use crate::text::printable;

/// Writes the comparison.
pub(super) fn write(
    comparison: &Comparison,
    max_rows: usize,
    layout: TextLayout,
    out: &mut impl Write,
) -> io::Result<()> {
    let title = layout.paint.with(Style::Bold, "Profile Comparison");
    writeln!(out, "{title}\n{HEADING_RULE}")?;
    writeln!(out, "before: {}", printable(&comparison.before))?;
    writeln!(out, "after:  {}\n", printable(&comparison.after))?;
    write_metrics(comparison, layout, out)?;
    let operations =
        ("Operations, per step", &comparison.operations, &comparison.renamed_operations);
    let kernels = ("Kernels, per step", &comparison.kernels, &comparison.renamed_kernels);
    for (heading, differences, renames) in [operations, kernels] {
        write_differences(heading, differences, max_rows, layout, out)?;
        write_renames(differences, renames, max_rows, layout, out)?;
    }
    Ok(())
}

/// Writes the table of metrics.
pub(crate) fn write_metrics(
    comparison: &Comparison,
    layout: TextLayout,
    out: &mut impl Write,
) -> io::Result<()> {
    let heading = ["Metric", "Before", "After", "Change", "%", "95 % interval", "Significant"];
    let row = |row: &marey_analysis::compare::MetricChange| {
        let unit = row.metric.unit();
        vec![
            row.metric.to_string(),
            show::value(row.before, unit),
            show::value(row.after, unit),
            show::change(row.change, unit),
            show::percent(row.change_percent),
            show::interval(row.interval_percent, show::percent),
            match row.significance {
                Significance::Yes => "yes",
                Significance::No => "no",
                Significance::Unknown => "-",
            }
            .to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = comparison.metrics.iter().map(row).collect();
    let mut aligns = [Align::Right; 7];
    aligns[0] = Align::Left;
    aligns[6] = Align::Left;
    write_rows(&heading.map(str::to_owned), &rows, &aligns, layout, out)?;
    writeln!(out)
}

fn write_differences(
    heading: &str,
    differences: &[OperationDifference],
    max_rows: usize,
    layout: TextLayout,
    out: &mut impl Write,
) -> io::Result<()> {
    if differences.is_empty() {
        return Ok(());
    }
    let changed: Vec<&OperationDifference> =
        differences.iter().filter(|row| row.category != ChangeCategory::Unchanged).collect();
    let count = |category| changed.iter().filter(|row| row.category == category).count();
    writeln!(
        out,
        "{} ({} added, {} removed, {} increased, {} decreased, {} unchanged)",
        layout.paint.with(Style::Bold, heading),
        count(ChangeCategory::Added),
        count(ChangeCategory::Removed),
        count(ChangeCategory::Increased),
        count(ChangeCategory::Decreased),
        differences.len() - changed.len(),
    )?;
    let columns = ["Change", "%", "Before", "After", "Count", "", "Where"];
    let rows: Vec<Vec<String>> =
        changed.iter().take(max_rows).map(|row| difference_row(row)).collect();
    let mut aligns = [Align::Right; 7];
    aligns[5] = Align::Left;
    aligns[6] = Align::Left;
    if !rows.is_empty() {
        write_rows(&columns.map(str::to_owned), &rows, &aligns, layout, out)?;
    }
    if changed.len() > max_rows {
        let more_line = format!("  … {} more: --top N", changed.len() - max_rows);
        writeln!(out, "{}", layout.paint.with(Style::Dim, more_line))?;
    }
    writeln!(out)
}

fn difference_row(row: &OperationDifference) -> Vec<String> {
    let sign = if row.change_nanos() > 0.0 { "+" } else { "" };
    let (before, after) = (row.before.as_ref(), row.after.as_ref());
    let time = |nanos: Option<f64>| nanos.map_or("-".into(), |nanos| Nanos(nanos).to_string());
    let count = |count: Option<f64>| count.map_or("-".into(), |count| Real(count).to_string());
    let counts = [before, after].map(|side| count(side.map(|side| side.count)));
    let [count_before, count_after] = &counts;
    vec![
        format!("{sign}{}", Nanos(row.change_nanos())),
        show::percent(Some(row.change_percent())),
        time(before.map(|side| side.total_nanos)),
        time(after.map(|side| side.total_nanos)),
        if count_before == count_after {
            count_before.clone()
        } else {
            format!("{count_before} -> {count_after}")
        },
        row.category.as_str().to_owned(),
        printable(&row.path.join("/")).into_owned(),
    ]
}

fn write_renames(
    differences: &[OperationDifference],
    renames: &[Rename],
    max_rows: usize,
    layout: TextLayout,
    out: &mut impl Write,
) -> io::Result<()> {
    if renames.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", layout.paint.with(Style::Bold, "Renamed?"))?;
    for rename in renames.iter().take(max_rows) {
        let path = |index: usize| printable(&differences[index].path.join("/")).into_owned();
        let (before, after) = (path(rename.removed_index), path(rename.added_index));
        writeln!(out, "  {before} -> {after} ({})", reason_text(rename.reason))?;
    }
    if renames.len() > max_rows {
        let more_line = format!("  … {} more: --top N", renames.len() - max_rows);
        writeln!(out, "{}", layout.paint.with(Style::Dim, more_line))?;
    }
    writeln!(out)
}
