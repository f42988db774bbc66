//! What may be one and the same under two names.
//!
//! A pair has one that only the run before has and one that only the run after has, of the same kind, and
//! a reason. It is a question to the reader: no number is added up because of it. Likest first, each is
//! in one pair at most. Names are compared among siblings only, the longest 64 on a side, so a tree with
//! ten thousand new names below one node takes no longer.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::measured::Operation;

use super::function_name::function_name;
use super::operations::Difference;

/// How alike two names must be (Jaro-Winkler, 0 to 1).
const NEAR: f64 = 0.8;
/// A name within another has at least so many letters, and half of the other's.
const MIN_PART: usize = 4;
/// How often one may run when the other runs once.
const MAX_RATIO: f64 = 2.0;
/// So many siblings on a side are compared with each other.
const MAX_SIBLINGS: usize = 64;

/// Two that may be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename {
    /// Position of what was removed, in the list of differences.
    pub before: usize,
    /// Position of what was added.
    pub after: usize,
    /// Why.
    pub reason: Reason,
}

/// Why two may be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// They are at the same place among their siblings, run as often, and have the same inside, or, with
    /// nothing inside, take about as long.
    SamePlace,
    /// Their names are alike, and they run about as often.
    SimilarName,
    /// One name is a part of the other, and they run about as often.
    PartOfName,
    /// They are one function but for the arguments of its template or the number at its end.
    SameFunction,
    /// They have the same name, and what they are in may be one.
    SameNameInside,
}

/// One that the other run does not have.
struct Orphan<'a> {
    /// Position in the list of differences.
    at: usize,
    operation: &'a Operation,
    function: String,
    place: Place<'a>,
}

/// Where an operation stands.
#[derive(Clone, Default)]
struct Place<'a> {
    /// Position among its siblings.
    position: usize,
    /// The names of what is directly inside.
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
    // Outermost first, so that parents have been paired when their children are.
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
            found.push(Rename { before: before.at, after: after.at, reason });
        }
    }
    found
}

fn orphans<'a>(
    differences: &'a [Difference],
    operations: &'a [Operation],
    only: impl Fn(&'a Difference) -> Option<&'a Operation>,
) -> Vec<Orphan<'a>> {
    let places = places(operations);
    let orphan = |(at, difference)| {
        let operation = only(difference)?;
        let place = places.get(&(&*operation.path, &*operation.kind)).cloned().unwrap_or_default();
        Some(Orphan { at, operation, function: function_name(operation.name()), place })
    };
    differences.iter().enumerate().filter_map(orphan).collect()
}

fn places(operations: &[Operation]) -> HashMap<Key<'_>, Place<'_>> {
    let mut siblings: HashMap<&[String], usize> = HashMap::new();
    let mut children: HashMap<&[String], Vec<&str>> = HashMap::new();
    let mut places: HashMap<Key, Place> = HashMap::new();
    for operation in operations {
        let key: Key = (&operation.path, &operation.kind);
        if places.contains_key(&key) {
            continue;
        }
        let parent = parent(operation);
        let position = siblings.entry(parent).or_default();
        places.insert(key, Place { position: *position, children: Vec::new() });
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

fn family(operation: &Operation) -> Key<'_> {
    (parent(operation), &operation.kind)
}

type Pair<'a> = (&'a Orphan<'a>, &'a Orphan<'a>, Reason);

/// Pairs among siblings: of the same name first, then of the same function; the rest is compared with one
/// another.
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
        let taken: HashSet<usize> =
            paired.iter().flat_map(|(before, after, _)| [before.at, after.at]).collect();
        removed.retain(|orphan| !taken.contains(&orphan.at));
        added.retain(|orphan| !taken.contains(&orphan.at));
    }
    paired
}

/// The likest pairs of a group.
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
    let mut taken = HashSet::new();
    let is_free = |(_, _, before, after): &(Reason, f64, &Orphan, &Orphan)| {
        let is_free = !taken.contains(&before.at) && !taken.contains(&after.at);
        if is_free {
            taken.extend([before.at, after.at]);
        }
        is_free
    };
    let free = candidates.into_iter().filter(is_free);
    free.map(|(reason, _, before, after)| (before, after, reason)).collect()
}

/// Both names, in an order that is the same both ways.
fn names<'a>(a: &Orphan<'a>, b: &Orphan<'a>) -> (&'a str, &'a str) {
    let (a, b) = (a.operation.name(), b.operation.name());
    (a.min(b), a.max(b))
}

/// Why two may be one, and how alike their names are.
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
    // A kernel has no place: their order is that of their times.
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

/// How alike two names are without the namespaces that both are in, the same both ways.
fn likeness(a: &str, b: &str) -> f64 {
    let (a, b) = match (a.rsplit_once("::"), b.rsplit_once("::")) {
        (Some((of_a, a)), Some((of_b, b))) if of_a == of_b => (a, b),
        _ => (a, b),
    };
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    strsim::jaro_winkler(&a, &b).min(strsim::jaro_winkler(&b, &a))
}
