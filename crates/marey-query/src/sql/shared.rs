//! Finds the views that several queries of a report use. The report computes each of them once and
//! keeps its rows. Only views with few rows that take long to compute qualify.

use marey_model::table::{Table, stored};
use marey_store::{Part, Run};

use super::views::{INTERNAL_VIEWS, definition};

/// The shareable views, each after the views that it uses itself.
const SHAREABLE_VIEWS: [&str; 8] = [
    "step_summary",
    "rank_arrivals",
    "gpu_time",
    "gpu_time_by_step",
    "step_times",
    "device_idle",
    "kernel_occupancy",
    "context_modules",
];

/// The views among these that have rows for each step.
const PER_STEP_VIEWS: [&str; 2] = ["gpu_time_by_step", "step_times"];

/// Most steps of a run for which the rows of [`PER_STEP_VIEWS`] are kept.
const MAX_STEPS: u64 = 100_000;

/// Returns the views to share, in stages. A view uses only views of earlier stages, so the views of
/// one stage can be computed at the same time.
pub(super) fn view_stages(run: &Run, queries: &[&str]) -> Vec<Vec<&'static str>> {
    let mut stages: Vec<Vec<&'static str>> = Vec::new();
    for view in shared_views(run, queries) {
        let view_sql = definition(view);
        let is_used = |stage: &Vec<&str>| stage.iter().any(|earlier| mentions(view_sql, earlier));
        let stage = stages.iter().rposition(is_used).map_or(0, |last| last + 1);
        stages.resize_with(stages.len().max(stage + 1), Vec::new);
        stages[stage].push(view);
    }
    stages
}

/// Returns the shareable views that at least two of the queries, or of the views behind them, use.
fn shared_views(run: &Run, queries: &[&str]) -> Vec<&'static str> {
    let step_count: u64 = run.parts(&stored::STEPS).iter().map(Part::row_count).sum();
    let mut sql_texts = queries.to_vec();
    let is_used = |view: &&&Table| queries.iter().any(|query| mentions(query, view.name));
    sql_texts.extend(INTERNAL_VIEWS.iter().filter(is_used).map(|view| definition(view.name)));
    let mut views = Vec::new();
    for view in SHAREABLE_VIEWS.into_iter().rev() {
        let use_count = sql_texts.iter().filter(|view_sql| mentions(view_sql, view)).count();
        if use_count > 0 {
            sql_texts.push(definition(view));
        }
        if use_count > 1 && (step_count <= MAX_STEPS || !PER_STEP_VIEWS.contains(&view)) {
            views.push(view);
        }
    }
    views.reverse();
    views
}

/// Whether a query mentions a table or view.
pub fn mentions(query: &str, table: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    query.match_indices(table).any(|(start, name)| {
        let (before, after) = (&query[..start], &query[start + name.len()..]);
        !before.ends_with(is_word) && !after.starts_with(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_mentions_words_and_no_parts_of_words() {
        for query in ["SELECT * FROM top", "top", "top.name", "raw.top", "(top)", "stop top"] {
            assert!(mentions(query, "top"), "{query}");
        }
        for query in ["", "stop", "top_10", "topology", "TOP", "_top"] {
            assert!(!mentions(query, "top"), "{query}");
        }
    }

    #[test]
    fn a_view_is_listed_after_those_that_it_names() {
        for (index, view) in SHAREABLE_VIEWS.iter().enumerate() {
            let later_view =
                SHAREABLE_VIEWS[index..].iter().find(|later| mentions(definition(view), later));
            assert_eq!(later_view, None, "{view} names a later view");
        }
    }
}
