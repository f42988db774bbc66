//! Checks of the dependencies between crates and between the modules of `marey-formats`: allowed edges, and
//! crates that must never be linked.

mod graph;
mod modules;
pub(crate) mod rules;

use std::path::Path;
use std::process::Command;

use thiserror::Error;

use self::graph::Graph;
use self::rules::{EXCLUSIVE, Exclusive, RULES, Rule};
use crate::XtaskError;

/// A forbidden edge or path.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum Violation {
    #[error("`{0}` has no rule; add one to xtask/src/deps/rules.rs")]
    NoRule(String),
    #[error("`{user}` must not depend on `{used}` (allowed: {})", join_or_nothing(.allowed))]
    ForbiddenEdge { user: String, used: String, allowed: &'static [&'static str] },
    #[error("`{}` must not depend on `{}`: {}", .0[0], .0[.0.len() - 1], .0.join(" -> "))]
    ForbiddenPath(Vec<String>),
    #[error(
        "marey-formats: `{file}` imports `crate::{used}`; formats import only `crate::shared`, and shared parts nothing else"
    )]
    ForbiddenImport { file: String, used: String },
    #[error("`{user}` depends on `{used}`, which is reserved for {}", join_or_nothing(.owners))]
    ReservedCrate { user: String, used: String, owners: &'static [&'static str] },
}

/// Checks the workspace in `root`.
pub(crate) fn run(root: &Path) -> Result<String, XtaskError> {
    let graph = Graph::from_metadata(&cargo_metadata(root)?)?;
    let mut violations = find_violations(&graph, RULES, EXCLUSIVE);
    let (forbidden_imports, modules) = modules::check(root)?;
    violations.extend(forbidden_imports);
    if violations.is_empty() {
        let crates = graph.members().count();
        Ok(format!(
            "{crates} crates and {modules} modules of marey-formats have only allowed dependencies"
        ))
    } else {
        Err(XtaskError::ForbiddenDependencies(violations))
    }
}

/// Returns the dependency graph as JSON, for the only platform that marey supports.
fn cargo_metadata(root: &Path) -> Result<String, XtaskError> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--all-features"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root)
        .output()
        .map_err(|error| XtaskError::CargoMetadata(error.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(XtaskError::CargoMetadata(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}

/// Returns all violations in `graph`, ordered by crate name.
fn find_violations(graph: &Graph, rules: &[Rule], exclusive: &[Exclusive]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for member in graph.members() {
        match rules.iter().find(|rule| rule.name == member.name) {
            Some(rule) => {
                violations.extend(forbidden_edges(graph, &member.id, rule));
                violations.extend(forbidden_paths(graph, &member.id, rule));
            }
            None => violations.push(Violation::NoRule(member.name.clone())),
        }
        violations.extend(reserved_uses(graph, &member.id, exclusive));
    }
    violations
}

/// Returns direct dependencies on our own crates that the rule does not list.
fn forbidden_edges(graph: &Graph, id: &str, rule: &Rule) -> Vec<Violation> {
    graph
        .direct(id)
        .filter(|used| used.is_member && !rule.may_use.contains(&used.name.as_str()))
        .map(|used| Violation::ForbiddenEdge {
            user: rule.name.to_owned(),
            used: used.name.clone(),
            allowed: rule.may_use,
        })
        .collect()
}

/// Returns the shortest path to each forbidden crate, through any number of crates.
fn forbidden_paths(graph: &Graph, id: &str, rule: &Rule) -> Vec<Violation> {
    let is_banned = |name: &str| rule.never.iter().copied().flatten().any(|p| matches(p, name));
    graph.paths_to(id, is_banned).into_iter().map(Violation::ForbiddenPath).collect()
}

/// Returns direct dependencies on crates that are reserved for others.
fn reserved_uses(graph: &Graph, id: &str, exclusive: &[Exclusive]) -> Vec<Violation> {
    let user = graph.name(id);
    let violation = |used: &graph::Package| {
        let reserved = exclusive.iter().find(|reserved| matches(reserved.pattern, &used.name))?;
        (!reserved.owners.contains(&user)).then(|| Violation::ReservedCrate {
            user: user.to_owned(),
            used: used.name.clone(),
            owners: reserved.owners,
        })
    };
    graph.direct(id).filter_map(violation).collect()
}

/// Whether `pattern` matches `name`; a final `*` matches any suffix.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

fn join_or_nothing(names: &[&str]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &[Rule] = &[
        Rule { name: "words", may_use: &[], never: &[] },
        Rule { name: "inside", may_use: &["words"], never: &[&["tokio*", "json"]] },
        Rule { name: "outside", may_use: &["words"], never: &[] },
    ];
    const EXCLUSIVE: &[Exclusive] = &[Exclusive { pattern: "engine*", owners: &["outside"] }];

    fn violations(members: &[&str], edges: &[(&str, &str)]) -> Vec<String> {
        let graph = Graph::from_edges(members, edges);
        find_violations(&graph, RULES, EXCLUSIVE).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_graph_of_allowed_edges_passes() {
        let edges = [("inside", "words"), ("outside", "words"), ("outside", "engine-core")];
        assert_eq!(violations(&["words", "inside", "outside"], &edges), [""; 0]);
    }

    #[test]
    fn a_forbidden_edge_is_reported() {
        assert_eq!(
            violations(&["words", "inside"], &[("words", "inside")]),
            ["`words` must not depend on `inside` (allowed: nothing)"]
        );
    }

    #[test]
    fn a_forbidden_crate_is_reported_with_the_shortest_path() {
        let edges = [
            ("inside", "long"),
            ("long", "longer"),
            ("longer", "tokio-util"),
            ("inside", "short"),
            ("short", "tokio-util"),
        ];
        assert_eq!(
            violations(&["inside"], &edges),
            ["`inside` must not depend on `tokio-util`: inside -> short -> tokio-util"]
        );
    }

    #[test]
    fn each_forbidden_crate_is_reported_once() {
        let edges =
            [("inside", "json"), ("inside", "a"), ("a", "json"), ("a", "tokio"), ("tokio", "a")];
        assert_eq!(violations(&["inside"], &edges).len(), 2);
    }

    #[test]
    fn a_reserved_crate_is_reported_unless_its_owner_uses_it() {
        assert_eq!(
            violations(&["words"], &[("words", "engine-core")]),
            ["`words` depends on `engine-core`, which is reserved for outside"]
        );
        let through_the_owner = [("outside", "engine")];
        assert_eq!(violations(&["outside"], &through_the_owner), [""; 0]);
    }

    #[test]
    fn a_crate_without_a_rule_is_reported() {
        assert_eq!(
            violations(&["newcomer"], &[]),
            ["`newcomer` has no rule; add one to xtask/src/deps/rules.rs"]
        );
    }
}
