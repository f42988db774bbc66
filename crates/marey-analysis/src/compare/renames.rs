//! Suggestions of renames: pairs that may be one operation under two names.
//!
//! A pair consists of a removed and an added operation of the same kind, with a reason. It is a
//! question to the reader: no numbers are merged because of it. Each operation is in at most one
//! pair, the most likely one. Names are compared only among siblings, the longest-running 64 on a
//! side, so that ten thousand new names below one node do not take longer.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::measured::Operation;

use super::function_name::function_name;
use super::operations::Difference;

/// Lowest similarity of two names that are alike (Jaro-Winkler, 0 to 1).
const NEAR: f64 = 0.8;
/// Lowest length of a name within another, in bytes; it must also be at least half of the other.
const MIN_PART: usize = 4;
/// Highest ratio of the counts of a pair.
const MAX_RATIO: f64 = 2.0;
/// Number of siblings on a side that are compared with each other.
const MAX_SIBLINGS: usize = 64;

/// A pair that may be one operation under two names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename {
    /// Index of the removed operation in the list of differences.
    pub before: usize,
    /// Index of the added operation.
    pub after: usize,
    /// The reason for the suggestion.
    pub reason: Reason,
}

/// The reason why a removed and an added operation may be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// They have the same position among their siblings and the same count, and have the same
    /// children or, without children, take about as long.
    SamePlace,
    /// Their names are alike, and their counts are close.
    SimilarName,
    /// One name is part of the other, and their counts are close.
    PartOfName,
    /// They are the same function apart from template arguments and numeric suffixes.
    SameFunction,
    /// They have the same name, and their parents may be a rename.
    SameNameInside,
}

/// An operation that the other run does not have.
struct Orphan<'a> {
    /// Index in the list of differences.
    index: usize,
    operation: &'a Operation,
    function: String,
    place: TreePlace<'a>,
}

/// The surroundings of an operation in its tree.
#[derive(Clone, Default)]
struct TreePlace<'a> {
    /// Position among the siblings.
    position: usize,
    /// The names of the children, sorted.
    children: Vec<&'a str>,
}

/// A path and a kind.
type Key<'a> = (&'a [String], &'a str);

pub(super) fn suggested(
    differences: &[Difference],
    before: &[Operation],
    after: &[Operation],
) -> Vec<Rename> {
    let removed =
        orphans(differences, before, |difference| match (&difference.before, &difference.after) {
            (Some(before), None) => Some(before),
            _ => None,
        });
    let added =
        orphans(differences, after, |difference| match (&difference.before, &difference.after) {
            (None, Some(after)) => Some(after),
            _ => None,
        });
    let mut by_parent: HashMap<Key, Vec<&Orphan>> = HashMap::new();
    for orphan in &added {
        by_parent.entry(family(orphan.operation)).or_default().push(orphan);
    }
    // Outermost first, so that parents are paired before their children.
    let mut families: BTreeMap<(usize, Key), Vec<&Orphan>> = BTreeMap::new();
    for orphan in &removed {
        let depth = orphan.operation.path.len();
        families.entry((depth, family(orphan.operation))).or_default().push(orphan);
    }
    let mut renamed: HashMap<&[String], &[String]> = HashMap::new();
    let mut found = Vec::new();
    for ((_, (parent, kind)), removed) in families {
        let new_parent = renamed.get(parent).copied();
        let Some(added) = by_parent.get(&(new_parent.unwrap_or(parent), kind)) else { continue };
        for (before, after, reason) in pairs(removed, added.clone()) {
            renamed.insert(&before.operation.path, &after.operation.path);
            found.push(Rename { before: before.index, after: after.index, reason });
        }
    }
    found
}

fn orphans<'a>(
    differences: &'a [Difference],
    operations: &'a [Operation],
    select: impl Fn(&'a Difference) -> Option<&'a Operation>,
) -> Vec<Orphan<'a>> {
    let places = tree_places(operations);
    let orphan = |(index, difference)| {
        let operation = select(difference)?;
        let place = places.get(&(&*operation.path, &*operation.kind)).cloned().unwrap_or_default();
        Some(Orphan { index, operation, function: function_name(operation.name()), place })
    };
    differences.iter().enumerate().filter_map(orphan).collect()
}

fn tree_places(operations: &[Operation]) -> HashMap<Key<'_>, TreePlace<'_>> {
    let mut siblings: HashMap<&[String], usize> = HashMap::new();
    let mut children: HashMap<&[String], Vec<&str>> = HashMap::new();
    let mut places: HashMap<Key, TreePlace> = HashMap::new();
    for operation in operations {
        let key: Key = (&operation.path, &operation.kind);
        if places.contains_key(&key) {
            continue;
        }
        let parent = parent(operation);
        let position = siblings.entry(parent).or_default();
        places.insert(key, TreePlace { position: *position, children: Vec::new() });
        *position += 1;
        children.entry(parent).or_default().push(operation.name());
    }
    for ((path, _), place) in &mut places {
        place.children.extend(children.get(path).into_iter().flatten());
        place.children.sort_unstable();
    }
    places
}

fn parent(operation: &Operation) -> &[String] {
    operation.path.split_last().map_or(&[], |(_, parent)| parent)
}

