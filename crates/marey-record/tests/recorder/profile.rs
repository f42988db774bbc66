//! A parsed `.hatchet` document.

use serde_json::Value;
use std::collections::BTreeMap;

/// Nodes by path: names joined by `/`, without the root's; the root has the empty path.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) nodes: BTreeMap<String, Value>,
}

impl Profile {
    /// Parses a document, and checks that the statistics of each node are consistent.
    pub(crate) fn parse(document: &[u8]) -> Self {
        let profile = Self::parse_live(document);
        profile.nodes.iter().for_each(|(path, node)| check_sums(path, node));
        profile
    }

    /// Parses a document that was written while threads may have been in the middle of an event.
    pub(crate) fn parse_live(document: &[u8]) -> Self {
        let Value::Array(parts) = serde_json::from_slice(document).unwrap() else {
            panic!("no array")
        };
        let [root, _devices] = <[Value; 2]>::try_from(parts).unwrap();
        let mut profile = Self { nodes: BTreeMap::new() };
        assert_eq!(root["frame"]["name"], "ROOT");
        profile.add_node("", root);
        profile
    }

    fn add_node(&mut self, path: &str, mut node: Value) {
        let Value::Array(children) = node["children"].take() else { panic!("{path}: no children") };
        for child in children {
            let name = child["frame"]["name"].as_str().unwrap();
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            self.add_node(&path, child);
        }
        assert!(self.nodes.insert(path.to_owned(), node).is_none(), "{path} occurs twice");
    }

    pub(crate) fn metric(&self, path: &str, key: &str) -> &Value {
        &self.nodes.get(path).unwrap_or_else(|| panic!("no {path} in {:?}", self.paths()))["metrics"]
            [key]
    }

    pub(crate) fn number(&self, path: &str, key: &str) -> u64 {
        self.metric(path, key).as_u64().unwrap_or(0)
    }

    pub(crate) fn paths(&self) -> Vec<&str> {
        self.nodes.keys().map(String::as_str).filter(|path| !path.is_empty()).collect()
    }

    /// Returns the completed entries by path.
    pub(crate) fn counts(&self) -> Vec<(&str, u64)> {
        self.paths().into_iter().map(|path| (path, self.number(path, "wall_count"))).collect()
    }

    pub(crate) fn kind(&self, path: &str) -> &str {
        self.nodes[path]["marey"]["kind"].as_str().unwrap()
    }

    /// Returns the document's metadata: process, overhead, losses.
    pub(crate) fn metadata(&self) -> &Value {
        &self.nodes[""]["marey"]
    }

    /// Returns the causes with losses.
    pub(crate) fn losses(&self) -> Vec<(&str, u64)> {
        let losses = self.metadata()["losses"].as_object().unwrap();
        losses
            .iter()
            .map(|(cause, count)| (cause.as_str(), count.as_u64().unwrap()))
            .filter(|&(_, count)| count > 0)
            .collect()
    }
}

fn check_sums(path: &str, node: &Value) {
    let number = |key: &str| node["metrics"][key].as_u64().unwrap_or(0);
    let (count, open) = (number("wall_count"), number("wall_open"));
    let sketch: u64 = node["marey"]["sketch"]
        .as_array()
        .map_or(0, |buckets| buckets.iter().map(|bucket| bucket[1].as_u64().unwrap()).sum());
    assert_eq!(count, sketch, "{path}: entries and those in the sketch");
    assert!(number("wall_self (ns)") <= number("wall_total (ns)"), "{path}: {node}");
    if count > 0 && open == 0 {
        let (min, max) = (number("wall_min (ns)"), number("wall_max (ns)"));
        let total = number("wall_total (ns)");
        assert!(count * min <= total && total <= count * max, "{path}: {node}");
        let quantiles = ["wall_p50 (ns)", "wall_p90 (ns)", "wall_p99 (ns)"].map(number);
        assert!(quantiles.is_sorted() && min <= quantiles[0] && quantiles[2] <= max, "{node}");
    }
}
