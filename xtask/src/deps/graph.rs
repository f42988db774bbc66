//! The dependency graph of the workspace, as `cargo metadata` reports it.
//!
//! Only normal dependencies are edges; tests and build scripts may depend on any crate. Cargo
//! unifies the features of all members, so a path may exist only because another member enables a
//! feature; such paths are reported too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Deserialize;

/// A crate in one version.
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) is_member: bool,
    uses: Vec<String>,
}

/// Crates by id, with their normal dependencies.
pub(crate) struct Graph(BTreeMap<String, Package>);

impl Graph {
    /// Parses the output of `cargo metadata --format-version=1`.
    pub(crate) fn from_metadata(json: &str) -> Result<Self, serde_json::Error> {
        let metadata: Metadata = serde_json::from_str(json)?;
        let mut uses: BTreeMap<String, Vec<String>> = metadata
            .resolve
            .nodes
            .into_iter()
            .map(|node| (node.id, node.deps.into_iter().filter_map(Dep::normal).collect()))
            .collect();
        let packages = metadata.packages.into_iter().map(|listed| Package {
            is_member: metadata.workspace_members.contains(&listed.id),
            uses: uses.remove(&listed.id).unwrap_or_default(),
            name: listed.name,
            id: listed.id,
        });
        Ok(Self(packages.map(|package| (package.id.clone(), package)).collect()))
    }

    /// Returns the crates of this workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.0.values().filter(|package| package.is_member)
    }

    /// Returns the direct dependencies of a crate.
    pub(crate) fn direct(&self, id: &str) -> impl Iterator<Item = &Package> {
        self.0[id].uses.iter().map(|used| &self.0[used])
    }

    /// Returns the name of a crate.
    pub(crate) fn name(&self, id: &str) -> &str {
        &self.0[id].name
    }

    /// Returns, for each crate reachable from `from` whose name is `is_wanted`, the names on a
    /// shortest path to it.
    pub(crate) fn paths_to(
        &self,
        from: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Vec<Vec<String>> {
        let mut paths = Vec::new();
        let mut seen = BTreeSet::from([from]);
        let mut queue = VecDeque::from([(from, vec![self.name(from).to_owned()])]);
        while let Some((id, path)) = queue.pop_front() {
            for used in self.direct(id).filter(|used| seen.insert(&used.id)) {
                let longer_path = [path.as_slice(), std::slice::from_ref(&used.name)].concat();
                if is_wanted(&used.name) {
                    paths.push(longer_path);
                } else {
                    queue.push_back((&used.id, longer_path));
                }
            }
        }
        paths
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<ListedPackage>,
    workspace_members: BTreeSet<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct ListedPackage {
    id: String,
    name: String,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dep>,
}

#[derive(Deserialize)]
struct Dep {
    pkg: String,
    dep_kinds: Vec<DepKind>,
}

#[derive(Deserialize)]
struct DepKind {
    /// `null` for a normal dependency, else `dev` or `build`.
    kind: Option<String>,
}

impl Dep {
    fn normal(self) -> Option<String> {
        self.dep_kinds.iter().any(|dep| dep.kind.is_none()).then_some(self.pkg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Graph {
        /// Builds a graph from `edges` between names; `members` are workspace members.
        pub(crate) fn from_edges(members: &[&str], edges: &[(&str, &str)]) -> Self {
            let ends = edges.iter().flat_map(|(user, used)| [*user, *used]);
            let names: BTreeSet<&str> = members.iter().copied().chain(ends).collect();
            let package = |name: &str| Package {
                id: name.to_owned(),
                name: name.to_owned(),
                is_member: members.contains(&name),
                uses: edges
                    .iter()
                    .filter(|(user, _)| *user == name)
                    .map(|(_, used)| (*used).to_owned())
                    .collect(),
            };
            Self(names.into_iter().map(|name| (name.to_owned(), package(name))).collect())
        }
    }

    #[test]
    fn dependencies_of_tests_and_build_scripts_are_ignored() {
        let json = r#"{
            "packages": [
                {"id": "ours#1", "name": "ours"},
                {"id": "plain#1", "name": "plain"},
                {"id": "both#1", "name": "both"},
                {"id": "tester#1", "name": "tester"},
                {"id": "builder#1", "name": "builder"}
            ],
            "workspace_members": ["ours#1"],
            "resolve": {"nodes": [
                {"id": "ours#1", "deps": [
                    {"pkg": "plain#1", "dep_kinds": [{"kind": null, "target": null}]},
                    {"pkg": "both#1", "dep_kinds": [{"kind": "dev"}, {"kind": null}]},
                    {"pkg": "tester#1", "dep_kinds": [{"kind": "dev", "target": null}]},
                    {"pkg": "builder#1", "dep_kinds": [{"kind": "build", "target": null}]}
                ]},
                {"id": "plain#1", "deps": []},
                {"id": "both#1", "deps": []},
                {"id": "tester#1", "deps": []},
                {"id": "builder#1", "deps": []}
            ]}
        }"#;
        let graph = Graph::from_metadata(json).unwrap();
        let direct: Vec<_> = graph.direct("ours#1").map(|used| used.name.as_str()).collect();
        assert_eq!(direct, ["plain", "both"]);
        assert_eq!(
            graph.members().map(|member| member.name.as_str()).collect::<Vec<_>>(),
            ["ours"]
        );
    }
}