/// The key of the siblings of an operation: the path of its parent, and its kind.
fn family(operation: &Operation) -> Key<'_> {
    (parent(operation), &operation.kind)
}

type Pair<'a> = (&'a Orphan<'a>, &'a Orphan<'a>, Reason);

/// Pairs among siblings: those of the same name first, then those of the same function, then all
/// that remain.
fn pairs<'a>(mut removed: Vec<&'a Orphan<'a>>, mut added: Vec<&'a Orphan<'a>>) -> Vec<Pair<'a>> {
    let keys: [fn(&'a Orphan<'a>) -> &'a str; 3] =
        [|orphan| orphan.operation.name(), |orphan| &orphan.function, |_| ""];
    let mut paired: Vec<Pair> = Vec::new();
    for key in keys {
        let mut groups: BTreeMap<&str, [Vec<&Orphan>; 2]> = BTreeMap::new();
        for (side, orphans) in [&removed, &added].into_iter().enumerate() {
            for &orphan in orphans {
                groups.entry(key(orphan)).or_default()[side].push(orphan);
            }
        }
        paired.extend(groups.into_values().flat_map(|[removed, added]| best(removed, added)));
        let paired_indexes: HashSet<usize> =
            paired.iter().flat_map(|(before, after, _)| [before.index, after.index]).collect();
        removed.retain(|orphan| !paired_indexes.contains(&orphan.index));
        added.retain(|orphan| !paired_indexes.contains(&orphan.index));
    }
    paired
}

/// The most likely pairs of a group.
fn best<'a>(mut removed: Vec<&'a Orphan<'a>>, mut added: Vec<&'a Orphan<'a>>) -> Vec<Pair<'a>> {
    for side in [&mut removed, &mut added] {
        side.sort_by(|a, b| {
            let by_time = b.operation.total_nanos.total_cmp(&a.operation.total_nanos);
            by_time.then_with(|| a.operation.name().cmp(b.operation.name()))
        });
        side.truncate(MAX_SIBLINGS);
    }
    let mut candidates = Vec::new();
    for &before in &removed {
        for &after in &added {
            if let Some((reason, likeness)) = reason(before, after) {
                candidates.push((reason, likeness, before, after));
            }
        }
    }
    candidates.sort_by(|a, b| {
        let by_likeness = b.0.cmp(&a.0).then_with(|| b.1.total_cmp(&a.1));
        by_likeness.then_with(|| names(a.2, a.3).cmp(&names(b.2, b.3)))
    });
    let mut paired = HashSet::new();
    let is_unpaired = |(_, _, before, after): &(Reason, f64, &Orphan, &Orphan)| {
        let is_unpaired = !paired.contains(&before.index) && !paired.contains(&after.index);
        if is_unpaired {
            paired.extend([before.index, after.index]);
        }
        is_unpaired
    };
    let best = candidates.into_iter().filter(is_unpaired);
    best.map(|(reason, _, before, after)| (before, after, reason)).collect()
}

/// Both names, in an order that does not depend on the sides.
fn names<'a>(a: &Orphan<'a>, b: &Orphan<'a>) -> (&'a str, &'a str) {
    let (a, b) = (a.operation.name(), b.operation.name());
    (a.min(b), a.max(b))
}

/// The reason to pair two operations, if there is one, and the similarity of their names.
fn reason(before: &Orphan, after: &Orphan) -> Option<(Reason, f64)> {
    let (a, b) = names(before, after);
    let likeness = likeness(a, b);
    if a == b {
        return Some((Reason::SameNameInside, likeness));
    }
    if is_about(before.operation.count, after.operation.count) {
        if before.function == after.function {
            return Some((Reason::SameFunction, likeness));
        }
        if is_part(a, b) || is_part(b, a) {
            return Some((Reason::PartOfName, likeness));
        }
        if likeness >= NEAR {
            return Some((Reason::SimilarName, likeness));
        }
    }
    is_same_place(before, after).then_some((Reason::SamePlace, likeness))
}

fn is_same_place(before: &Orphan, after: &Orphan) -> bool {
    let inside = &before.place.children;
    let (a, b) = (before.operation, after.operation);
    // Kernels have no tree position: their order is that of their times.
    a.kind != "kernel"
        && before.place.position == after.place.position
        && (a.count - b.count).abs() <= 1e-9 * a.count.abs()
        && *inside == after.place.children
        && (!inside.is_empty() || is_about(a.total_nanos, b.total_nanos))
}

fn is_about(a: f64, b: f64) -> bool {
    a.max(b) <= MAX_RATIO * a.min(b)
}

fn is_part(part: &str, whole: &str) -> bool {
    part.len() >= MIN_PART && 2 * part.len() >= whole.len() && whole.contains(part)
}

/// The similarity of two names without a common namespace; symmetric.
fn likeness(a: &str, b: &str) -> f64 {
    let (a, b) = match (a.rsplit_once("::"), b.rsplit_once("::")) {
        (Some((a_namespace, a)), Some((b_namespace, b))) if a_namespace == b_namespace => (a, b),
        _ => (a, b),
    };
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    strsim::jaro_winkler(&a, &b).min(strsim::jaro_winkler(&b, &a))
}
