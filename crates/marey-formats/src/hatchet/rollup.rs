//! Sums over subtrees, as readers of `.hatchet` files understand them.

use marey_model::metric::{Aggregation, MetricValue};
use marey_model::wall;

use super::profile::{NodeId, Profile};

impl Profile {
    /// Whether readers add the metric up into parents: it stands on the root, by which Proton marks
    /// such metrics, and is none of marey's wall metrics, which each node already has in full.
    pub fn is_rolled_up(&self, key: &str) -> bool {
        self.root().metric(key).is_some() && wall::ALL.iter().all(|metric| metric.key != key)
    }

    /// The metric of every node, in the order of [`nodes`](Self::nodes): the sum over the subtree
    /// where [`is_rolled_up`](Self::is_rolled_up) says so, else the node's own value.
    pub fn values(&self, key: &str) -> Vec<Option<MetricValue>> {
        let mut values: Vec<_> = self.nodes.iter().map(|node| node.metric(key).cloned()).collect();
        if self.is_rolled_up(key) {
            // Parents come before their children, so one walk backwards sees every sum complete.
            for (index, node) in self.nodes.iter().enumerate().rev() {
                if let Some(NodeId(parent)) = node.parent
                    && let Some(value) = values[index].clone()
                {
                    values[parent] = add(values[parent].take(), value, key);
                }
            }
        }
        values
    }
}

/// The sum, or nothing where the two cannot be added.
fn add(sum: Option<MetricValue>, value: MetricValue, key: &str) -> Option<MetricValue> {
    match (sum, value) {
        // The root carries a literal 0, whatever type the other nodes have.
        (None | Some(MetricValue::Int(0)), value) => Some(value),
        (Some(MetricValue::Int(sum)), MetricValue::Float(value)) => {
            Some(MetricValue::Float(sum as f64 + value))
        }
        (Some(MetricValue::Float(sum)), MetricValue::Int(value)) => {
            Some(MetricValue::Float(sum + value as f64))
        }
        (Some(MetricValue::Text(_)), _) | (_, MetricValue::Text(_)) => None,
        (Some(mut sum), value) => {
            sum.update(&value, Aggregation::Inclusive, key).ok().map(|()| sum)
        }
    }
}
