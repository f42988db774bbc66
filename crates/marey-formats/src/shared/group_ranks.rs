//! The ranks of a process group, which distinguish groups of the same name.
//!
//! Each process numbers its groups on its own, and the number is the name. So after `split_group`
//! groups of different ranks share a name.

/// The ranks of a process group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupRanks {
    /// The ranks in ascending order, with ranges: `0-3,8`.
    pub(crate) canonical: String,
    /// Number of ranks.
    pub(crate) count: u32,
}

impl GroupRanks {
    /// Parses a list with or without brackets. Returns `None` if it is empty, invalid or
    /// abbreviated (`[0, ..., 7]`).
    pub(crate) fn parse(list: &str) -> Option<Self> {
        let numbers = list.trim().trim_matches(['[', ']']).split(',');
        let ranks: Result<Vec<u32>, _> = numbers.map(|number| number.trim().parse()).collect();
        Self::new(ranks.ok()?)
    }

    /// Returns the group of these ranks, which may be in any order. `None` if there are none.
    pub(crate) fn new(mut ranks: Vec<u32>) -> Option<Self> {
        ranks.sort_unstable();
        ranks.dedup();
        let ranges = ranks.chunk_by(|rank, next| rank.checked_add(1) == Some(*next));
        let ranges = ranges.filter_map(|range| match (range.first()?, range.last()?) {
            (first, last) if first == last => Some(first.to_string()),
            (first, last) => Some(format!("{first}-{last}")),
        });
        let canonical = ranges.collect::<Vec<_>>().join(",");
        (!ranks.is_empty()).then_some(Self { canonical, count: ranks.len() as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_of_ranks_have_one_form() {
        let cases = [
            ("[0, 1]", Some(("0-1", 2))),
            ("[0,1]", Some(("0-1", 2))),
            ("7", Some(("7", 1))),
            ("[8, 3, 2, 1, 3]", Some(("1-3,8", 4))),
            ("[0, 2, 4]", Some(("0,2,4", 3))),
            ("[4294967295, 0]", Some(("0,4294967295", 2))),
            ("[0, 1, ..., 7]", None),
            ("[-1]", None),
            ("[]", None),
            ("", None),
        ];
        for (list, expected) in cases {
            let ranks = GroupRanks::parse(list);
            let actual = ranks.as_ref().map(|ranks| (ranks.canonical.as_str(), ranks.count));
            assert_eq!(actual, expected, "{list}");
        }
    }
}
