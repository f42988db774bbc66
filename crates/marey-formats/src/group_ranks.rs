//! The ranks of a process group, which tell it from others of its name.
//!
//! Names of groups are numbers that each process counts by itself: after `split_group`, groups of
//! different ranks share one.

/// Which ranks a group has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupRanks {
    /// All of them in one form, whatever list a file has: `0-3,8`.
    pub(crate) text: String,
    /// How many there are.
    pub(crate) count: u32,
}

impl GroupRanks {
    /// Returns the ranks of a list, in brackets or not; `None` if it is none, or is cut (`[0, ..., 7]`).
    pub(crate) fn of_text(list: &str) -> Option<Self> {
        let numbers = list.trim().trim_matches(['[', ']']).split(',');
        let ranks: Result<Vec<u32>, _> = numbers.map(|number| number.trim().parse()).collect();
        Self::of(ranks.ok()?)
    }

    /// Returns the ranks of a list, in the order of their numbers; `None` if there are none.
    pub(crate) fn of(mut ranks: Vec<u32>) -> Option<Self> {
        ranks.sort_unstable();
        ranks.dedup();
        let runs = ranks.chunk_by(|rank, next| rank.checked_add(1) == Some(*next));
        let runs = runs.filter_map(|run| match (run.first()?, run.last()?) {
            (first, last) if first == last => Some(first.to_string()),
            (first, last) => Some(format!("{first}-{last}")),
        });
        let text = runs.collect::<Vec<_>>().join(",");
        (!ranks.is_empty()).then_some(Self { text, count: ranks.len() as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_same_ranks_are_the_same_text() {
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
            let ranks = GroupRanks::of_text(list);
            let said = ranks.as_ref().map(|ranks| (ranks.text.as_str(), ranks.count));
            assert_eq!(said, expected, "{list}");
        }
    }
}
