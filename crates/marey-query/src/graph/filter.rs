//! Filters the nodes of a graph by name and by the value of a metric, as users of the viewer
//! request. Patterns are Python's regular expressions, matched from the start of a name.

use fancy_regex::Regex;
use marey_model::wall;
use thiserror::Error;

use super::column::INCLUSIVE;
use super::find::{MetricError, without_unit};
use super::sum::sum;
use super::{Graph, Node};

/// A filter over the nodes of a graph. Its conditions apply one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Keeps the nodes whose name the pattern matches from its start, with their ancestors and
    /// descendants.
    pub include: Option<String>,
    /// Removes the nodes whose name the pattern matches from its start, with their descendants.
    pub exclude: Option<String>,
    /// Keeps the nodes that reach a value, with their ancestors.
    pub threshold: Option<Threshold>,
}

/// A value that a metric must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// In the metric's unit.
    Value(f64),
    /// In per cent of the metric's total, see [`Graph::total`].
    Percent(f64),
}

/// The reason why a filter has no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    /// The pattern is not a valid regular expression.
    #[error("bad pattern `{pattern}`: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The error in it.
        reason: String,
    },
    /// No node passes.
    #[error("nothing is left of the profile: {condition}")]
    Empty {
        /// The condition that no node meets.
        condition: String,
    },
    /// The threshold's metric cannot be compared.
    #[error(transparent)]
    Metric(#[from] MetricError),
}

impl Graph {
    /// Returns the filtered graph. The threshold applies to the column `metric`.
    ///
    /// Metrics of the profile are summed again over the remaining nodes. Derived metrics keep their
    /// values from the whole graph.
    pub fn filter(&self, filter: &Filter, metric: &str) -> Result<Self, FilterError> {
        let mut graph = None;
        if let Some(pattern) = &filter.include {
            graph = Some(self.squash(&self.select_included(pattern)?));
        }
        if let Some(pattern) = &filter.exclude {
            let graph_so_far = graph.as_ref().unwrap_or(self);
            graph = Some(graph_so_far.squash(&graph_so_far.select_not_excluded(pattern)?));
        }
        if let Some(threshold) = filter.threshold {
            let graph_so_far = graph.as_ref().unwrap_or(self);
            graph = Some(graph_so_far.squash(&graph_so_far.select_reaching(metric, threshold)?));
        }
        Ok(graph.unwrap_or_else(|| self.clone()))
    }

    /// Whether each node passes all conditions of the filter. Unlike in [`Graph::filter`], metrics
    /// are not summed again between the conditions.
    pub fn passing_nodes(&self, filter: &Filter, metric: &str) -> Result<Vec<bool>, FilterError> {
        let mut is_kept = vec![true; self.nodes.len()];
        let mut keep_only = |passes: Vec<bool>| {
            is_kept.iter_mut().zip(passes).for_each(|(is_kept, passes)| *is_kept &= passes);
        };
        if let Some(pattern) = &filter.include {
            keep_only(self.select_included(pattern)?);
        }
        if let Some(pattern) = &filter.exclude {
            keep_only(self.select_not_excluded(pattern)?);
        }
        if let Some(threshold) = filter.threshold {
            keep_only(self.select_reaching(metric, threshold)?);
        }
        require_any_kept(is_kept, || "no node meets every condition".into())
    }

    fn select_included(&self, pattern: &str) -> Result<Vec<bool>, FilterError> {
        let is_match = self.matching_nodes(pattern)?;
        let mut is_descendant = is_match.clone();
        for node in 0..self.nodes.len() {
            let parent = self.nodes[node].parent;
            is_descendant[node] |= parent.is_some_and(|parent| is_descendant[parent]);
        }
        let is_ancestor = self.with_ancestors(is_match);
        let pairs = is_descendant.iter().zip(is_ancestor);
        let is_kept = pairs.map(|(descendant, ancestor)| *descendant || ancestor).collect();
        require_any_kept(is_kept, || format!("no name matches `{pattern}`"))
    }

    fn select_not_excluded(&self, pattern: &str) -> Result<Vec<bool>, FilterError> {
        let mut is_excluded = self.matching_nodes(pattern)?;
        for node in 0..self.nodes.len() {
            let parent = self.nodes[node].parent;
            is_excluded[node] |= parent.is_some_and(|parent| is_excluded[parent]);
        }
        let is_kept = is_excluded.iter().map(|is_excluded| !is_excluded).collect();
        require_any_kept(is_kept, || format!("`{pattern}` matches every root"))
    }

