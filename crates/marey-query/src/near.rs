//! Suggests similar names for an unknown one, for error messages.

/// Lowest similarity of a suggestion (Jaro-Winkler, 0 to 1).
const MIN_SIMILARITY: f64 = 0.8;
const MAX_SUGGESTIONS: usize = 3;

/// Returns at most three names that are similar to an unknown one, the most similar first.
pub fn nearest(unknown: &str, names: &[String]) -> Vec<String> {
    let unknown = unknown.to_lowercase();
    let mut similar_names: Vec<(f64, &String)> = names
        .iter()
        .map(|name| (strsim::jaro_winkler(&unknown, &name.to_lowercase()), name))
        .filter(|(similarity, name)| *similarity >= MIN_SIMILARITY && **name != unknown)
        .collect();
    similar_names.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    similar_names.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_names_are_suggested() {
        let names = ["count", "bytes", "coutn", "Counts"].map(ToOwned::to_owned);
        assert_eq!(nearest("coutn", &names), ["count", "Counts"]);
        assert!(nearest("xyz", &names).is_empty());
    }
}
