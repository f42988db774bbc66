//! The SQL functions that map two strings to a string: `arg(args, 'key')` and `gpu_class(kind,
//! name)`.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, StringViewBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use marey_model::json_member::member_value;

use super::{documented, gpu_class};

pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let signature = || Signature::exact(vec![DataType::Utf8View; 2], Volatility::Immutable);
    let functions = [TextFunctionKind::Arg, TextFunctionKind::GpuClass].into_iter();
    functions.map(move |kind| TextFunction { kind, signature: signature() }.into())
}

/// A function from two strings to a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TextFunctionKind {
    Arg,
    GpuClass,
}

impl TextFunctionKind {
    fn apply<'t>(self, first: &'t str, second: &str) -> Option<Cow<'t, str>> {
        match self {
            Self::Arg => member_value(first, second),
            Self::GpuClass => gpu_class::classify(first, second).map(Cow::Borrowed),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TextFunction {
    kind: TextFunctionKind,
    signature: Signature,
}

impl ScalarUDFImpl for TextFunction {
    fn name(&self) -> &'static str {
        match self.kind {
            TextFunctionKind::Arg => "arg",
            TextFunctionKind::GpuClass => "gpu_class",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let [firsts, seconds] = [0, 1].map(|column: usize| columns[column].as_string_view());
        let mut texts = StringViewBuilder::with_capacity(firsts.len());
        for (first, second) in firsts.iter().zip(seconds) {
            let pair = first.zip(second);
            texts.append_option(pair.and_then(|(first, second)| self.kind.apply(first, second)));
        }
        Ok(ColumnarValue::Array(Arc::new(texts.finish())))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(match self.kind {
            TextFunctionKind::Arg => documented!(
                "The value of a key of a JSON object: a string without its quotes, anything else \
                 as its JSON. Null if the key is missing, its value is null, or the text is not an \
                 object.",
                "arg(args, key)",
                "SELECT name, sum(CAST(arg(args, 'bytes') AS BIGINT)) AS bytes FROM \
                 gpu_activities GROUP BY name"
            ),
            TextFunctionKind::GpuClass => documented!(
                "The class of a device activity, by its kind and name: `memory` for copies and \
                 fills, `communication` for kernels of libraries such as NCCL, `compute` for all \
                 other kernels. Null for waits and annotations.",
                "gpu_class(kind, name)",
                "SELECT gpu_class(kind, name), sum(duration_nanos) FROM gpu_activities GROUP BY 1"
            ),
        })
    }
}
