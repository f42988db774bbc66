//! Shows the files of `marey view`: one profile, or several side by side.

use std::io;

use marey_query::graph::{Filter, Graph, side_by_side};

use super::args::{OutputForm, ViewArgs};
use super::choose::{ChosenMetric, check_size, distinct_metrics};
use super::columns::TableColumn;
use super::load::LoadedProfile;
use super::rows::Rows;
use super::shared_threshold::SharedThreshold;
use super::short_names::short_names;
use super::show::{self, TableColumns};
use super::{csv, json, report};
use crate::output::{CommandError, Failure, Output};
use crate::text::{printable, quote_path};

/// Shows all files. A file that cannot be read does not stop the others.
pub(super) fn view(args: &ViewArgs, output: &mut Output) -> Result<(), CommandError> {
    let form = args.form(output.is_terminal);
    let request = args.request(form);
    let name_filter = args.name_filter();
    let load =
        |file| LoadedProfile::new(file, &request).and_then(|profile| profile.filter(&name_filter));
    let mut loaded = report_errors(output, args.files.iter().map(|file| load(file)))?;
    let is_joined = loaded.len() > 1 && matches!(form, OutputForm::Lines | OutputForm::Table);
    if !is_joined {
        let value_filter = Filter { threshold: args.threshold(), ..Filter::default() };
        let narrowed = loaded.into_iter().map(|profile| profile.filter(&value_filter));
        loaded = report_errors(output, narrowed)?;
        for profile in &mut loaded {
            profile.graph.style_names(args.name_style());
        }
    }
    match (form, &loaded[..]) {
        (_, []) => {}
        (OutputForm::Json, _) => write_json(args, output, &loaded)?,
        (OutputForm::Csv, _) => {
            let metrics = metrics_of_all(&loaded);
            let rows = loaded.iter().map(|profile| profile.graph.nodes().len()).sum();
            check_size(&request, metrics.len(), rows)?;
            write_csv(args, output, &loaded, &metrics)?;
        }
        (_, [profile]) => write_one(args, output, form, profile)?,
        _ => write_several(args, output, form, &loaded)?,
    }
    for profile in &loaded {
        report_notes(output, form, profile, loaded.len() > 1)?;
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

fn write_json(
    args: &ViewArgs,
    output: &mut Output,
    loaded: &[LoadedProfile<'_>],
) -> io::Result<()> {
    for profile in loaded {
        let rows = select_rows(args, OutputForm::Json, profile);
        let LoadedProfile { file, graph, .. } = profile;
        let metrics = &distinct_metrics(&profile.metrics);
        let hidden_nodes = profile.hidden_nodes + graph.nodes().len() - rows.len();
        json::JsonDocument { file, before: None, graph, metrics, rows: &rows, hidden_nodes }
            .write(output.data())?;
    }
    Ok(())
}

fn write_csv(
    args: &ViewArgs,
    output: &mut Output,
    loaded: &[LoadedProfile<'_>],
    metrics: &[ChosenMetric],
) -> io::Result<()> {
    let rows: Vec<Rows> =
        loaded.iter().map(|profile| select_rows(args, OutputForm::Csv, profile)).collect();
    let parts = loaded.iter().zip(&rows);
    let parts: Vec<csv::CsvPart<'_>> = parts
        .map(|(profile, rows)| csv::CsvPart { file: profile.file, graph: &profile.graph, rows })
        .collect();
    csv::write(output.data(), &parts, metrics, false)
}

fn select_rows(args: &ViewArgs, form: OutputForm, profile: &LoadedProfile<'_>) -> Rows {
    let sort_cells = profile.metrics.first().and_then(|metric| profile.graph.column(&metric.label));
    Rows::new(&profile.graph, args.order(form), sort_cells.as_ref(), args.max_levels(form))
}

fn write_one(
    args: &ViewArgs,
    output: &mut Output,
    form: OutputForm,
    profile: &LoadedProfile<'_>,
) -> io::Result<()> {
    let LoadedProfile { graph, metrics, .. } = profile;
    let shown_count = if form == OutputForm::Lines {
        show::write_lines(args, output, graph, metrics, false)?
    } else {
        let paint = output.paint;
        report::write_heading(output.data(), paint, None, profile.file, graph.meta())?;
        write_table(args, output, graph, metrics, profile)?
    };
    report::note_hidden(args, output, profile.hidden_nodes, graph.nodes().len() - shown_count)
}

fn write_several(
    args: &ViewArgs,
    output: &mut Output,
    form: OutputForm,
    loaded: &[LoadedProfile<'_>],
) -> Result<(), CommandError> {
    let names = short_names(&loaded.iter().map(|profile| profile.file).collect::<Vec<_>>());
    let metrics_of_files = metrics_of_all(loaded);
    let labels: Vec<String> = metrics_of_files.iter().map(|metric| metric.label.clone()).collect();
    let graphs: Vec<(&str, &Graph)> =
        names.iter().zip(loaded).map(|(name, profile)| (&**name, &profile.graph)).collect();
    let mut graph = side_by_side(&graphs, &labels);
    let mut filtered_count: usize = loaded.iter().map(|profile| profile.hidden_nodes).sum();
    if let Some(threshold) = args.threshold() {
        let first_labels = names
            .iter()
            .zip(loaded)
            .filter_map(|(name, profile)| Some(profile.metrics.first()?.for_file(name).label));
        let limit = SharedThreshold::new(threshold, &loaded.iter().collect::<Vec<_>>())?;
        let filtered_graph = limit.filter(&graph, &first_labels.collect::<Vec<_>>())?;
        filtered_count += graph.nodes().len() - filtered_graph.nodes().len();
        graph = filtered_graph;
    }
    graph.style_names(args.name_style());
    let metrics = metrics_by_file(&metrics_of_files, &names, loaded);
    let shown_count = if form == OutputForm::Lines {
        show::write_lines(args, output, &graph, &metrics, false)?
    } else {
        let paint = output.paint;
        for (name, profile) in names.iter().zip(loaded) {
            report::write_heading(
                output.data(),
                paint,
                Some(name),
                profile.file,
                profile.graph.meta(),
            )?;
        }
        write_table(args, output, &graph, &metrics, &loaded[0])?
    };
    Ok(report::note_hidden(args, output, filtered_count, graph.nodes().len() - shown_count)?)
}

/// Returns each metric once for each file that has it.
fn metrics_by_file(
    all: &[ChosenMetric],
    names: &[String],
    loaded: &[LoadedProfile<'_>],
) -> Vec<ChosenMetric> {
    let mut metrics = Vec::new();
    for metric in all {
        let has = |profile: &LoadedProfile<'_>| {
            profile.metrics.iter().any(|shown_metric| shown_metric.label == metric.label)
        };
        let files = names.iter().zip(loaded).filter(|(_, profile)| has(profile));
        metrics.extend(files.map(|(name, _)| metric.for_file(name)));
    }
    metrics
}

fn write_table(
    args: &ViewArgs,
    output: &mut Output,
    graph: &Graph,
    metrics: &[ChosenMetric],
    first_profile: &LoadedProfile<'_>,
) -> io::Result<usize> {
    let columns: Vec<TableColumn> =
        metrics.iter().map(|metric| TableColumn::from_metric(graph, metric)).collect();
    // A text metric has no shares.
    let total = first_profile.metrics.first().and_then(|metric| {
        let values = first_profile.graph.numbers(&metric.label).ok()?;
        Some(first_profile.graph.total(&metric.label, &values))
    });
    let table = TableColumns { columns: &columns, sort_metric: metrics.first(), total };
    let shown_count = show::write_table(args, output, graph, &table)?;
    if metrics.iter().any(|metric| show::overflows(graph, metric)) {
        output.warning("a sum of bytes is negative, which usually means an overflow")?;
    }
    Ok(shown_count)
}

/// Returns every metric of the files once.
fn metrics_of_all(loaded: &[LoadedProfile<'_>]) -> Vec<ChosenMetric> {
    distinct_metrics(loaded.iter().flat_map(|profile| &profile.metrics))
}

/// Prints notes and warnings on a file. Leaves out those that the output form has fields for, as
/// JSON has for most of them.
fn report_notes(
    output: &mut Output,
    form: OutputForm,
    profile: &LoadedProfile<'_>,
    is_one_of_several: bool,
) -> io::Result<()> {
    let file_prefix =
        if is_one_of_several { format!("{}: ", quote_path(profile.file)) } else { String::new() };
    let meta = profile.graph.meta();
    report::note_omitted_metrics(output, &file_prefix, profile.omitted_metrics)?;
    for note in &profile.notes {
        output.warning(format_args!("{file_prefix}{}", printable(note)))?;
    }
    if form == OutputForm::Table {
        report::warn_of_checkpoint(output, &file_prefix, meta)?;
    }
    if matches!(form, OutputForm::Table | OutputForm::Lines) {
        report::warn_of_losses(output, &file_prefix, meta)?;
    }
    if form == OutputForm::Table {
        report::note_overhead(output, &file_prefix, meta)?;
    }
    Ok(())
}
