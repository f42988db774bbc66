//! Which nodes are shown.

use fancy_regex::Regex;
use marey_model::wall;
use thiserror::Error;

use super::column::INCLUSIVE;
use super::find::{MetricError, without_unit};
use super::sum::sum;
use super::{Graph, Node};

/// What to show of a graph. Every part narrows what the parts before it leave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Nodes whose name the pattern matches from its start, all above them and all below them.
    pub include: Option<String>,
    /// All but the nodes whose name the pattern matches from its start, and what is below them.
    pub exclude: Option<String>,
    /// Nodes that reach a value, and all above them.
    pub threshold: Option<Threshold>,
}

/// A value that a metric must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// In the metric's unit.
    Value(f64),
    /// In per cent of the metric's whole, which is the root's sum where there is one.
    Percent(f64),
}

/// Why a filter gives nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    /// The pattern is no regular expression.
    #[error("bad pattern `{pattern}`: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No node passes.
    #[error("nothing is left of the profile: {condition}")]
    Empty {
        /// What no node meets.
        condition: String,
    },
    /// The threshold's metric cannot be compared.
    #[error(transparent)]
    Metric(#[from] MetricError),
}

impl Graph {
    /// What the filter leaves; the threshold is one of the column `metric`.
    ///
    /// Metrics of the profile are added up anew over what is left. Derived metrics keep the values
    /// that they had in the whole graph.
    pub fn filter(&self, filter: &Filter, metric: &str) -> Result<Self, FilterError> {
        let mut graph = None;
        if let Some(pattern) = &filter.include {
            graph = Some(self.squash(&self.including(pattern)?));
        }
        if let Some(pattern) = &filter.exclude {
            let graph_so_far = graph.as_ref().unwrap_or(self);
            graph = Some(graph_so_far.squash(&graph_so_far.excluding(pattern)?));
        }
        if let Some(threshold) = filter.threshold {
            let graph_so_far = graph.as_ref().unwrap_or(self);
            graph = Some(graph_so_far.squash(&graph_so_far.reaching(metric, threshold)?));
        }
        Ok(graph.unwrap_or_else(|| self.clone()))
    }

    /// One flag a node: whether every part of the filter keeps it. Nothing is added up anew between
    /// the parts.
    pub fn passing(&self, filter: &Filter, metric: &str) -> Result<Vec<bool>, FilterError> {
        let mut is_kept = vec![true; self.nodes.len()];
        let mut narrow = |part: Vec<bool>| {
            is_kept.iter_mut().zip(part).for_each(|(is_kept, part)| *is_kept &= part);
        };
        if let Some(pattern) = &filter.include {
            narrow(self.including(pattern)?);
        }
        if let Some(pattern) = &filter.exclude {
            narrow(self.excluding(pattern)?);
        }
        if let Some(threshold) = filter.threshold {
            narrow(self.reaching(metric, threshold)?);
        }
        not_empty(is_kept, || "no node meets every condition".into())
    }

    fn including(&self, pattern: &str) -> Result<Vec<bool>, FilterError> {
        let is_match = self.matches(pattern)?;
        let mut is_below = is_match.clone();
        for at in 0..self.nodes.len() {
            is_below[at] |= self.nodes[at].parent.is_some_and(|parent| is_below[parent]);
        }
        let is_above = self.with_ancestors(is_match);
        let is_kept = is_below.iter().zip(is_above).map(|(below, above)| *below || above).collect();
        not_empty(is_kept, || format!("no name matches `{pattern}`"))
    }

    fn excluding(&self, pattern: &str) -> Result<Vec<bool>, FilterError> {
        let mut is_out = self.matches(pattern)?;
        for at in 0..self.nodes.len() {
            is_out[at] |= self.nodes[at].parent.is_some_and(|parent| is_out[parent]);
        }
        let is_kept = is_out.iter().map(|is_out| !is_out).collect();
        not_empty(is_kept, || format!("`{pattern}` matches every root"))
    }

