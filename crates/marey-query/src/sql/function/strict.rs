//! Scalar functions that are given by the function that computes a column.

use std::fmt;
use std::hash::{Hash, Hasher};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// Returns the column of results for columns of arguments.
type Compute = fn(&[ArrayRef]) -> Result<ArrayRef>;

/// Returns a function whose result depends on its arguments alone, and is null if one of them is.
pub(super) fn strict_function(
    name: &'static str,
    arguments: Vec<DataType>,
    result: DataType,
    compute: Compute,
    documentation: &'static Documentation,
) -> ScalarUDF {
    let signature = Signature::exact(arguments, Volatility::Immutable);
    StrictFunction { name, signature, result, compute, documentation }.into()
}

struct StrictFunction {
    name: &'static str,
    signature: Signature,
    result: DataType,
    compute: Compute,
    documentation: &'static Documentation,
}

// Without the documentation, which is long.
impl fmt::Debug for StrictFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

// No other function has the same name.
impl PartialEq for StrictFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for StrictFunction {}

impl Hash for StrictFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for StrictFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result.clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        Ok(ColumnarValue::Array((self.compute)(&columns)?))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(self.documentation)
    }
}
