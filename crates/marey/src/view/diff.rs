//! What changed between two profiles: the positional file minus the one of `--diff-profile`.

use std::io;
use std::path::Path;

use marey_query::graph::{Compared, Filter, Graph, Operator};

use super::args::{Form, ViewArgs};
use super::choose::{Chosen, Wanted, at_a_glance, check_size, distinct};
use super::columns::Column;
use super::largest::Largest;
use super::load::Loaded;
use super::rows::Rows;
use super::show::{self, Tabled};
use super::{csv, json, load, report};
use crate::output::{Failure, Output, Stop};
use crate::text::{printable, quoted};

/// Before, after, difference and ratio.
const COLUMNS_A_METRIC: usize = 4;

/// Shows the one file beside `before`.
pub(super) fn view(args: &ViewArgs, before: &Path, output: &mut Output) -> Result<(), Stop> {
    let form = args.form(output.is_terminal);
    let wanted = args.wanted(form);
    let of_each = match &wanted {
        Wanted::Asked(_) => &wanted,
        Wanted::AtAGlance | Wanted::All => &Wanted::All,
    };
    let mut after = Loaded::new(&args.files[0], of_each)?;
    let mut before = Loaded::new(before, of_each)?;
    agree(&mut after, &mut before, &wanted)?;
    if matches!(form, Form::Json | Form::Csv) {
        after.metrics = distinct(&after.metrics);
        let rows = after.graph.nodes().len().max(before.graph.nodes().len());
        check_size(&wanted, COLUMNS_A_METRIC * after.metrics.len(), rows)?;
    }
    if form == Form::Lines {
        (after, before) = both(after, before, &args.filter())?;
        write_lines(args, output, &after, &before)?;
    } else {
        (after, before) = both(after, before, &args.name_filter())?;
        let mut graph = after.graph.difference(&before.graph, &labels(&after.metrics));
        let union_count = graph.nodes().len();
        if let Some(threshold) = args.threshold() {
            let of = Compared::of(&after.metrics[0].label);
            let limit = Largest::new(threshold, &[&after, &before])?;
            graph = limit.narrow(&graph, &[of.after, of.before])?;
        }
        graph.style_names(args.name_style());
        let difference = Difference { after: &after, before: &before, graph, union_count };
        difference.write(args, form, output)?;
    }
    report::note_more(output, "", after.more)?;
    for shown in [&after, &before] {
        let whose = format!("{}: ", quoted(shown.file));
        for note in &shown.notes {
            output.warning(format_args!("{whose}{}", printable(note)))?;
        }
        if matches!(form, Form::Lines | Form::Table) {
            report::warn_of_losses(output, &whose, shown.graph.meta())?;
        }
    }
    Ok(())
}

/// Makes sure that both sides mean the same by each metric. Metrics that nobody asked for are
/// those that both have as numbers.
fn agree(
    after: &mut Loaded<'_>,
    before: &mut Loaded<'_>,
    wanted: &Wanted<'_>,
) -> Result<(), Failure> {
    if matches!(wanted, Wanted::Asked(_)) {
        let mut pairs = after.metrics.iter().zip(&before.metrics);
        if let Some((left, right)) = pairs.find(|(left, right)| left.label != right.label) {
            return Err(Failure {
                message: format!(
                    "{} has `{}` where {} has `{}`",
                    quoted(before.file),
                    printable(&right.label),
                    quoted(after.file),
                    printable(&left.label)
                ),
                hint: Some("times can be compared in one unit, such as `time/ms`".into()),
            });
        }
        for side in [&*after, &*before] {
            for metric in &side.metrics {
                let numbers = side.graph.numbers(&metric.label);
                numbers.map_err(|error| load::cannot_show(side.file, &error))?;
            }
        }
        return Ok(());
    }
    let numeric = [after.graph.numeric(), before.graph.numeric()];
    let is_common = |metric: &&Chosen| numeric.iter().all(|labels| labels.contains(&metric.label));
    let common: Vec<Chosen> = after.metrics.iter().filter(is_common).cloned().collect();
    if common.is_empty() {
        return Err(Failure {
            message: format!(
                "{} and {} have no metric in common",
                quoted(after.file),
                quoted(before.file)
            ),
            hint: None,
        });
    }
    (after.metrics, after.more) = match wanted {
        Wanted::AtAGlance => {
            let choice = at_a_glance(common);
            (choice.metrics, choice.more)
        }
        Wanted::All | Wanted::Asked(_) => (common, 0),
    };
    before.metrics.clone_from(&after.metrics);
    Ok(())
}

