//! What operators cost and what devices can do: `op_flops`, `op_bytes`, `peak_flops` and
//! `peak_bytes_per_second`.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::{documented, op_cost};
use crate::peaks::of_device;

pub(super) fn all() -> impl Iterator<Item = ScalarUDF> {
    let all = [Gives::OpFlops, Gives::OpBytes, Gives::PeakFlops, Gives::PeakBytes].into_iter();
    all.map(|gives| Cost { gives, signature: gives.signature() }.into())
}

/// Which number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Gives {
    OpFlops,
    OpBytes,
    PeakFlops,
    PeakBytes,
}

impl Gives {
    fn signature(self) -> Signature {
        let given = match self {
            Self::OpFlops | Self::OpBytes => vec![DataType::Utf8View; 2],
            Self::PeakFlops => vec![DataType::Utf8View, DataType::Int64],
            Self::PeakBytes => vec![DataType::Utf8View],
        };
        Signature::exact(given, Volatility::Immutable)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Cost {
    gives: Gives,
    signature: Signature,
}

impl ScalarUDFImpl for Cost {
    fn name(&self) -> &'static str {
        match self.gives {
            Gives::OpFlops => "op_flops",
            Gives::OpBytes => "op_bytes",
            Gives::PeakFlops => "peak_flops",
            Gives::PeakBytes => "peak_bytes_per_second",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let given = ColumnarValue::values_to_arrays(&args.args)?;
        let names = given[0].as_string_view();
        let with_args = |cost: fn(&str, &str) -> Option<f64>| -> Float64Array {
            let pairs = names.iter().zip(given[1].as_string_view());
            pairs.map(|(name, args)| cost(name?, args?)).collect()
        };
        let numbers: Float64Array = match self.gives {
            Gives::OpFlops => with_args(op_cost::flops),
            Gives::OpBytes => with_args(op_cost::bytes),
            Gives::PeakFlops => {
                let pairs = names.iter().zip(given[1].as_primitive::<Int64Type>());
                let flops =
                    |name: &str, bits: i64| of_device(name)?.flops(u32::try_from(bits).ok()?);
                pairs.map(|(name, bits)| flops(name?, bits?)).collect()
            }
            Gives::PeakBytes => {
                names.iter().map(|name| Some(of_device(name?)?.bytes_per_second())).collect()
            }
        };
        Ok(ColumnarValue::Array(Arc::new(numbers)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(match self.gives {
            Gives::OpFlops => documented!(
                "Floating-point operations of a call of a PyTorch operator, from the shapes among \
                 its arguments; a multiplication with its addition is two. Null where the \
                 operator or its shapes are not known.",
                "op_flops(name, args)",
                "SELECT name, sum(op_flops(name, args)) AS flops FROM spans GROUP BY name"
            ),
            Gives::OpBytes => documented!(
                "Bytes that a call of a PyTorch operator moves from and to memory at least, from \
                 the shapes among its arguments: inputs read once, outputs written once. Null \
                 where the operator, its shapes or its types are not known.",
                "op_bytes(name, args)",
                "SELECT name, sum(op_bytes(name, args)) AS bytes FROM spans GROUP BY name"
            ),
            Gives::PeakFlops => documented!(
                "Floating-point operations in a second that a device can do at most, by its name \
                 and the bits of the operands (8, 16, 32 or 64), with dense matrices; of 32 bits \
                 TF32 where there is such. Null for devices that are not known.",
                "peak_flops(device_name, bits)",
                "SELECT name, peak_flops(name, 16) FROM devices"
            ),
            Gives::PeakBytes => documented!(
                "Bytes in a second that a device can move from and to its memory at most, by its \
                 name. Null for devices that are not known.",
                "peak_bytes_per_second(device_name)",
                "SELECT name, peak_bytes_per_second(name) FROM devices"
            ),
        })
    }
}
