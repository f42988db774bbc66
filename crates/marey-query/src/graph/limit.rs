//! Thresholds over several columns, as comparisons of profiles need them: a node is kept if it
//! reaches the limit in at least one column.

use super::filter::require_any_kept;
use super::{FilterError, Graph, Threshold};

impl Threshold {
    /// Returns the value to reach. A percentage refers to the largest of `totals`.
    pub fn limit(self, totals: impl IntoIterator<Item = f64>) -> f64 {
        match self {
            Self::Value(limit) => limit,
            Self::Percent(percent) => totals.into_iter().fold(f64::NAN, f64::max) * percent / 100.0,
        }
    }
}

impl Graph {
    /// The nodes that reach `limit` in one of the columns, with their ancestors.
    ///
    /// # Errors
    /// [`FilterError::Empty`], which calls the columns `name`, if no node reaches the limit.
    /// [`FilterError::Metric`] if a column is missing or not numeric.
    pub fn filter_any(
        &self,
        columns: &[String],
        limit: f64,
        name: &str,
    ) -> Result<Self, FilterError> {
        let mut is_kept = vec![false; self.nodes.len()];
        for column in columns {
            for (is_kept, value) in is_kept.iter_mut().zip(self.numbers(column)?) {
                *is_kept |= value >= limit;
            }
        }
        let is_kept = self.with_ancestors(is_kept);
        let is_kept = require_any_kept(is_kept, || format!("no {name} reaches {limit}"))?;
        Ok(self.squash(&is_kept))
    }
}

#[cfg(test)]
mod tests {
    use marey_model::metric::MetricValue;
    use marey_model::profile::{Metric, Node, NodeId, Profile};

    use super::*;

    #[test]
    fn a_percentage_refers_to_the_largest_total() {
        assert_eq!(Threshold::Value(3.0).limit([5.0]).to_bits(), 3.0_f64.to_bits());
        let limit = Threshold::Percent(5.0).limit([f64::NAN, 200.0, 100.0]);
        assert_eq!(limit.to_bits(), 10.0_f64.to_bits());
        assert!(Threshold::Percent(5.0).limit([]).is_nan());
    }

    #[test]
    fn a_node_is_kept_if_it_reaches_the_limit_in_one_column() {
        let node = |name: &str, parent: Option<u32>| Node {
            name: name.into(),
            kind: None,
            parent: parent.map(NodeId),
        };
        let metric = |key: &str, values: &[(u32, i64)]| {
            let mut metric = Metric::new(key.into());
            for &(node, value) in values {
                metric.push(NodeId(node), MetricValue::Int(value));
            }
            metric
        };
        let graph = Graph::new(Profile {
            nodes: vec![
                node("ROOT", None),
                node("a", Some(0)),
                node("b", Some(1)),
                node("c", Some(0)),
                node("d", Some(0)),
            ],
            metrics: vec![metric("x", &[(1, 1), (2, 9), (3, 1)]), metric("y", &[(3, 8), (4, 2)])],
            ..Profile::default()
        });
        let columns = ["x".to_owned(), "y".to_owned()];
        let filtered = graph.filter_any(&columns, 8.0, "x").expect("two nodes reach it");
        let names: Vec<&str> = filtered.nodes().iter().map(|node| &*node.name).collect();
        assert_eq!(names, ["ROOT", "a", "b", "c"]);
        let empty = graph.filter_any(&columns, 10.0, "x").map(|_| ());
        assert_eq!(empty, Err(FilterError::Empty { condition: "no x reaches 10".into() }));
        assert!(matches!(graph.filter_any(&["z".into()], 1.0, "z"), Err(FilterError::Metric(_))));
    }
}
