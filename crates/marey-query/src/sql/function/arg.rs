//! `arg(args, 'key')`: one value of a JSON object.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, StringViewBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::{documented, json};

pub(super) fn function() -> ScalarUDF {
    let signature = Signature::exact(vec![DataType::Utf8View; 2], Volatility::Immutable);
    ScalarUDF::new_from_impl(ArgFunction { signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArgFunction {
    signature: Signature,
}

impl ScalarUDFImpl for ArgFunction {
    fn name(&self) -> &'static str {
        "arg"
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
        let given = ColumnarValue::values_to_arrays(&args.args)?;
        let [objects, keys] = [0, 1].map(|at: usize| given[at].as_string_view());
        let mut values = StringViewBuilder::with_capacity(objects.len());
        for (object, key) in objects.iter().zip(keys) {
            let value = object.zip(key).and_then(|(object, key)| json::value(object, key));
            values.append_option(value);
        }
        Ok(ColumnarValue::Array(Arc::new(values.finish())))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(documented!(
            "The value of a key of a JSON object: a text without its quotes, anything else as its \
             JSON. Null if the key is not there or its value is null, or if it is no object.",
            "arg(args, key)",
            "SELECT name, sum(CAST(arg(args, 'bytes') AS BIGINT)) AS bytes FROM gpu_activities \
             GROUP BY name"
        ))
    }
}
