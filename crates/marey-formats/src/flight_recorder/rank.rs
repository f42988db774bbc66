//! The rank that a file's name tells.

/// The number after the word "rank": 3 of `nccl_trace_rank_3` and of `rank3_snapshot`.
pub(crate) fn named(stem: &str) -> Option<u32> {
    let after = stem.to_ascii_lowercase().rsplit_once("rank").map(|(_, after)| after.to_owned())?;
    let digits = after.trim_start_matches(['_', '-']);
    let end = digits.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// The number at the end, as PyTorch names the dumps of a job: a prefix and the rank.
pub(crate) fn numbered(stem: &str) -> Option<u32> {
    let start = stem.trim_end_matches(|end: char| end.is_ascii_digit()).len();
    stem[start..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_ranks() {
        let cases = [
            ("nccl_trace_rank_3", Some(3), Some(3)),
            ("Rank12-snapshot", Some(12), None),
            ("ranked_7", None, Some(7)),
            ("dump7", None, Some(7)),
            ("rank_99999999999", None, None),
            ("rank", None, None),
            ("", None, None),
            ("é", None, None),
        ];
        for (stem, by_word, by_end) in cases {
            assert_eq!((named(stem), numbered(stem)), (by_word, by_end), "{stem}");
        }
    }
}
