//! The direction of the crates, and of the modules of `marey-formats`, as a test: allowed edges, and
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

/// One edge or path that the rules forbid.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum Violation {
    #[error("`{0}` has no rule; give it one in xtask/src/deps/rules.rs")]
    NoRule(String),
    #[error("`{user}` may not use `{used}` (it may use: {})", list(.allowed))]
    Edge { user: String, used: String, allowed: &'static [&'static str] },
    #[error("`{}` must never reach `{}`: {}", .0[0], .0[.0.len() - 1], .0.join(" -> "))]
    Reaches(Vec<String>),
    #[error(
        "marey-formats: `{file}` imports `crate::{used}`; formats import only `crate::shared`, and shared parts nothing else"
    )]
    Module { file: String, used: String },
    #[error("`{user}` names `{used}`, which only {} may", list(.owners))]
    NotOwner { user: String, used: String, owners: &'static [&'static str] },
}

/// Checks the workspace at `root`.
pub(crate) fn run(root: &Path) -> Result<String, XtaskError> {
    let graph = Graph::from_metadata(&cargo_metadata(root)?)?;
    let mut violations = check(&graph, RULES, EXCLUSIVE);
    let (forbidden_imports, modules) = modules::check(root)?;
    violations.extend(forbidden_imports);
    if violations.is_empty() {
        let crates = graph.members().count();
        Ok(format!("{crates} crates and {modules} modules of marey-formats keep the direction"))
    } else {
        Err(XtaskError::Direction(violations))
    }
}

/// The dependency graph as JSON, for the one platform that marey supports.
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

/// Everything in `graph` that the rules forbid, in the order of the crates' names.
fn check(graph: &Graph, rules: &[Rule], exclusive: &[Exclusive]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for member in graph.members() {
        match rules.iter().find(|rule| rule.name == member.name) {
            Some(rule) => {
                violations.extend(forbidden_edges(graph, &member.id, rule));
                violations.extend(forbidden_paths(graph, &member.id, rule));
            }
            None => violations.push(Violation::NoRule(member.name.clone())),
        }
        violations.extend(trespasses(graph, &member.id, exclusive));
    }
    violations
}

/// Direct uses of our own crates that the rule does not list.
fn forbidden_edges(graph: &Graph, id: &str, rule: &Rule) -> Vec<Violation> {
    graph
        .direct(id)
        .filter(|used| used.is_member && !rule.may_use.contains(&used.name.as_str()))
        .map(|used| Violation::Edge {
            user: rule.name.to_owned(),
            used: used.name.clone(),
            allowed: rule.may_use,
        })
        .collect()
}

/// The shortest path to each crate that must not be reached, however many crates lie between.
fn forbidden_paths(graph: &Graph, id: &str, rule: &Rule) -> Vec<Violation> {
    let banned = |name: &str| rule.never.iter().copied().flatten().any(|p| matches(p, name));
    graph.paths_to(id, banned).into_iter().map(Violation::Reaches).collect()
}

/// Direct uses of a crate that belongs to others.
fn trespasses(graph: &Graph, id: &str, exclusive: &[Exclusive]) -> Vec<Violation> {
    let user = graph.name(id);
    let trespass = |used: &graph::Package| {
        let owned = exclusive.iter().find(|owned| matches(owned.pattern, &used.name))?;
        (!owned.owners.contains(&user)).then(|| Violation::NotOwner {
            user: user.to_owned(),
            used: used.name.clone(),
            owners: owned.owners,
        })
    };
    graph.direct(id).filter_map(trespass).collect()
}

/// Whether `name` is what `pattern` names; a final `*` stands for any rest.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

fn list(names: &[&str]) -> String {
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

    fn texts(members: &[&str], edges: &[(&str, &str)]) -> Vec<String> {
        let graph = Graph::fabricated(members, edges);
        check(&graph, RULES, EXCLUSIVE).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_house_that_keeps_the_rules_passes() {
        let edges = [("inside", "words"), ("outside", "words"), ("outside", "engine-core")];
        assert_eq!(texts(&["words", "inside", "outside"], &edges), [""; 0]);
    }

    #[test]
    fn an_edge_against_the_direction_is_named() {
        assert_eq!(
            texts(&["words", "inside"], &[("words", "inside")]),
            ["`words` may not use `inside` (it may use: nothing)"]
        );
    }

    #[test]
    fn a_banned_crate_is_found_behind_others_and_the_shortest_path_is_shown() {
        let edges = [
            ("inside", "long"),
            ("long", "longer"),
            ("longer", "tokio-util"),
            ("inside", "short"),
            ("short", "tokio-util"),
        ];
        assert_eq!(
            texts(&["inside"], &edges),
            ["`inside` must never reach `tokio-util`: inside -> short -> tokio-util"]
        );
    }

    #[test]
    fn every_banned_crate_is_listed_once() {
        let edges =
            [("inside", "json"), ("inside", "a"), ("a", "json"), ("a", "tokio"), ("tokio", "a")];
        assert_eq!(texts(&["inside"], &edges).len(), 2);
    }

    #[test]
    fn only_the_owner_names_an_owned_crate() {
        assert_eq!(
            texts(&["words"], &[("words", "engine-core")]),
            ["`words` names `engine-core`, which only outside may"]
        );
        let behind_the_owner = [("outside", "engine")];
        assert_eq!(texts(&["outside"], &behind_the_owner), [""; 0]);
    }

    #[test]
    fn a_crate_without_a_rule_is_refused() {
        assert_eq!(
            texts(&["newcomer"], &[]),
            ["`newcomer` has no rule; give it one in xtask/src/deps/rules.rs"]
        );
    }
}
