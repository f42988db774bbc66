//! The SQL functions for quantiles from sketches: `quantile`, `sketch`, `merge_sketches` and
//! `sketch_quantile`. Sketches can be merged over groups, files and ranks.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::cast::as_float64_array;
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Documentation, ScalarUDF,
    Signature, Volatility,
};
use marey_model::sketch::Sketch;

use super::documented;
use super::strict::strict_function;

pub(super) fn aggregates() -> Vec<AggregateUDF> {
    [SketchOutput::Quantile, SketchOutput::Sketch, SketchOutput::MergedSketch]
        .map(|output| {
            let signature = Signature::user_defined(Volatility::Immutable);
            AggregateUDF::new_from_impl(SketchAggregate { output, signature })
        })
        .into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SketchOutput {
    /// A quantile of values.
    Quantile,
    /// The sketch of values.
    Sketch,
    /// The merged sketch of sketches.
    MergedSketch,
}

/// An aggregate function based on a sketch.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SketchAggregate {
    output: SketchOutput,
    signature: Signature,
}

impl AggregateUDFImpl for SketchAggregate {
    fn name(&self) -> &str {
        match self.output {
            SketchOutput::Quantile => "quantile",
            SketchOutput::Sketch => "sketch",
            SketchOutput::MergedSketch => "merge_sketches",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let count = if self.output == SketchOutput::Quantile { 2 } else { 1 };
        if arguments.len() != count {
            return plan_err!(
                "{}() takes {count} arguments: {}",
                self.name(),
                self.usage().syntax_example
            );
        }
        let mut types = match (self.output, &arguments[0]) {
            (SketchOutput::MergedSketch, value) if value.is_binary() || value.is_null() => {
                vec![DataType::Binary]
            }
            (SketchOutput::MergedSketch, other) => {
                return plan_err!("{}() takes sketches, not {other}", self.name());
            }
            (_, value) if value.is_integer() || value.is_null() => vec![DataType::Int64],
            (_, other) => {
                return plan_err!("{}() takes whole numbers, not {other}: CAST them", self.name());
            }
        };
        if self.output == SketchOutput::Quantile {
            types.push(DataType::Float64);
        }
        Ok(types)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.output {
            SketchOutput::Quantile => DataType::Int64,
            SketchOutput::Sketch | SketchOutput::MergedSketch => DataType::Binary,
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return plan_err!("{}() has no DISTINCT", self.name());
        }
        let output = self.output;
        let quantile =
            if output == SketchOutput::Quantile { Some(quantile_argument(&args)?) } else { None };
        let (sketch, encoded) = (Sketch::default(), Vec::new());
        Ok(Box::new(SketchAccumulator { output, quantile, sketch, encoded }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[sketch]", args.name), DataType::Binary, true))])
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(self.usage())
    }
}

impl SketchAggregate {
    fn usage(&self) -> &'static Documentation {
        match self.output {
            SketchOutput::Quantile => documented!(
                "The `q`-quantile (0 to 1) of non-negative whole numbers, accurate to 1 part in 64.",
                "quantile(value, q)",
                "SELECT name, quantile(duration_nanos, 0.99) FROM spans GROUP BY name"
            ),
            SketchOutput::Sketch => documented!(
                "A mergeable sketch of non-negative whole numbers, as bytes: their counts in \
                 buckets of 1 part in 32.",
                "sketch(value)",
                "SELECT name, sketch(duration_nanos) FROM spans GROUP BY name"
            ),
            SketchOutput::MergedSketch => documented!(
                "One sketch of the numbers of several sketches.",
                "merge_sketches(sketch)",
                "SELECT name(name_id), merge_sketches(sketch) FROM rollups \
                 WHERE bucket_nanos = 0 GROUP BY 1"
            ),
        }
    }
}

/// Returns the second argument of `quantile`, which must be the same for all rows.
fn quantile_argument(args: &AccumulatorArgs) -> Result<f64> {
    let row = RecordBatch::new_empty(Arc::new(args.schema.clone()));
    let ColumnarValue::Scalar(scalar) = args.exprs[1].evaluate(&row)? else {
        return plan_err!("the q of quantile() must be the same for all rows");
    };
    let array = scalar.to_array()?;
    let number = as_float64_array(&array)?;
    if number.is_null(0) || !(0.0..=1.0).contains(&number.value(0)) {
        return plan_err!("the q of quantile() must be a number from 0 to 1, not {scalar}");
    }
    Ok(number.value(0))
}

#[derive(Debug)]
struct SketchAccumulator {
    output: SketchOutput,
    /// The requested quantile, or `None` if the result is the sketch.
    quantile: Option<f64>,
    sketch: Sketch,
    /// The first sketch, still encoded. It is decoded only if another one is merged into it.
    encoded: Vec<u8>,
}

impl Accumulator for SketchAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if self.output == SketchOutput::MergedSketch {
            return self.merge_batch(values);
        }
        self.decode_first()?;
        for value in values[0].as_primitive::<Int64Type>().iter().flatten() {
            let Ok(value) = u64::try_from(value) else {
                return exec_err!(
                    "{value} is negative, but quantile() and sketch() need numbers from 0"
                );
            };
            self.sketch.add(value);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for bytes in states[0].as_binary::<i32>().iter().flatten() {
            if self.encoded.is_empty() && self.sketch.buckets().is_empty() {
                self.encoded.extend_from_slice(bytes);
                continue;
            }
            self.decode_first()?;
            self.sketch.merge(&decode_sketch(bytes)?);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.encode()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Some(quantile) = self.quantile else { return Ok(self.encode()) };
        self.decode_first()?;
        Ok(ScalarValue::Int64(quantile_nanos(&self.sketch, quantile)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + size_of_val(self.sketch.buckets()) + self.encoded.capacity()
    }
}

impl SketchAccumulator {
    fn decode_first(&mut self) -> Result<()> {
        if !self.encoded.is_empty() {
            self.sketch = decode_sketch(&std::mem::take(&mut self.encoded))?;
        }
        Ok(())
    }

    /// Returns the encoded sketch, or null if it is empty.
    fn encode(&mut self) -> ScalarValue {
        let mut bytes = std::mem::take(&mut self.encoded);
        if bytes.is_empty() {
            self.sketch.encode(&mut bytes);
        }
        ScalarValue::Binary((!bytes.is_empty()).then_some(bytes))
    }
}

fn decode_sketch(bytes: &[u8]) -> Result<Sketch> {
    Sketch::decode(bytes).map_err(|error| DataFusionError::Execution(error.to_string()))
}

fn quantile_nanos(sketch: &Sketch, quantile: f64) -> Option<i64> {
    sketch.quantile_nanos(quantile).map(|nanos| i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// The function `sketch_quantile(sketch, q)`.
pub(super) fn sketch_quantile() -> ScalarUDF {
    strict_function(
        "sketch_quantile",
        vec![DataType::Binary, DataType::Float64],
        DataType::Int64,
        quantiles_of_sketches,
        documented!(
            "The `q`-quantile (0 to 1) of the numbers in a sketch, accurate to 1 part in 64.",
            "sketch_quantile(sketch, q)",
            "SELECT name(name_id), sketch_quantile(merge_sketches(sketch), 0.5) FROM rollups \
             WHERE bucket_nanos = 0 GROUP BY 1"
        ),
    )
}

fn quantiles_of_sketches(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let sketches = columns[0].as_binary::<i32>().iter();
    let quantiles = sketches.zip(columns[1].as_primitive::<Float64Type>()).map(|row| match row {
        (Some(bytes), Some(quantile)) => {
            Ok(quantile_nanos(&decode_sketch(bytes)?, check_quantile(quantile)?))
        }
        _ => Ok(None),
    });
    Ok(Arc::new(quantiles.collect::<Result<Int64Array>>()?))
}

fn check_quantile(quantile: f64) -> Result<f64> {
    if !(0.0..=1.0).contains(&quantile) {
        return exec_err!("the q of sketch_quantile() must be from 0 to 1, not {quantile}");
    }
    Ok(quantile)
}
