//! Queries over profiles and runs, for the viewer, `marey query` and the reports.
//!
//! [`graph::Graph`] is the model behind viewers: the tree of a profile with summed and derived
//! metrics, filters, and differences of two profiles. [`peaks`] has the peak rates of devices.
//! [`sql::Database`] runs SQL over a collected run.
//!
//! **Constraints.** This crate opens no files but the parts of the run that it is given and
//! temporary files for spills. It prints nothing, does not depend on Python or a command line, and
//! forbids unsafe code. Only this crate depends on `DataFusion`, and no type of it is part of the
//! interface. The label or the documentation of each number states its unit.
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
    //! The example above as a unit test: a doc test would link the SQL engine.

    use marey_model::metric::MetricValue;
    use marey_model::profile::{Metric, Node, NodeId, Profile};

    use crate::graph::Graph;

    #[test]
    fn the_example_in_the_crate_documentation_works() {
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
