//! The functions that SQL has beyond `DataFusion`'s.

pub(super) mod args;
mod cost;
mod critical_path;
mod gpu_class;
mod interval;
mod json;
pub(super) mod lookup;
mod op_cost;
mod self_time;
mod sketch;
mod texts;

use std::sync::Arc;

use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::DocSection;

use super::lookup::Lookups;

/// The section of `information_schema.functions` that ours are in.
const MAREY: DocSection = DocSection { include: true, label: "marey", description: None };

/// A function's documentation: what it gives, how it is called, and a query to copy.
macro_rules! documented {
    ($description:expr, $syntax:expr, $example:expr) => {{
        static DOCUMENTATION: std::sync::LazyLock<datafusion::logical_expr::Documentation> =
            std::sync::LazyLock::new(|| {
                datafusion::logical_expr::Documentation::builder(
                    $crate::sql::function::MAREY,
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

/// What one short call makes arbitrarily large, in a value or in a type, outside of any account.
const REMOVED: [&str; 18] = [
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

/// Adds all of them to a session, and removes those of `DataFusion` that it must not have.
pub(super) fn register(session: &SessionContext, lookups: &Arc<Lookups>) {
    for name in REMOVED {
        session.deregister_udf(name);
    }
    let alone = [args::function(lookups), interval::common_nanos(), sketch::sketch_quantile()];
    for function in
        lookup::all(lookups).into_iter().chain(texts::all()).chain(cost::all()).chain(alone)
    {
        session.register_udf(function);
    }
    for function in interval::aggregates().into_iter().chain(sketch::aggregates()) {
        session.register_udaf(function);
    }
    session.register_udaf(critical_path::aggregate(lookups));
    session.register_udwf(self_time::function());
}