    fn select_reaching(
        &self,
        metric: &str,
        threshold: Threshold,
    ) -> Result<Vec<bool>, FilterError> {
        let values = self.numbers(metric)?;
        let limit = match threshold {
            Threshold::Value(limit) => limit,
            Threshold::Percent(percent) => self.total(metric, &values) * percent / 100.0,
        };
        let is_kept = self.with_ancestors(values.iter().map(|value| *value >= limit).collect());
        require_any_kept(is_kept, || format!("no {metric} reaches {limit}"))
    }

    /// Returns the total that the bars and percentage thresholds of a column refer to. For a metric
    /// that is summed into parents it is the sum of the root. For wall totals, which include
    /// descendants, it is the sum over the top level. For any other column it is the sum over all
    /// nodes.
    pub fn total(&self, label: &str, values: &[f64]) -> f64 {
        // A derived time has the label of a sum even if the file's metric is not summed.
        if let Some(&root) = values.first()
            && label.ends_with(INCLUSIVE)
            && !root.is_nan()
        {
            return root;
        }
        let includes_descendants = self.includes_descendants(label);
        let is_counted = |node: &usize| !includes_descendants || self.nodes[*node].depth <= 1;
        let mut counted_values: Vec<f64> =
            (0..self.nodes.len()).filter(is_counted).map(|node| values[node]).collect();
        sum(&mut counted_values)
    }

    /// Whether the values of a column, or of one derived from it, include those of descendants.
    fn includes_descendants(&self, label: &str) -> bool {
        // In side-by-side graphs, the label begins with the name of the file.
        let name = label.rsplit(": ").next().unwrap_or(label);
        let name = name.split('/').next().unwrap_or(name);
        let key = self.find(name).map_or_else(|| name.to_owned(), |found| found.key);
        ["total", without_unit(wall::TOTAL)].contains(&without_unit(&key))
    }

    fn matching_nodes(&self, pattern: &str) -> Result<Vec<bool>, FilterError> {
        let pattern_error = |error: fancy_regex::Error| FilterError::Pattern {
            pattern: pattern.into(),
            reason: error.to_string(),
        };
        // No `^` is added to the pattern, because it could change the pattern's meaning. The start
        // of the match is checked instead.
        let regex = Regex::new(&to_rust_pattern(pattern)).map_err(pattern_error)?;
        let is_match = |node: &Node| {
            let first_match = regex.find(&node.name).map_err(pattern_error)?;
            Ok(first_match.is_some_and(|first_match| first_match.start() == 0))
        };
        self.nodes.iter().map(is_match).collect()
    }

    pub(super) fn with_ancestors(&self, mut is_kept: Vec<bool>) -> Vec<bool> {
        for node in (0..self.nodes.len()).rev() {
            if is_kept[node]
                && let Some(parent) = self.nodes[node].parent
            {
                is_kept[parent] = true;
            }
        }
        is_kept
    }
}

/// Returns a Python pattern in Rust's syntax. `\Z` becomes `\z`. `\<` and `\>` become literal
/// characters, and so do `[`, `&` and `~` inside a class.
fn to_rust_pattern(pattern: &str) -> String {
    let mut rust_pattern = String::with_capacity(pattern.len());
    let mut characters = pattern.chars().peekable();
    let mut is_in_class = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('Z') if !is_in_class => rust_pattern.push_str(r"\z"),
                Some(plain @ ('<' | '>')) => rust_pattern.push(plain),
                Some(escaped) => rust_pattern.extend(['\\', escaped]),
                None => rust_pattern.push('\\'),
            },
            '[' if !is_in_class => {
                is_in_class = true;
                rust_pattern.push('[');
                rust_pattern.extend(characters.next_if_eq(&'^'));
                // A `]` at the start of a class is literal.
                if characters.next_if_eq(&']').is_some() {
                    rust_pattern.push_str(r"\]");
                }
            }
            ']' => {
                is_in_class = false;
                rust_pattern.push(']');
            }
            '[' | '&' | '~' if is_in_class => rust_pattern.extend(['\\', character]),
            other => rust_pattern.push(other),
        }
    }
    rust_pattern
}

pub(super) fn require_any_kept(
    is_kept: Vec<bool>,
    condition: impl FnOnce() -> String,
) -> Result<Vec<bool>, FilterError> {
    if is_kept.contains(&true) {
        Ok(is_kept)
    } else {
        Err(FilterError::Empty { condition: condition() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_anchor_of_python_becomes_that_of_rust() {
        assert_eq!(to_rust_pattern(r"\S+\Z"), r"\S+\z");
        assert_eq!(to_rust_pattern(r"Z\\Z"), r"Z\\Z");
    }
}
