//! The SQL function `args(args_id, arg_numbers)`: the arguments of an event as a JSON object. A run
//! stores each text of arguments once, with gaps that the numbers of an event fill.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use marey_model::args::fill_with_unknown;

use super::documented;
use crate::sql::lookup::{Lookups, ids_or_null};

const BLOCK_BYTES: u32 = 1 << 20;

pub(super) fn function(lookups: &Arc<Lookups>) -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(ArgsFunction { lookups: Arc::clone(lookups), signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) struct ArgsFunction {
    lookups: Arc<Lookups>,
    signature: Signature,
}

impl ArgsFunction {
    /// Whether a function is this one.
    pub(in crate::sql) fn is_args(function: &ScalarUDF) -> bool {
        let inner: &dyn Any = function.inner().as_ref();
        inner.is::<Self>()
    }
}

impl ScalarUDFImpl for ArgsFunction {
    fn name(&self) -> &'static str {
        "args"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let numbers = || DataType::new_list(DataType::Int64, true);
        match arg_types {
            [DataType::Null, DataType::Null | DataType::List(_)] => {
                Ok(vec![DataType::UInt32, numbers()])
            }
            [id, DataType::Null | DataType::List(_)] if id.is_integer() => {
                Ok(vec![id.clone(), numbers()])
            }
            _ => plan_err!("args() takes an id and a list of numbers: args(args_id, arg_numbers)"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let texts = self.lookups.arg_texts()?.as_string_view();
        let ids = ids_or_null(&arrays[0], texts.len())?;
        let lists = arrays[1].as_list::<i32>();
        let reservation = self.lookups.reserve("args");
        let mut objects =
            StringViewBuilder::with_capacity(ids.len()).with_fixed_block_size(BLOCK_BYTES);
        let mut json = String::new();
        for (row, id) in ids.iter().enumerate() {
            let text_id = id.map(|id| id as usize).filter(|&id| texts.is_valid(id));
            let Some(text_id) = text_id else {
                objects.append_null();
                continue;
            };
            let list = lists.is_valid(row).then(|| lists.value(row));
            let numbers = list.iter().flat_map(AsArray::as_primitive::<Int64Type>);
            json.clear();
            fill_with_unknown(texts.value(text_id), numbers, &mut json);
            reservation.try_grow(json.len())?;
            objects.try_append_value(&json)?;
        }
        Ok(ColumnarValue::Array(Arc::new(objects.finish())))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(documented!(
            "The arguments of an event as a JSON object; null if it has none.",
            "args(args_id, arg_numbers)",
            "SELECT name(name_id), args(args_id, arg_numbers) FROM raw.spans LIMIT 5"
        ))
    }
}
