//! Registers the SQL functions of marey, each documented for `information_schema.functions`, and
//! removes those of `DataFusion` that could exhaust memory.

pub(super) mod args;
mod cost;
mod critical_path;
mod gpu_class;
mod interval;
pub(super) mod lookup;
mod self_time;
mod sketch;
mod strict;
mod sum;
mod texts;

use std::sync::Arc;

use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::DocSection;

use super::lookup::Lookups;

/// The section of marey's functions in `information_schema.functions`.
const MAREY_SECTION: DocSection = DocSection { include: true, label: "marey", description: None };

/// Returns a function's documentation from a description, the syntax, and an example query.
macro_rules! documented {
    ($description:expr, $syntax:expr, $example:expr) => {{
        static DOCUMENTATION: std::sync::LazyLock<datafusion::logical_expr::Documentation> =
            std::sync::LazyLock::new(|| {
                datafusion::logical_expr::Documentation::builder(
                    $crate::sql::function::MAREY_SECTION,
                    $description,
                    $syntax,
                )
                .with_sql_example($example)
                .build()
            });
        &*DOCUMENTATION
    }};
}
use documented;

/// Functions of `DataFusion` that allocate an arbitrary amount of memory for one short call,
/// without accounting for it in a memory pool.
const REMOVED_FUNCTIONS: [&str; 18] = [
    "array_append",
    "array_concat",
    "array_prepend",
    "array_repeat",
    "array_replace",
    "array_replace_all",
    "array_replace_n",
    "array_resize",
    "array_to_string",
    "arrow_cast",
    "arrow_try_cast",
    "generate_series",
    "lpad",
    "overlay",
    "range",
    "repeat",
    "rpad",
    "translate",
];

/// Registers marey's functions with a session, and removes those in [`REMOVED_FUNCTIONS`].
pub(super) fn register(session: &SessionContext, lookups: &Arc<Lookups>) {
    for name in REMOVED_FUNCTIONS {
        session.deregister_udf(name);
    }
    let scalars = [args::function(lookups), interval::common_nanos(), sketch::sketch_quantile()];
    for function in lookup::functions(lookups)
        .into_iter()
        .chain(texts::functions())
        .chain(cost::functions())
        .chain(scalars)
    {
        session.register_udf(function);
    }
    for function in
        interval::aggregates().into_iter().chain(sketch::aggregates()).chain([sum::aggregate()])
    {
        session.register_udaf(function);
    }
    session.register_udaf(critical_path::aggregate(lookups));
    session.register_udwf(self_time::function());
}
