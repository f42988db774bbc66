//! Finds the rank of a process in a distributed job, and puts it into file names.

/// Environment variables that contain the rank, in order of precedence.
pub const RANK_VARS: [&str; 4] = ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"];

/// Returns the rank from the environment, if any. `lookup` returns the value of a variable.
pub fn from_env(lookup: impl Fn(&str) -> Option<String>) -> Option<u32> {
    RANK_VARS.iter().find_map(|name| lookup(name)?.trim().parse().ok())
}

/// Returns the session's path with `.rank<n>` appended, unless its last component already contains
/// the rank (`profile_rank_3`, `job-rank3-a`).
pub fn with_rank(path: &str, rank: Option<u32>) -> String {
    let Some(rank) = rank else { return path.to_owned() };
    let file = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    if contains_rank(&file, rank) { path.to_owned() } else { format!("{path}.rank{rank}") }
}

fn contains_rank(file: &str, rank: u32) -> bool {
    file.match_indices("rank").any(|(position, word)| {
        let after_word = file[position + word.len()..].trim_start_matches(['_', '-', '.', '=']);
        let digits =
            after_word.len() - after_word.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        after_word[..digits].parse() == Ok(rank)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_contains_the_rank_is_unchanged() {
        assert_eq!(with_rank("a/profile_rank_3", Some(3)), "a/profile_rank_3");
        assert_eq!(with_rank("a/profile_rank_3", Some(1)), "a/profile_rank_3.rank1");
        assert_eq!(with_rank("job-rank3-a", Some(3)), "job-rank3-a");
        assert_eq!(with_rank("rank3/out", Some(3)), "rank3/out.rank3");
        assert_eq!(with_rank("out", None), "out");
        assert_eq!(with_rank("exp_rank", Some(0)), "exp_rank.rank0");
    }

    #[test]
    fn the_first_variable_that_holds_a_number_wins() {
        let env = |name: &str| match name {
            "RANK" => Some(String::new()),
            "PMI_RANK" => Some("7".to_owned()),
            _ => None,
        };
        assert_eq!(from_env(env), Some(7));
    }
}
