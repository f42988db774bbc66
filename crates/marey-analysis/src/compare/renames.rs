//! Suggests renames: pairs of operations that may be one operation under two names.
//!
//! A pair consists of a removed and an added operation of the same kind, with a reason. It is a
//! question to the reader: no numbers are merged because of it. Each operation is in at most one
//! pair, the most likely one. Names are compared only among siblings, and only among the 64 that
//! run longest on each side, so that ten thousand new names below one node do not take longer.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::run_measurements::Operation;

use super::function_name::function_name;
use super::operations::OperationDifference;

/// Lowest similarity of two names that count as alike (Jaro-Winkler, 0 to 1).
const MIN_SIMILARITY: f64 = 0.8;
/// Lowest length of a name that may count as part of another name. It must also have at least half
/// of the other name's length.
const MIN_PART_BYTES: usize = 4;
/// Highest ratio between the two counts (or times) of a pair that count as close.
const MAX_COUNT_RATIO: f64 = 2.0;
/// Number of siblings on a side that are compared with each other.
const MAX_SIBLINGS: usize = 64;

/// A pair that may be one operation under two names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename {
    /// Index of the removed operation in the list of differences.
    pub removed_index: usize,
    /// Index of the added operation.
    pub added_index: usize,
    /// The reason for the suggestion.
    pub reason: RenameReason,
}

/// The reason why a removed and an added operation may be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RenameReason {
    /// Both have the same position among their siblings and the same count. They also have the same
    /// children or, if there are none, take about as long.
    SamePosition,
    /// The names of both are alike, and their counts are close.
    SimilarName,
    /// One name is part of the other, and their counts are close.
    PartOfName,
    /// Both are the same function except for template arguments, overloads and numeric suffixes.
    SameFunction,
    /// Both have the same name, and their parents may have been renamed.
    SameNameInside,
}

/// An operation that the other run does not have.
struct Unmatched<'a> {
    /// Index in the list of differences.
    difference_index: usize,
    operation: &'a Operation,
    function: String,
    surroundings: Surroundings<'a>,
}

/// The surroundings of an operation in its tree.
#[derive(Clone, Default)]
struct Surroundings<'a> {
    /// Position among the siblings.
    position: usize,
    /// The names of the children, sorted.
    children: Vec<&'a str>,
}

/// A path and a kind.
type PathAndKind<'a> = (&'a [String], &'a str);

/// Returns the operations that were probably renamed.
pub(super) fn suggest(
    differences: &[OperationDifference],
    before: &[Operation],
    after: &[Operation],
) -> Vec<Rename> {
    let removed = unmatched_operations(differences, before, |difference| {
        match (&difference.before, &difference.after) {
            (Some(before), None) => Some(before),
            _ => None,
        }
    });
    let added = unmatched_operations(differences, after, |difference| {
        match (&difference.before, &difference.after) {
            (None, Some(after)) => Some(after),
            _ => None,
        }
    });
    let mut added_by_siblings: HashMap<PathAndKind, Vec<&Unmatched>> = HashMap::new();
    for unmatched in &added {
        added_by_siblings.entry(sibling_key(unmatched.operation)).or_default().push(unmatched);
    }
    // The outermost groups come first, so that parents are paired before their children.
    let mut sibling_groups: BTreeMap<(usize, PathAndKind), Vec<&Unmatched>> = BTreeMap::new();
    for unmatched in &removed {
        let depth = unmatched.operation.path.len();
        sibling_groups
            .entry((depth, sibling_key(unmatched.operation)))
            .or_default()
            .push(unmatched);
    }
    let mut paths_after: HashMap<&[String], &[String]> = HashMap::new();
    let mut renames = Vec::new();
    for ((_, (parent, kind)), removed) in sibling_groups {
        let new_parent = paths_after.get(parent).copied();
        let Some(added) = added_by_siblings.get(&(new_parent.unwrap_or(parent), kind)) else {
            continue;
        };
        for (before, after, reason) in pair_siblings(removed, added.clone()) {
            paths_after.insert(&before.operation.path, &after.operation.path);
            renames.push(Rename {
                removed_index: before.difference_index,
                added_index: after.difference_index,
                reason,
            });
        }
    }
    renames
}

