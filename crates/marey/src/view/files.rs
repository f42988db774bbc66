//! Shows the files of `marey view`: one profile, or several side by side.

use std::io;

use marey_query::graph::{Filter, Graph, side_by_side};

use super::args::{Form, ViewArgs};
use super::choose::{ChosenMetric, check_size, distinct_metrics};
use super::columns::TableColumn;
use super::load::Loaded;
use super::rows::Rows;
use super::shared_threshold::SharedThreshold;
use super::short_names::short_names;
use super::show::{self, TableColumns};
use super::{csv, json, report};
use crate::output::{Failure, Output, Stop};
use crate::text::{printable, quote_path};

/// Shows all files. A file that cannot be read does not stop the others.
pub(super) fn view(args: &ViewArgs, output: &mut Output) -> Result<(), Stop> {
    let form = args.form(output.is_terminal);
    let request = args.request(form);
    let name_filter = args.name_filter();
    let load = |file| Loaded::new(file, &request).and_then(|shown| shown.narrow(&name_filter));
    let mut loaded = report_errors(output, args.files.iter().map(|file| load(file)))?;
    let is_joined = loaded.len() > 1 && matches!(form, Form::Lines | Form::Table);
    if !is_joined {
        let value_filter = Filter { threshold: args.threshold(), ..Filter::default() };
        let narrowed = loaded.into_iter().map(|shown| shown.narrow(&value_filter));
        loaded = report_errors(output, narrowed)?;
        for shown in &mut loaded {
            shown.graph.style_names(args.name_style());
        }
    }
    match (form, &loaded[..]) {
        (_, []) => {}
        (Form::Json, _) => write_json(args, output, &loaded)?,
        (Form::Csv, _) => {
            let metrics = metrics_of_all(&loaded);
            let rows = loaded.iter().map(|shown| shown.graph.nodes().len()).sum();
            check_size(&request, metrics.len(), rows)?;
            write_csv(args, output, &loaded, &metrics)?;
        }
        (_, [profile]) => write_one(args, output, form, profile)?,
        _ => write_several(args, output, form, &loaded)?,
    }
    for shown in &loaded {
        report_notes(output, form, shown, loaded.len() > 1)?;
    }
    Ok(())
}

/// Reports the errors and returns the other results.
fn report_errors<T>(
    output: &mut Output,
    results: impl Iterator<Item = Result<T, Failure>>,
) -> io::Result<Vec<T>> {
    let mut loaded_files = Vec::new();
    for result in results {
        match result {
            Ok(loaded) => loaded_files.push(loaded),
            Err(failure) => output.error(&failure)?,
        }
    }
    Ok(loaded_files)
}

