//! Finds the views that several queries of a report use. The report computes each of them once and
//! keeps its rows. Only views with few rows that take long to compute qualify.

use marey_model::table::{Table, stored};
use marey_store::{Part, Run};

use super::views::{INTERNAL, definition};

/// The shareable views, each after the views that it uses itself.
const SHAREABLE: [&str; 6] =
    ["step_summary", "rank_arrivals", "gpu_time", "gpu_time_by_step", "step_times", "device_idle"];

/// The views among these that have rows for each step.
const BY_STEP: [&str; 2] = ["gpu_time_by_step", "step_times"];

/// Most steps of a run for which the rows of [`BY_STEP`] are kept.
const MAX_STEPS: u64 = 100_000;

/// Returns the views to share, in waves. A view uses only views of earlier waves, so the views of
/// one wave can be computed at the same time.
pub(super) fn waves(run: &Run, queries: &[&str]) -> Vec<Vec<&'static str>> {
    let mut waves: Vec<Vec<&'static str>> = Vec::new();
    for view in shared_views(run, queries) {
        let text = definition(view);
        let is_used = |wave: &Vec<&str>| wave.iter().any(|earlier| mentions(text, earlier));
        let wave = waves.iter().rposition(is_used).map_or(0, |last| last + 1);
        waves.resize_with(waves.len().max(wave + 1), Vec::new);
        waves[wave].push(view);
    }
    waves
}

/// Returns the shareable views that at least two of the queries, or of the views behind them, use.
fn shared_views(run: &Run, queries: &[&str]) -> Vec<&'static str> {
    let step_count: u64 = run.parts(&stored::STEPS).iter().map(Part::row_count).sum();
    let mut texts = queries.to_vec();
    let is_used = |view: &&&Table| queries.iter().any(|query| mentions(query, view.name));
    texts.extend(INTERNAL.iter().filter(is_used).map(|view| definition(view.name)));
    let mut views = Vec::new();
    for view in SHAREABLE.into_iter().rev() {
        let users = texts.iter().filter(|text| mentions(text, view)).count();
        if users > 0 {
            texts.push(definition(view));
        }
        if users > 1 && (step_count <= MAX_STEPS || !BY_STEP.contains(&view)) {
            views.push(view);
        }
    }
    views.reverse();
    views
}

/// Whether a query mentions a table or view.
pub fn mentions(query: &str, table: &str) -> bool {
    query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_listed_after_those_that_it_names() {
        for (index, view) in SHAREABLE.iter().enumerate() {
            let later_view =
                SHAREABLE[index..].iter().find(|later| mentions(definition(view), later));
            assert_eq!(later_view, None, "{view} names a later view");
        }
    }
}