/// As Proton's viewer: each side is filtered on its own, then subtracted.
fn write_lines(
    args: &ViewArgs,
    output: &mut Output,
    after: &Loaded<'_>,
    before: &Loaded<'_>,
) -> io::Result<()> {
    let labels = labels(&after.metrics);
    let mut graph = after.graph.combine(&before.graph, Operator::Subtract, Some(&labels));
    graph.style_names(args.name_style());
    let count = show::write_lines(args, output, &graph, &after.metrics, true)?;
    let filtered = after.hidden + before.hidden;
    report::note_hidden(args, output, filtered, graph.nodes().len() - count)
}

/// Filters each side on its own.
fn both<'a, 'b>(
    after: Loaded<'a>,
    before: Loaded<'b>,
    filter: &Filter,
) -> Result<(Loaded<'a>, Loaded<'b>), Failure> {
    Ok((after.narrow(filter)?, before.narrow(filter)?))
}

fn labels(metrics: &[Chosen]) -> Vec<String> {
    metrics.iter().map(|metric| metric.label.clone()).collect()
}

/// Two files and their graph of differences.
struct Difference<'a> {
    after: &'a Loaded<'a>,
    before: &'a Loaded<'a>,
    graph: Graph,
    /// Nodes before the threshold.
    union_count: usize,
}

impl Difference<'_> {
    fn write(&self, args: &ViewArgs, form: Form, output: &mut Output) -> Result<(), Stop> {
        if form == Form::Table {
            return self.write_table(args, output);
        }
        let Self { after, before, graph, .. } = self;
        let by = self.sorted_by();
        let first = graph.column(&by.label);
        let rows = Rows::new(graph, args.order(form), first.as_ref(), args.levels(form));
        let (file, metrics, rows) = (after.file, &*after.metrics, &rows);
        if form == Form::Json {
            let hidden = self.filtered() + graph.nodes().len() - rows.len();
            let before = Some(before.file);
            json::Document { file, before, graph, metrics, rows, hidden }.write(output.data())?;
        } else {
            csv::write(output.data(), &[csv::Part { file, graph, rows }], metrics, true)?;
        }
        Ok(())
    }

    fn write_table(&self, args: &ViewArgs, output: &mut Output) -> Result<(), Stop> {
        let Self { after, before, graph, .. } = self;
        let paint = output.paint;
        for (word, side) in [("before", before), ("after", after)] {
            let meta = side.graph.meta();
            report::write_heading(output.data(), paint, Some(word), side.file, meta)?;
        }
        let compared = after.metrics.iter().flat_map(|metric| Column::compared(graph, metric));
        let columns: Vec<Column> = compared.chain([Column::change(graph)]).collect();
        let by = self.sorted_by();
        let tabled = Tabled { columns: &columns, first: Some(&by), whole: None };
        let count = show::write_table(args, output, graph, &tabled)?;
        Ok(report::note_hidden(args, output, self.filtered(), graph.nodes().len() - count)?)
    }

    /// Nodes that the filter left out, once for each side by name and once by value.
    fn filtered(&self) -> usize {
        self.after.hidden + self.before.hidden + self.union_count - self.graph.nodes().len()
    }

    /// The first metric's difference.
    fn sorted_by(&self) -> Chosen {
        let metric = &self.after.metrics[0];
        Chosen { label: Compared::of(&metric.label).difference, ..metric.clone() }
    }
}
