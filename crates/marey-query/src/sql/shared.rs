//! Views that several queries of a report share: they have few rows, and take long to compute.

use marey_model::table::stored;
use marey_store::{Part, Run};

use super::views::definition;

/// The shareable views, each after the views that it uses itself.
const SHARED: [&str; 6] =
    ["step_summary", "rank_arrivals", "gpu_time", "gpu_time_by_step", "step_times", "device_idle"];

/// The views with rows for each step.
const BY_STEP: [&str; 2] = ["gpu_time_by_step", "step_times"];

/// Most steps for which rows of these views are kept.
const MAX_STEPS: u64 = 100_000;

/// Returns the views to share, in waves. A view uses only views of earlier waves, so that the views of
/// one wave can be computed at the same time.
pub(super) fn waves(run: &Run, queries: &[&str]) -> Vec<Vec<&'static str>> {
    let mut waves: Vec<Vec<&'static str>> = Vec::new();
    for view in views(run, queries) {
        let text = definition(view);
        let is_used = |wave: &Vec<&str>| wave.iter().any(|earlier| names(text, earlier));
        let wave = waves.iter().rposition(is_used).map_or(0, |last| last + 1);
        waves.resize_with(waves.len().max(wave + 1), Vec::new);
        waves[wave].push(view);
    }
    waves
}

/// Returns the shareable views that at least two of the queries, or of the views behind them, use.
fn views(run: &Run, queries: &[&str]) -> Vec<&'static str> {
    let steps: u64 = run.parts(&stored::STEPS).iter().map(Part::rows).sum();
    let mut texts = queries.to_vec();
    let mut views = Vec::new();
    for view in SHARED.into_iter().rev() {
        let users = texts.iter().filter(|text| names(text, view)).count();
        if users > 0 {
            texts.push(definition(view));
        }
        if users > 1 && (steps <= MAX_STEPS || !BY_STEP.contains(&view)) {
            views.push(view);
        }
    }
    views.reverse();
    views
}

/// Whether a query mentions a table or view.
pub fn names(query: &str, table: &str) -> bool {
    query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_listed_after_those_that_it_names() {
        for (at, view) in SHARED.iter().enumerate() {
            let named = SHARED[at..].iter().find(|later| names(definition(view), later));
            assert_eq!(named, None, "{view} names a later view");
        }
    }
}