    fn reaching(&self, metric: &str, threshold: Threshold) -> Result<Vec<bool>, FilterError> {
        let values = self.numbers(metric)?;
        let limit = match threshold {
            Threshold::Value(limit) => limit,
            Threshold::Percent(percent) => self.whole(metric, &values) * percent / 100.0,
        };
        let is_kept = self.with_ancestors(values.iter().map(|value| *value >= limit).collect());
        not_empty(is_kept, || format!("no {metric} reaches {limit}"))
    }

    /// What a column's bars and thresholds in per cent refer to: the root's sum of a metric that is
    /// added up; of wall totals, in which each node counts those below it, the top level; of
    /// anything else, all nodes.
    pub fn whole(&self, label: &str, values: &[f64]) -> f64 {
        // Derived times are labelled as sums also where the file's are none.
        if let Some(&root) = values.first()
            && label.ends_with(INCLUSIVE)
            && !root.is_nan()
        {
            return root;
        }
        let counts_children = self.counts_children(label);
        let counts = |at: &usize| !counts_children || self.nodes[*at].depth <= 1;
        let mut parts: Vec<f64> =
            (0..self.nodes.len()).filter(counts).map(|at| values[at]).collect();
        sum(&mut parts)
    }

    /// Whether each value of a column, or of one derived from it, has those below the node in it.
    fn counts_children(&self, label: &str) -> bool {
        // Side by side, the name of the file stands before the metric's.
        let name = label.rsplit(": ").next().unwrap_or(label);
        let name = name.split('/').next().unwrap_or(name);
        let key = self.find(name).map_or_else(|| name.to_owned(), |found| found.key);
        ["total", without_unit(wall::TOTAL)].contains(&without_unit(&key))
    }

    fn matches(&self, pattern: &str) -> Result<Vec<bool>, FilterError> {
        let bad = |error: fancy_regex::Error| FilterError::Pattern {
            pattern: pattern.into(),
            reason: error.to_string(),
        };
        // Nothing is put around the pattern: that could change what it means.
        let regex = Regex::new(&as_rust(pattern)).map_err(bad)?;
        let is_match = |node: &Node| {
            let found = regex.find(&node.name).map_err(bad)?;
            Ok(found.is_some_and(|found| found.start() == 0))
        };
        self.nodes.iter().map(is_match).collect()
    }

    pub(super) fn with_ancestors(&self, mut is_kept: Vec<bool>) -> Vec<bool> {
        for at in (0..self.nodes.len()).rev() {
            if is_kept[at]
                && let Some(parent) = self.nodes[at].parent
            {
                is_kept[parent] = true;
            }
        }
        is_kept
    }
}

/// A pattern of Python's in Rust's spelling: `\Z` is `\z`, `\<` and `\>` are plain characters, and
/// inside a class so are `[`, `&` and `~`.
fn as_rust(pattern: &str) -> String {
    let mut spelled = String::with_capacity(pattern.len());
    let mut characters = pattern.chars().peekable();
    let mut is_in_class = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('Z') if !is_in_class => spelled.push_str(r"\z"),
                Some(plain @ ('<' | '>')) => spelled.push(plain),
                Some(escaped) => spelled.extend(['\\', escaped]),
                None => spelled.push('\\'),
            },
            '[' if !is_in_class => {
                is_in_class = true;
                spelled.push('[');
                spelled.extend(characters.next_if_eq(&'^'));
                // A bracket that closes nothing yet.
                if characters.next_if_eq(&']').is_some() {
                    spelled.push_str(r"\]");
                }
            }
            ']' => {
                is_in_class = false;
                spelled.push(']');
            }
            '[' | '&' | '~' if is_in_class => spelled.extend(['\\', character]),
            other => spelled.push(other),
        }
    }
    spelled
}

pub(super) fn not_empty(
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
    fn the_end_of_a_text_is_spelled_as_in_rust() {
        assert_eq!(as_rust(r"\S+\Z"), r"\S+\z");
        assert_eq!(as_rust(r"Z\\Z"), r"Z\\Z");
    }
}
