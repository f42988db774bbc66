//! The columns of the table of `marey view`, which format and colour the values of a metric or of a
//! difference.

use marey_model::metric::MetricValue;
use marey_query::graph::{Cells, DifferenceLabels, Graph, Side};

use super::choose::ChosenMetric;
use super::number;
use super::units::{self, Unit};
use crate::output::Style;
use crate::text::printable;

/// A column of the table.
pub(super) struct TableColumn {
    /// Name in the header.
    pub(super) title: String,
    cells: Cells,
    form: ValueForm,
}

/// The format of a column's values.
enum ValueForm {
    Value(Unit),
    /// A signed number. An increase of a time is worse.
    Difference {
        unit: Unit,
        is_time: bool,
    },
    Ratio,
}

impl TableColumn {
    /// Creates a column of a metric's values.
    pub(super) fn from_metric(graph: &Graph, metric: &ChosenMetric) -> Self {
        Self::new(graph, &metric.label, &metric.title, ValueForm::Value(metric.unit))
    }

    /// Creates the columns of a metric in a graph of differences.
    pub(super) fn difference_columns(graph: &Graph, metric: &ChosenMetric) -> [Self; 4] {
        let labels = DifferenceLabels::new(&metric.label);
        let unit = metric.unit;
        let is_time = metric.is_time();
        let title = &metric.title;
        [
            Self::new(graph, &labels.before, &format!("{title} before"), ValueForm::Value(unit)),
            Self::new(graph, &labels.after, "after", ValueForm::Value(unit)),
            Self::new(
                graph,
                &labels.difference,
                "difference",
                ValueForm::Difference { unit, is_time },
            ),
            Self::new(graph, &labels.ratio, "ratio", ValueForm::Ratio),
        ]
    }

    /// Creates the column that marks added and removed nodes.
    pub(super) fn change_marks(graph: &Graph) -> Self {
        let text = |word: &str| MetricValue::Text(word.into());
        let cells = graph.nodes().iter().map(|node| change_word(node.side).map(text));
        Self {
            title: "change".into(),
            cells: Cells::Values(cells.collect()),
            form: ValueForm::Value(Unit::Plain),
        }
    }

    fn new(graph: &Graph, label: &str, title: &str, form: ValueForm) -> Self {
        let empty_cells = || Cells::Values(vec![None; graph.nodes().len()]);
        let cells = graph.column(label).unwrap_or_else(empty_cells);
        Self { title: printable(title).into_owned(), cells, form }
    }

    /// Appends the cell of a node, or nothing if it has no value.
    pub(super) fn push_cell(&self, out: &mut String, node: usize) {
        let value = number::from_cell(&self.cells, node);
        match self.form {
            ValueForm::Value(unit) => units::push_cell(out, &self.cells, node, unit),
            _ if value.is_nan() => {}
            ValueForm::Difference { unit, .. } => {
                out.push_str(if value > 0.0 { "+" } else { "" });
                units::push_real(out, value, unit);
            }
            ValueForm::Ratio => number::push(out, format_args!("{value:.2}×")),
        }
    }

    /// Returns the style of a node's cell.
    pub(super) fn style(&self, node: usize) -> Option<Style> {
        match self.form {
            ValueForm::Difference { is_time: true, .. } => {
                let value = number::from_cell(&self.cells, node);
                if value > 0.0 {
                    Some(Style::Red)
                } else if value < 0.0 {
                    Some(Style::Green)
                } else {
                    None
                }
            }
            _ => None,
        }
    }
}

/// Returns the word for a node that only one graph has. The left graph is the later one.
pub(super) const fn change_word(side: Side) -> Option<&'static str> {
    match side {
        Side::Both => None,
        Side::Left => Some("added"),
        Side::Right => Some("removed"),
    }
}
