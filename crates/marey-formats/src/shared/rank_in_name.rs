//! Finds the rank in the name of a dump of PyTorch, whose content does not state it.

/// Returns the number after the word "rank", such as 3 for `nccl_trace_rank_3` and
/// `rank3_snapshot`.
pub(crate) fn rank_after_word(stem: &str) -> Option<u32> {
    let after = stem.to_ascii_lowercase().rsplit_once("rank").map(|(_, after)| after.to_owned())?;
    let digits = after.trim_start_matches(['_', '-']);
    let end = digits.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// Returns the number at the end. PyTorch names the dumps of a job by a prefix and the rank.
pub(crate) fn rank_at_end(stem: &str) -> Option<u32> {
    let start = stem.trim_end_matches(|end: char| end.is_ascii_digit()).len();
    stem[start..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_follows_the_word_or_ends_the_name() {
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
            assert_eq!((rank_after_word(stem), rank_at_end(stem)), (by_word, by_end), "{stem}");
        }
    }
}
