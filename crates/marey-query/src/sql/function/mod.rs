//! The functions that SQL has beyond `DataFusion`'s.

mod interval;
pub(super) mod lookup;
mod self_time;
mod sketch;

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

/// Adds all of them to a session.
pub(super) fn register(session: &SessionContext, lookups: &Arc<Lookups>) {
    for function in lookup::all(lookups).into_iter().chain([interval::common_nanos()]) {
        session.register_udf(function);
    }
    for function in interval::aggregates().into_iter().chain(sketch::aggregates()) {
        session.register_udaf(function);
    }
    session.register_udwf(self_time::function());
}