fn write_json(args: &ViewArgs, output: &mut Output, loaded: &[Loaded<'_>]) -> io::Result<()> {
    for shown in loaded {
        let rows = select_rows(args, Form::Json, shown);
        let Loaded { file, graph, .. } = shown;
        let metrics = &distinct_metrics(&shown.metrics);
        let hidden = shown.hidden + graph.nodes().len() - rows.len();
        json::JsonDocument { file, before: None, graph, metrics, rows: &rows, hidden }
            .write(output.data())?;
    }
    Ok(())
}

fn write_csv(
    args: &ViewArgs,
    output: &mut Output,
    loaded: &[Loaded<'_>],
    metrics: &[ChosenMetric],
) -> io::Result<()> {
    let rows: Vec<Rows> = loaded.iter().map(|shown| select_rows(args, Form::Csv, shown)).collect();
    let parts = loaded.iter().zip(&rows);
    let parts: Vec<csv::Part<'_>> = parts
        .map(|(shown, rows)| csv::Part { file: shown.file, graph: &shown.graph, rows })
        .collect();
    csv::write(output.data(), &parts, metrics, false)
}

fn select_rows(args: &ViewArgs, form: Form, shown: &Loaded<'_>) -> Rows {
    let first = shown.metrics.first().and_then(|first| shown.graph.column(&first.label));
    Rows::new(&shown.graph, args.order(form), first.as_ref(), args.max_levels(form))
}

fn write_one(
    args: &ViewArgs,
    output: &mut Output,
    form: Form,
    shown: &Loaded<'_>,
) -> io::Result<()> {
    let Loaded { graph, metrics, .. } = shown;
    let count = if form == Form::Lines {
        show::write_lines(args, output, graph, metrics, false)?
    } else {
        let paint = output.paint;
        report::write_heading(output.data(), paint, None, shown.file, graph.meta())?;
        write_table(args, output, graph, metrics, shown)?
    };
    report::note_hidden(args, output, shown.hidden, graph.nodes().len() - count)
}

fn write_several(
    args: &ViewArgs,
    output: &mut Output,
    form: Form,
    loaded: &[Loaded<'_>],
) -> Result<(), Stop> {
    let names = short_names(&loaded.iter().map(|shown| shown.file).collect::<Vec<_>>());
    let metrics_of_files = metrics_of_all(loaded);
    let labels: Vec<String> = metrics_of_files.iter().map(|metric| metric.label.clone()).collect();
    let graphs: Vec<(&str, &Graph)> =
        names.iter().zip(loaded).map(|(name, shown)| (&**name, &shown.graph)).collect();
    let mut graph = side_by_side(&graphs, &labels);
    let mut filtered: usize = loaded.iter().map(|shown| shown.hidden).sum();
    if let Some(threshold) = args.threshold() {
        let first_labels = names
            .iter()
            .zip(loaded)
            .filter_map(|(name, shown)| Some(shown.metrics.first()?.for_file(name).label));
        let limit = SharedThreshold::new(threshold, &loaded.iter().collect::<Vec<_>>())?;
        let filtered_graph = limit.narrow(&graph, &first_labels.collect::<Vec<_>>())?;
        filtered += graph.nodes().len() - filtered_graph.nodes().len();
        graph = filtered_graph;
    }
    graph.style_names(args.name_style());
    let metrics = metrics_by_file(&metrics_of_files, &names, loaded);
    let count = if form == Form::Lines {
        show::write_lines(args, output, &graph, &metrics, false)?
    } else {
        let paint = output.paint;
        for (name, shown) in names.iter().zip(loaded) {
            report::write_heading(
                output.data(),
                paint,
                Some(name),
                shown.file,
                shown.graph.meta(),
            )?;
        }
        write_table(args, output, &graph, &metrics, &loaded[0])?
    };
    Ok(report::note_hidden(args, output, filtered, graph.nodes().len() - count)?)
}

/// Returns each metric once for each file that has it.
fn metrics_by_file(
    all: &[ChosenMetric],
    names: &[String],
    loaded: &[Loaded<'_>],
) -> Vec<ChosenMetric> {
    let mut metrics = Vec::new();
    for metric in all {
        let has = |shown: &Loaded<'_>| {
            shown.metrics.iter().any(|shown_metric| shown_metric.label == metric.label)
        };
        let files = names.iter().zip(loaded).filter(|(_, shown)| has(shown));
        metrics.extend(files.map(|(name, _)| metric.for_file(name)));
    }
    metrics
}

fn write_table(
    args: &ViewArgs,
    output: &mut Output,
    graph: &Graph,
    metrics: &[ChosenMetric],
    first: &Loaded<'_>,
) -> io::Result<usize> {
    let columns: Vec<TableColumn> =
        metrics.iter().map(|metric| TableColumn::from_metric(graph, metric)).collect();
    // A text metric has no shares.
    let total = first.metrics.first().and_then(|metric| {
        let values = first.graph.numbers(&metric.label).ok()?;
        Some(first.graph.total(&metric.label, &values))
    });
    let table = TableColumns { columns: &columns, first: metrics.first(), total };
    let count = show::write_table(args, output, graph, &table)?;
    if metrics.iter().any(|metric| show::overflows(graph, metric)) {
        output.warning("a sum of bytes is negative, which usually means an overflow")?;
    }
    Ok(count)
}

/// Returns every metric of the files once.
fn metrics_of_all(loaded: &[Loaded<'_>]) -> Vec<ChosenMetric> {
    distinct_metrics(loaded.iter().flat_map(|shown| &shown.metrics))
}

/// Prints notes and warnings on a file. Leaves out those that the output form has fields for, as
/// JSON has for most of them.
fn report_notes(
    output: &mut Output,
    form: Form,
    shown: &Loaded<'_>,
    is_one_of_several: bool,
) -> io::Result<()> {
    let file_prefix =
        if is_one_of_several { format!("{}: ", quote_path(shown.file)) } else { String::new() };
    let meta = shown.graph.meta();
    report::note_omitted_metrics(output, &file_prefix, shown.omitted_metrics)?;
    for note in &shown.notes {
        output.warning(format_args!("{file_prefix}{}", printable(note)))?;
    }
    if form == Form::Table {
        report::warn_of_checkpoint(output, &file_prefix, meta)?;
    }
    if matches!(form, Form::Table | Form::Lines) {
        report::warn_of_losses(output, &file_prefix, meta)?;
    }
    if form == Form::Table {
        report::note_overhead(output, &file_prefix, meta)?;
    }
    Ok(())
}
