//! The SQL functions that map two strings to a string: `arg(args, 'key')` and `gpu_class(kind,
//! name)`.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::ScalarUDF;

use marey_model::json_member::member_value;

use super::strict::strict_function;
use super::{documented, gpu_class};

pub(super) fn functions() -> [ScalarUDF; 2] {
    [
        strict_function(
            "arg",
            vec![DataType::Utf8View; 2],
            DataType::Utf8View,
            |columns| Ok(texts_of_pairs(columns, member_value)),
            documented!(
                "The value of a key of a JSON object: a string without its quotes, anything else \
                 as its JSON. Null if the key is missing, its value is null, or the text is not an \
                 object.",
                "arg(args, key)",
                "SELECT name, sum(CAST(arg(args, 'bytes') AS BIGINT)) AS bytes FROM \
                 gpu_activities GROUP BY name"
            ),
        ),
        strict_function(
            "gpu_class",
            vec![DataType::Utf8View; 2],
            DataType::Utf8View,
            |columns| Ok(texts_of_pairs(columns, class_of_activity)),
            documented!(
                "The class of a device activity, by its kind and name: `memory` for copies and \
                 fills, `communication` for kernels of libraries such as NCCL, `compute` for all \
                 other kernels. Null for waits and annotations.",
                "gpu_class(kind, name)",
                "SELECT gpu_class(kind, name), sum(duration_nanos) FROM gpu_activities GROUP BY 1"
            ),
        ),
    ]
}

fn class_of_activity<'t>(kind: &'t str, name: &str) -> Option<Cow<'t, str>> {
    gpu_class::classify(kind, name).map(Cow::Borrowed)
}

fn texts_of_pairs(
    columns: &[ArrayRef],
    text_of_pair: impl for<'t> Fn(&'t str, &str) -> Option<Cow<'t, str>>,
) -> ArrayRef {
    let [firsts, seconds] = [0, 1].map(|column: usize| columns[column].as_string_view());
    let mut texts = StringViewBuilder::with_capacity(firsts.len());
    for (first, second) in firsts.iter().zip(seconds) {
        texts.append_option(
            first.zip(second).and_then(|(first, second)| text_of_pair(first, second)),
        );
    }
    Arc::new(texts.finish())
}