fn unmatched_operations<'a>(
    differences: &'a [OperationDifference],
    operations: &'a [Operation],
    select: impl Fn(&'a OperationDifference) -> Option<&'a Operation>,
) -> Vec<Unmatched<'a>> {
    let surroundings_by_key = surroundings_by_key(operations);
    let unmatched = |(difference_index, difference)| {
        let operation = select(difference)?;
        let surroundings = surroundings_by_key
            .get(&(&*operation.path, &*operation.kind))
            .cloned()
            .unwrap_or_default();
        Some(Unmatched {
            difference_index,
            operation,
            function: function_name(operation.name()),
            surroundings,
        })
    };
    differences.iter().enumerate().filter_map(unmatched).collect()
}

fn surroundings_by_key(operations: &[Operation]) -> HashMap<PathAndKind<'_>, Surroundings<'_>> {
    let mut sibling_counts: HashMap<&[String], usize> = HashMap::new();
    let mut children: HashMap<&[String], Vec<&str>> = HashMap::new();
    let mut surroundings_by_key: HashMap<PathAndKind, Surroundings> = HashMap::new();
    for operation in operations {
        let key: PathAndKind = (&operation.path, &operation.kind);
        if surroundings_by_key.contains_key(&key) {
            continue;
        }
        let parent = parent(operation);
        let position = sibling_counts.entry(parent).or_default();
        surroundings_by_key.insert(key, Surroundings { position: *position, children: Vec::new() });
        *position += 1;
        children.entry(parent).or_default().push(operation.name());
    }
    for ((path, _), surroundings) in &mut surroundings_by_key {
        surroundings.children.extend(children.get(path).into_iter().flatten());
        surroundings.children.sort_unstable();
    }
    surroundings_by_key
}

fn parent(operation: &Operation) -> &[String] {
    operation.path.split_last().map_or(&[], |(_, parent)| parent)
}

/// Returns the key that an operation shares with its siblings: the path of its parent, and its
/// kind.
fn sibling_key(operation: &Operation) -> PathAndKind<'_> {
    (parent(operation), &operation.kind)
}

/// Two operations that are probably one, before and after its renaming.
type Pair<'a> = (&'a Unmatched<'a>, &'a Unmatched<'a>, RenameReason);

/// Returns pairs among siblings. It pairs equal names first, then equal functions, then all that
/// remain.
fn pair_siblings<'a>(
    mut removed: Vec<&'a Unmatched<'a>>,
    mut added: Vec<&'a Unmatched<'a>>,
) -> Vec<Pair<'a>> {
    let keys: [fn(&'a Unmatched<'a>) -> &'a str; 3] =
        [|unmatched| unmatched.operation.name(), |unmatched| &unmatched.function, |_| ""];
    let mut paired: Vec<Pair> = Vec::new();
    for key in keys {
        let mut groups: BTreeMap<&str, [Vec<&Unmatched>; 2]> = BTreeMap::new();
        for (side, unmatched_operations) in [&removed, &added].into_iter().enumerate() {
            for &unmatched in unmatched_operations {
                groups.entry(key(unmatched)).or_default()[side].push(unmatched);
            }
        }
        paired.extend(groups.into_values().flat_map(|[removed, added]| best_pairs(removed, added)));
        let paired_indexes: HashSet<usize> = paired
            .iter()
            .flat_map(|(before, after, _)| [before.difference_index, after.difference_index])
            .collect();
        removed.retain(|unmatched| !paired_indexes.contains(&unmatched.difference_index));
        added.retain(|unmatched| !paired_indexes.contains(&unmatched.difference_index));
    }
    paired
}

/// Returns the most likely pairs of a group.
fn best_pairs<'a>(
    mut removed: Vec<&'a Unmatched<'a>>,
    mut added: Vec<&'a Unmatched<'a>>,
) -> Vec<Pair<'a>> {
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
            if let Some((reason, similarity)) = rename_reason(before, after) {
                candidates.push((reason, similarity, before, after));
            }
        }
    }
    candidates.sort_by(|a, b| {
        let by_similarity = b.0.cmp(&a.0).then_with(|| b.1.total_cmp(&a.1));
        by_similarity.then_with(|| ordered_names(a.2, a.3).cmp(&ordered_names(b.2, b.3)))
    });
    let mut paired = HashSet::new();
    let is_unpaired = |(_, _, before, after): &(RenameReason, f64, &Unmatched, &Unmatched)| {
        let is_unpaired =
            !paired.contains(&before.difference_index) && !paired.contains(&after.difference_index);
        if is_unpaired {
            paired.extend([before.difference_index, after.difference_index]);
        }
        is_unpaired
    };
    let best_candidates = candidates.into_iter().filter(is_unpaired);
    best_candidates.map(|(reason, _, before, after)| (before, after, reason)).collect()
}

