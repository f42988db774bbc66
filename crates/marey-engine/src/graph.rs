//! The Python class `marey._engine.Graph`: the tree of a profile with its columns, which
//! `marey.graph` wraps. Each method works on a snapshot, and long work runs without the GIL.
#![expect(clippy::needless_pass_by_value, reason = "PyO3 converts arguments into owned values")]

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use marey::lines;
use marey_formats::hatchet;
use marey_model::context::NodeKind;
use marey_query::graph::{self, Cells, ColumnOperator, Filter, NameStyle, Side, Threshold};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::error::{
    bad_filter, bad_metric, missing_column, os_error, unreadable_bytes, unreadable_file,
};
use crate::{cells, devices, file};

/// The tree of a profile with its columns.
///
/// Nodes are numbered from 0 in pre-order, siblings by name, and every list has one entry per node.
/// Several threads may use a graph: each call sees a snapshot from when the call began.
#[pyclass(module = "marey._engine", frozen)]
pub(crate) struct Graph {
    /// The graph. It is copied on write while another thread holds a snapshot.
    graph: Mutex<Arc<graph::Graph>>,
}

impl From<graph::Graph> for Graph {
    fn from(graph: graph::Graph) -> Self {
        Arc::new(graph).into()
    }
}

impl From<Arc<graph::Graph>> for Graph {
    fn from(graph: Arc<graph::Graph>) -> Self {
        Self { graph: Mutex::new(graph) }
    }
}

impl Graph {
    /// Returns a snapshot of the graph.
    fn snapshot(&self, py: Python<'_>) -> Arc<graph::Graph> {
        Arc::clone(&self.graph.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner))
    }

    fn modify<T: Send>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut graph::Graph) -> T + Send,
    ) -> T {
        py.detach(|| {
            let mut graph = self.graph.lock().unwrap_or_else(PoisonError::into_inner);
            change(Arc::make_mut(&mut graph))
        })
    }
}

