//! The SQL functions for rooflines: `op_flops`, `op_bytes` and `dtype_bytes` return costs of
//! operators, `peak_flops` and `peak_bytes_per_second` return peak rates of devices.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use marey_model::op_cost;

use super::documented;
use crate::peaks::device_peaks;

pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let figures = [
        RooflineFigure::OpFlops,
        RooflineFigure::OpBytes,
        RooflineFigure::DtypeBytes,
        RooflineFigure::PeakFlops,
        RooflineFigure::PeakBytes,
    ];
    figures.into_iter().map(|figure| CostFunction { figure, signature: figure.signature() }.into())
}

/// The figure that a function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RooflineFigure {
    OpFlops,
    OpBytes,
    DtypeBytes,
    PeakFlops,
    PeakBytes,
}

impl RooflineFigure {
    fn signature(self) -> Signature {
        let types = match self {
            Self::OpFlops | Self::OpBytes => vec![DataType::Utf8View; 2],
            Self::PeakFlops => vec![DataType::Utf8View, DataType::Int64],
            Self::DtypeBytes | Self::PeakBytes => vec![DataType::Utf8View],
        };
        Signature::exact(types, Volatility::Immutable)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CostFunction {
    figure: RooflineFigure,
    signature: Signature,
}

impl ScalarUDFImpl for CostFunction {
    fn name(&self) -> &'static str {
        match self.figure {
            RooflineFigure::OpFlops => "op_flops",
            RooflineFigure::OpBytes => "op_bytes",
            RooflineFigure::DtypeBytes => "dtype_bytes",
            RooflineFigure::PeakFlops => "peak_flops",
            RooflineFigure::PeakBytes => "peak_bytes_per_second",
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
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let names = columns[0].as_string_view();
        let costs = |cost: fn(&str, &str) -> Option<f64>| -> Float64Array {
            let pairs = names.iter().zip(columns[1].as_string_view());
            pairs.map(|(name, args)| cost(name?, args?)).collect()
        };
        let numbers: Float64Array = match self.figure {
            RooflineFigure::OpFlops => costs(op_cost::flops),
            RooflineFigure::OpBytes => costs(op_cost::bytes),
            RooflineFigure::DtypeBytes => {
                names.iter().map(|name| op_cost::bytes_per_element(name?)).collect()
            }
            RooflineFigure::PeakFlops => {
                let pairs = names.iter().zip(columns[1].as_primitive::<Int64Type>());
                let flops =
                    |name: &str, bits: i64| device_peaks(name)?.flops(u32::try_from(bits).ok()?);
                pairs.map(|(name, bits)| flops(name?, bits?)).collect()
            }
            RooflineFigure::PeakBytes => {
                names.iter().map(|name| Some(device_peaks(name?)?.bytes_per_second())).collect()
            }
        };
        Ok(ColumnarValue::Array(Arc::new(numbers)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(match self.figure {
            RooflineFigure::OpFlops => documented!(
                "Floating-point operations of a call of a PyTorch operator, from the shapes among \
                 its arguments; a fused multiply-add counts as two. Null if the operator or its \
                 shapes are unknown.",
                "op_flops(name, args)",
                "SELECT name, sum(op_flops(name, args)) AS flops FROM spans GROUP BY name"
            ),
            RooflineFigure::OpBytes => documented!(
                "Bytes that a call of a PyTorch operator moves to and from memory at least, from \
                 the shapes among its arguments: each input read once, each output written once. \
                 Null if the operator, its shapes or its types are unknown.",
                "op_bytes(name, args)",
                "SELECT name, sum(op_bytes(name, args)) AS bytes FROM spans GROUP BY name"
            ),
            RooflineFigure::DtypeBytes => documented!(
                "Bytes of an element, by the name of its type in C++, PyTorch or NCCL, such as \
                 `c10::Half`, `torch.float16` or `Half`. Null for unknown types.",
                "dtype_bytes(name)",
                "SELECT DISTINCT dtype, dtype_bytes(dtype) FROM collectives"
            ),
            RooflineFigure::PeakFlops => documented!(
                "Peak of a device in floating-point operations per second for dense matrices, by \
                 its name and the width of the operands in bits (8, 16, 32 or 64); TF32 for 32 \
                 bits where supported. Null for unknown devices.",
                "peak_flops(device_name, bits)",
                "SELECT name, peak_flops(name, 16) FROM devices"
            ),
            RooflineFigure::PeakBytes => documented!(
                "Peak memory bandwidth of a device in bytes per second, by its name. Null for \
                 unknown devices.",
                "peak_bytes_per_second(device_name)",
                "SELECT name, peak_bytes_per_second(name) FROM devices"
            ),
        })
    }
}
