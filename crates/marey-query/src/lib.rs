//! Questions to profiles, and their answers.
//!
//! [`graph::Graph`] is what a viewer works on: a profile's tree with metrics rolled up, derived
//! metrics, filters, and the difference of two. [`peaks`] knows how fast devices can be.
//! [`sql::Database`] answers SQL over a collected run.
//!
//! **Constraints.** This crate opens no file but the parts of a run that it is given, and those
//! without names for what a query cannot hold in memory; it prints nothing, and never sees Python or a command line, and forbids unsafe code. It is the only one that
//! knows `DataFusion`, of which no type crosses its interface. Each number has a unit that its label or
//! its documentation names.
//!
//! Start reading at [`graph`], or at [`sql`].
//!
//! ```
//! use marey_model::metric::MetricValue;
//! use marey_model::profile::{Metric, Node, NodeId, Profile};
//! use marey_query::graph::Graph;
//!
//! let mut time = Metric::new("time (ns)".into());
//! time.push(NodeId(0), MetricValue::Int(0)); // on the root: rolled up
//! time.push(NodeId(1), MetricValue::Int(2_000_000));
//! let node = |name: &str, parent| Node { name: name.into(), kind: None, parent };
//! let profile = Profile {
//!     nodes: vec![node("ROOT", None), node("kernel", Some(NodeId::ROOT))],
//!     metrics: vec![time],
//!     ..Profile::default()
//! };
//! let mut graph = Graph::new(profile);
//! let derived = graph.derive(&["time/ms"])?;
//! assert_eq!(derived.labels, ["time/ms (inc)"]);
//! assert_eq!(graph.numbers("time/ms (inc)")?, [2.0, 2.0]);
//! # Ok::<(), marey_query::graph::MetricError>(())
//! ```

#![forbid(unsafe_code)]

pub mod graph;
pub mod near;
pub mod peaks;
pub mod sql;

#[cfg(test)]
mod tests {
    //! The example above, which is not run as one: each would link the SQL engine.

    use marey_model::metric::MetricValue;
    use marey_model::profile::{Metric, Node, NodeId, Profile};

    use crate::graph::Graph;

    #[test]
    fn the_example_holds() {
        let mut time = Metric::new("time (ns)".into());
        time.push(NodeId(0), MetricValue::Int(0));
        time.push(NodeId(1), MetricValue::Int(2_000_000));
        let node = |name: &str, parent| Node { name: name.into(), kind: None, parent };
        let profile = Profile {
            nodes: vec![node("ROOT", None), node("kernel", Some(NodeId::ROOT))],
            metrics: vec![time],
            ..Profile::default()
        };
        let mut graph = Graph::new(profile);
        let derived = graph.derive(&["time/ms"]).unwrap();
        assert_eq!(derived.labels, ["time/ms (inc)"]);
        assert_eq!(graph.numbers("time/ms (inc)").unwrap(), [2.0, 2.0]);
    }
}