/// Returns both names in an order that does not depend on the sides.
fn ordered_names<'a>(before: &Unmatched<'a>, after: &Unmatched<'a>) -> (&'a str, &'a str) {
    let (before, after) = (before.operation.name(), after.operation.name());
    (before.min(after), before.max(after))
}

/// Returns the reason to pair two operations, if there is one, and the similarity of their names.
fn rename_reason(before: &Unmatched, after: &Unmatched) -> Option<(RenameReason, f64)> {
    let (first, second) = ordered_names(before, after);
    let similarity = similarity(first, second);
    if first == second {
        return Some((RenameReason::SameNameInside, similarity));
    }
    if is_within_ratio(before.operation.count, after.operation.count) {
        if before.function == after.function {
            return Some((RenameReason::SameFunction, similarity));
        }
        if is_part(first, second) || is_part(second, first) {
            return Some((RenameReason::PartOfName, similarity));
        }
        if similarity >= MIN_SIMILARITY {
            return Some((RenameReason::SimilarName, similarity));
        }
    }
    has_same_position(before, after).then_some((RenameReason::SamePosition, similarity))
}

fn has_same_position(before: &Unmatched, after: &Unmatched) -> bool {
    let children = &before.surroundings.children;
    let (old, new) = (before.operation, after.operation);
    // Kernels have no position in a tree: they are sorted by their times.
    old.kind != "kernel"
        && before.surroundings.position == after.surroundings.position
        && (old.count - new.count).abs() <= 1e-9 * old.count.abs()
        && *children == after.surroundings.children
        && (!children.is_empty() || is_within_ratio(old.total_nanos, new.total_nanos))
}

fn is_within_ratio(before: f64, after: f64) -> bool {
    before.max(after) <= MAX_COUNT_RATIO * before.min(after)
}

fn is_part(part: &str, whole: &str) -> bool {
    part.len() >= MIN_PART_BYTES && 2 * part.len() >= whole.len() && whole.contains(part)
}

/// Returns the similarity of two names without a common namespace. It is symmetric.
fn similarity(name: &str, other: &str) -> f64 {
    let (name, other) = match (name.rsplit_once("::"), other.rsplit_once("::")) {
        (Some((namespace, name)), Some((other_namespace, other)))
            if namespace == other_namespace =>
        {
            (name, other)
        }
        _ => (name, other),
    };
    let (name, other) = (name.to_lowercase(), other.to_lowercase());
    strsim::jaro_winkler(&name, &other).min(strsim::jaro_winkler(&other, &name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_close_up_to_twice_of_each_other() {
        assert!(is_within_ratio(2.0, 1.0) && is_within_ratio(1.0, 2.0));
        assert!(!is_within_ratio(2.5, 1.0));
    }

    #[test]
    fn a_part_of_a_name_is_long_enough_to_mean_something() {
        assert!(is_part("conv", "my_conv") && is_part("conv", "conv_fwd"));
        for (part, whole) in [("mm", "mmx"), ("conv", "conv_forward"), ("conv", "lincnv")] {
            assert!(!is_part(part, whole), "{part} in {whole}");
        }
    }

    #[test]
    fn only_a_common_namespace_is_left_out_of_the_similarity() {
        assert_eq!(similarity("aten::MM", "aten::mm"), 1.0);
        assert!(similarity("aten::mm", "cuda::mm") < 1.0);
        let without_namespace = similarity("add", "adx");
        assert_eq!(similarity("aten::add", "aten::adx"), without_namespace);
    }

    #[test]
    fn at_one_position_counts_are_equal_up_to_rounding() {
        let operation = |count| Operation { count, total_nanos: 5.0, ..Operation::default() };
        let (one, rounded, other) = (operation(3.0), operation(3.000_000_001), operation(3.000_1));
        let unmatched = |operation| Unmatched {
            difference_index: 0,
            operation,
            function: String::new(),
            surroundings: Surroundings::default(),
        };
        assert!(has_same_position(&unmatched(&one), &unmatched(&rounded)));
        assert!(!has_same_position(&unmatched(&one), &unmatched(&other)));
        let zero = operation(0.0);
        assert!(has_same_position(&unmatched(&zero), &unmatched(&zero)));
    }
}
