//! The behaviour of graphs that viewers rely on, by example and by property.

#![expect(clippy::unwrap_used, reason = "a panic fails the test at the right line")]

mod columns;
mod combine;
mod derive;
mod edits;
mod filter;
mod profile;
mod trees;

use std::fmt::Write;
use std::sync::Arc;

use marey_model::metric::MetricValue;
use marey_model::profile::{Metric, Node, NodeId, Profile};
use marey_query::graph::{Cells, Graph, Side};

/// A profile from lines `name metric=value …`, two spaces per level. Words are texts, `~` is a
/// space.
fn profile(text: &str) -> Profile {
    let mut profile = Profile::default();
    let mut path: Vec<NodeId> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let mut words = line.split_whitespace();
        let id = NodeId(profile.nodes.len() as u32);
        path.truncate(depth);
        let name = words.next().unwrap().into();
        profile.nodes.push(Node { name, kind: None, parent: path.last().copied() });
        path.push(id);
        for word in words {
            let word = word.replace('~', " ");
            let (key, value) = word.split_once('=').unwrap();
            let value = value
                .parse()
                .map(MetricValue::Int)
                .or_else(|_| value.parse().map(MetricValue::Float))
                .unwrap_or_else(|_| MetricValue::Text(value.into()));
            let known = profile.metrics.iter().position(|metric| &*metric.key == key);
            let index = known.unwrap_or_else(|| {
                profile.metrics.push(Metric::new(key.into()));
                profile.metrics.len() - 1
            });
            profile.metrics[index].push(id, value);
        }
    }
    profile.check().unwrap();
    profile
}

fn graph(text: &str) -> Graph {
    Graph::new(profile(text))
}

/// Every node with its columns, two spaces per level.
fn show(graph: &Graph, labels: &[&str]) -> String {
    let columns: Vec<Cells> = labels.iter().map(|label| graph.column(label).unwrap()).collect();
    let mut text = String::new();
    for (index, node) in graph.nodes().iter().enumerate() {
        write!(text, "{}{}", "  ".repeat(node.depth), node.name).unwrap();
        for column in &columns {
            match column.get(index) {
                None => text.push_str(" -"),
                Some(MetricValue::Int(value)) => write!(text, " {value}").unwrap(),
                Some(MetricValue::Float(value)) => write!(text, " {value:?}").unwrap(),
                Some(MetricValue::Text(value)) => write!(text, " {value}").unwrap(),
                Some(list) => write!(text, " {list:?}").unwrap(),
            }
        }
        let side = match node.side {
            Side::Both => "",
            Side::Left => " <",
            Side::Right => " >",
        };
        writeln!(text, "{side}").unwrap();
    }
    text
}

const STEP: &str = "
ROOT time(ns)=0 count=0
  step
    forward time(ns)=1 note=hello
      matmul time(ns)=30 count=3
      add time(ns)=10 count=1
    backward
      matmul time(ns)=59 count=6
";

fn keys(keys: &[Arc<str>]) -> Vec<&str> {
    keys.iter().map(|key| &**key).collect()
}
