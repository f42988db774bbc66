//! Views that several queries of a report share: they have few rows, and take long to compute.

use marey_model::table::stored;
use marey_store::{Part, Run};

use super::views::definition;

/// The shareable views, each after the views that it uses itself.
const SHARED: [&str; 5] =
    ["step_summary", "gpu_time", "gpu_time_by_step", "step_times", "device_idle"];

/// The views with rows for each step.
const BY_STEP: [&str; 2] = ["gpu_time_by_step", "step_times"];

/// Most steps for which rows of these views are kept.
const MAX_STEPS: u64 = 100_000;

/// The shareable views that at least two of the queries, or of the views behind them, use.
pub(super) fn views(run: &Run, queries: &[&str]) -> Vec<&'static str> {
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
