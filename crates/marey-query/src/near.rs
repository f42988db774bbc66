//! The names nearest to one that is not there.

/// How alike two names must be (Jaro-Winkler, 0 to 1).
const NEAR: f64 = 0.8;
const MAX_NEAREST: usize = 3;

/// Those of the names that are like the one asked for, likest first.
pub fn nearest(asked: &str, names: &[String]) -> Vec<String> {
    let asked = asked.to_lowercase();
    let mut near: Vec<(f64, &String)> = names
        .iter()
        .map(|name| (strsim::jaro_winkler(&asked, &name.to_lowercase()), name))
        .filter(|(likeness, name)| *likeness >= NEAR && **name != asked)
        .collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    near.into_iter().take(MAX_NEAREST).map(|(_, name)| name.clone()).collect()
}