#[pymethods]
impl Graph {
    /// Read a `.hatchet` or `.hatchet_msgpack` file.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let graph = py.detach(|| hatchet::read(&path).map(graph::Graph::new));
        Ok(graph.map_err(unreadable_file)?.into())
    }

    /// Parse the content of a `.hatchet` or `.hatchet_msgpack` file.
    #[staticmethod]
    fn parse(py: Python<'_>, content: &[u8]) -> PyResult<Self> {
        let graph = py.detach(|| hatchet::parse(content).map(graph::Graph::new));
        Ok(graph.map_err(|error| unreadable_bytes(&error))?.into())
    }

    /// An independent copy.
    fn copy(&self, py: Python<'_>) -> Self {
        self.snapshot(py).into()
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.snapshot(py).nodes().len()
    }

    /// Names of the metrics that are summed into parents, unit included.
    fn inclusive(&self, py: Python<'_>) -> Vec<String> {
        to_strings(self.snapshot(py).inclusive())
    }

    /// `name`, and the names of the other metrics, unit included.
    fn exclusive(&self, py: Python<'_>) -> Vec<String> {
        to_strings([Arc::from("name")].into_iter().chain(self.snapshot(py).exclusive()))
    }

    /// The devices by family and number, as in the file. Clocks are in kHz.
    fn device_info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        devices::to_python(py, self.snapshot(py).devices())
    }

    /// Replace the device descriptions.
    fn set_device_info(&self, py: Python<'_>, device_info: &Bound<'_, PyDict>) -> PyResult<()> {
        let devices = devices::from_python(device_info)?;
        self.modify(py, |graph| graph.set_devices(devices));
        Ok(())
    }

    /// The display name of each node.
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.snapshot(py).nodes().iter().map(|node| &*node.name))
    }

    /// The name of each node in the profile.
    fn frames<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.snapshot(py).nodes().iter().map(|node| &*node.profile_name))
    }

    /// The kind of each node, where the profile has it.
    fn kinds(&self, py: Python<'_>) -> Vec<Option<&'static str>> {
        self.snapshot(py).nodes().iter().map(|node| node.kind.map(NodeKind::as_str)).collect()
    }

    /// The numbers of the nodes of a kind.
    fn nodes_of_kind(&self, py: Python<'_>, kind: &str) -> Vec<usize> {
        let graph = self.snapshot(py);
        py.detach(|| {
            indexes_of_nodes(&graph, |node| {
                node.kind.is_some_and(|node_kind| node_kind.as_str() == kind)
            })
        })
    }

    /// The numbers of the nodes with a display name.
    fn nodes_with_name(&self, py: Python<'_>, name: &str) -> Vec<usize> {
        let graph = self.snapshot(py);
        py.detach(|| indexes_of_nodes(&graph, |node| &*node.name == name))
    }

    /// The number of each node's parent.
    fn parents(&self, py: Python<'_>) -> Vec<Option<usize>> {
        self.snapshot(py).nodes().iter().map(|node| node.parent).collect()
    }

    /// The number of ancestors of each node.
    fn depths(&self, py: Python<'_>) -> Vec<usize> {
        self.snapshot(py).nodes().iter().map(|node| node.depth).collect()
    }

    /// The end (exclusive) of each node's subtree.
    fn ends(&self, py: Python<'_>) -> Vec<usize> {
        self.snapshot(py).nodes().iter().map(|node| node.subtree_end).collect()
    }

    /// Returns which of two combined graphs has each node: `both`, `left` or `right`.
    fn sides(&self, py: Python<'_>) -> Vec<&'static str> {
        let side_name = |side| match side {
            Side::Both => "both",
            Side::Left => "left",
            Side::Right => "right",
        };
        self.snapshot(py).nodes().iter().map(|node| side_name(node.side)).collect()
    }

    /// The labels of all columns.
    fn labels(&self, py: Python<'_>) -> Vec<String> {
        to_strings(self.snapshot(py).labels())
    }

    /// The label of the column for a name. The name may be a label, a metric as `derive` accepts
    /// it, or the name of a derived metric.
    fn label(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        self.snapshot(py).label_of(name).map_err(|error| bad_metric(&error))
    }

    /// A column. A numeric one is the bytes of its 64-bit floats, with NaN for missing values, and
    /// whether all values are whole. Any other one is a list of values and `None`.
    fn column<'py>(&self, py: Python<'py>, label: &str) -> PyResult<Bound<'py, PyAny>> {
        let graph = self.snapshot(py);
        match py.detach(|| graph.column(label)) {
            Some(column) => cells::to_python(py, &column),
            None => Err(PyKeyError::new_err(label.to_owned())),
        }
    }

    /// Set a column in either form. The label of a metric sets the metric's own values.
    #[pyo3(signature = (label, values, are_whole=false))]
    fn set_column(
        &self,
        py: Python<'_>,
        label: &str,
        values: &Bound<'_, PyAny>,
        are_whole: bool,
    ) -> PyResult<()> {
        let cells = cells::from_python(values, are_whole, self.__len__(py))?;
        self.modify(py, |graph| graph.set_column(label, cells));
        Ok(())
    }

    /// Remove a column. The sums of a removed metric remain. A metric whose sums are removed is no
    /// longer summed into parents.
    fn remove_column(&self, py: Python<'_>, label: &str) {
        self.modify(py, |graph| graph.remove_column(label));
    }

    /// Recompute the sums of metrics in parents, and so replace sums that were set.
    fn update_sums(&self, py: Python<'_>) {
        self.modify(py, graph::Graph::update_sums);
    }

    /// Set the display name of each node.
    fn set_names(&self, py: Python<'_>, names: Vec<String>) -> PyResult<()> {
        let count = self.__len__(py);
        if names.len() != count {
            let message = format!("got {} names for {count} nodes", names.len());
            return Err(PyValueError::new_err(message));
        }
        self.modify(py, |graph| graph.set_names(names.into_iter().map(Arc::from)));
        Ok(())
    }

    /// Show names in another style: `full`, `file_function_line`, `function_line` or
    /// `file_function`.
    fn style_names(&self, py: Python<'_>, style: &str) -> PyResult<()> {
        let style = match style {
            "full" => NameStyle::Full,
            "file_function_line" => NameStyle::FileFunctionLine,
            "function_line" => NameStyle::FunctionLine,
            "file_function" => NameStyle::FileFunction,
            _ => return Err(PyValueError::new_err(format!("unknown name format {style:?}"))),
        };
        self.modify(py, |graph| graph.style_names(style));
        Ok(())
    }

    /// Add a column for each metric. Returns the labels, and notes about the figures.
    fn derive(&self, py: Python<'_>, metrics: Vec<String>) -> PyResult<(Vec<String>, Vec<String>)> {
        let derived = self.modify(py, |graph| graph.derive(&metrics));
        let derived = derived.map_err(|error| bad_metric(&error))?;
        Ok((derived.labels, derived.notes))
    }

    /// The graph after a filter. The threshold applies to the column `metric`.
    #[pyo3(signature = (include, exclude, threshold, metric))]
    fn filter(
        &self,
        py: Python<'_>,
        include: Option<String>,
        exclude: Option<String>,
        threshold: Option<f64>,
        metric: &str,
    ) -> PyResult<Self> {
        let filter = new_filter(include, exclude, threshold);
        let graph = self.snapshot(py);
        let filtered = py.detach(|| graph.filter(&filter, metric));
        Ok(filtered.map_err(|error| bad_filter(&error))?.into())
    }

    /// Whether each node passes the filter that `filter` would apply.
    #[pyo3(signature = (include, exclude, threshold, metric))]
    fn passing(
        &self,
        py: Python<'_>,
        include: Option<String>,
        exclude: Option<String>,
        threshold: Option<f64>,
        metric: &str,
    ) -> PyResult<Vec<bool>> {
        let filter = new_filter(include, exclude, threshold);
        let graph = self.snapshot(py);
        let is_kept = py.detach(|| graph.passing_nodes(&filter, metric));
        is_kept.map_err(|error| bad_filter(&error))
    }

    /// The graph of the kept nodes. Children of a removed node move to its nearest kept ancestor.
    fn squash(&self, py: Python<'_>, is_kept: Vec<bool>) -> PyResult<Self> {
        let graph = self.snapshot(py);
        let count = graph.nodes().len();
        if is_kept.len() != count {
            let message = format!("got {} flags for {count} nodes", is_kept.len());
            return Err(PyValueError::new_err(message));
        }
        Ok(py.detach(|| graph.squash(&is_kept)).into())
    }

    /// The nodes of both graphs, with `self operator other` in the columns. `operator` is one of
    /// `+-*/`. Without labels, all columns are combined, and the other graph must have the columns
    /// that were added to this one.
    #[pyo3(signature = (other, operator, labels=None))]
    fn combine(
        &self,
        py: Python<'_>,
        other: &Self,
        operator: &str,
        labels: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let operator = match operator {
            "+" => ColumnOperator::Add,
            "-" => ColumnOperator::Subtract,
            "*" => ColumnOperator::Multiply,
            "/" => ColumnOperator::Divide,
            _ => return Err(PyValueError::new_err(format!("unknown operator {operator:?}"))),
        };
        let (left, right) = (self.snapshot(py), other.snapshot(py));
        let label =
            |name: String| left.label_of(&name).or_else(|_| right.label_of(&name)).unwrap_or(name);
        let labels = labels.map(|names| names.into_iter().map(label).collect::<Vec<_>>());
        let incompatible = match &labels {
            Some(labels) => left.find_incompatible_label(&right, labels),
            None => left.find_incompatible_label(&right, &left.labels()),
        };
        if let Some((label, side)) = incompatible {
            return Err(missing_column(&label, side));
        }
        Ok(py.detach(|| left.combine(&right, operator, labels.as_deref())).into())
    }

    /// The changes since `before`: four columns for each label.
    fn difference(&self, py: Python<'_>, before: &Self, labels: Vec<String>) -> PyResult<Self> {
        let (after, before) = (self.snapshot(py), before.snapshot(py));
        if let Some((label, side)) = after.find_incompatible_label(&before, &labels) {
            return Err(missing_column(&label, side));
        }
        Ok(py.detach(|| after.difference(&before, &labels)).into())
    }

    /// The tree as text, with a line for each node above `depth`: its columns with `precision`
    /// digits, and its name or its entry in `names`.
    #[pyo3(signature = (labels, depth, precision, has_short_names, names=None))]
    fn tree(
        &self,
        py: Python<'_>,
        labels: Vec<String>,
        depth: usize,
        precision: usize,
        has_short_names: bool,
        names: Option<Vec<String>>,
    ) -> PyResult<String> {
        if let Some(names) = names {
            let renamed = self.copy(py);
            renamed.set_names(py, names)?;
            return renamed.tree(py, labels, depth, precision, has_short_names, None);
        }
        let graph = self.snapshot(py);
        let column =
            |label: &String| graph.column(label).ok_or_else(|| PyKeyError::new_err(label.clone()));
        let columns: Vec<Cells> = labels.iter().map(column).collect::<PyResult<_>>()?;
        let style = lines::LineStyle { precision, has_short_names, has_marks: true };
        let mut text = Vec::new();
        py.detach(|| {
            let rows = lines::Rows::new(&graph, lines::SiblingOrder::Name, None, depth);
            lines::write_tree(&mut text, &graph, &columns, &rows, style)
        })?;
        Ok(String::from_utf8(text)?)
    }

    /// Write a file atomically. `format` is `hatchet` or `hatchet_msgpack`.
    fn write(&self, py: Python<'_>, path: PathBuf, format: &str) -> PyResult<()> {
        let format = file::parse_format(format)?;
        let graph = self.snapshot(py);
        let write_result = py.detach(|| file::write(&graph.to_profile(), format, &path));
        write_result.map_err(|error| os_error(error, &path))
    }

    /// The content that `write` would write.
    fn to_bytes<'py>(&self, py: Python<'py>, format: &str) -> PyResult<Bound<'py, PyBytes>> {
        let format = file::parse_format(format)?;
        let graph = self.snapshot(py);
        let mut content = Vec::new();
        py.detach(|| hatchet::write(&graph.to_profile(), format, &mut content))?;
        Ok(PyBytes::new(py, &content))
    }
}

fn new_filter(include: Option<String>, exclude: Option<String>, threshold: Option<f64>) -> Filter {
    Filter { include, exclude, threshold: threshold.map(Threshold::Value) }
}

fn indexes_of_nodes(graph: &graph::Graph, is_wanted: impl Fn(&graph::Node) -> bool) -> Vec<usize> {
    let nodes = graph.nodes().iter().enumerate();
    nodes.filter(|(_, node)| is_wanted(node)).map(|(index, _)| index).collect()
}

fn to_strings(texts: impl IntoIterator<Item = Arc<str>>) -> Vec<String> {
    texts.into_iter().map(|text| text.as_ref().to_owned()).collect()
}
