//! Quantiles through sketches, which merge over groups, files and ranks.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::cast::as_float64_array;
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Documentation, Signature,
    Volatility,
};
use marey_model::sketch::Sketch;

use super::documented;

pub(super) fn aggregates() -> Vec<AggregateUDF> {
    [
        (Takes::Values, Gives::Quantile),
        (Takes::Values, Gives::Sketch),
        (Takes::Sketches, Gives::Quantile),
        (Takes::Sketches, Gives::Sketch),
    ]
    .map(|(takes, gives)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::new_from_impl(Sketched { takes, gives, signature })
    })
    .into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Takes {
    Values,
    Sketches,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Gives {
    Quantile,
    Sketch,
}

/// An aggregate that is computed in a sketch.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sketched {
    takes: Takes,
    gives: Gives,
    signature: Signature,
}

impl AggregateUDFImpl for Sketched {
    fn name(&self) -> &str {
        match (self.takes, self.gives) {
            (Takes::Values, Gives::Quantile) => "quantile",
            (Takes::Values, Gives::Sketch) => "sketch",
            (Takes::Sketches, Gives::Quantile) => "sketch_quantile",
            (Takes::Sketches, Gives::Sketch) => "merge_sketches",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let count = if self.gives == Gives::Quantile { 2 } else { 1 };
        if given.len() != count {
            return plan_err!(
                "{}() takes {count} arguments: {}",
                self.name(),
                self.usage().syntax_example
            );
        }
        let mut types = match (self.takes, &given[0]) {
            (Takes::Values, value) if value.is_integer() || value.is_null() => {
                vec![DataType::Int64]
            }
            (Takes::Values, other) => {
                return plan_err!("{}() is of whole numbers, not {other}: CAST them", self.name());
            }
            (Takes::Sketches, value) if value.is_binary() || value.is_null() => {
                vec![DataType::Binary]
            }
            (Takes::Sketches, other) => {
                return plan_err!("{}() is of sketches, not {other}", self.name());
            }
        };
        if self.gives == Gives::Quantile {
            types.push(DataType::Float64);
        }
        Ok(types)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.gives {
            Gives::Quantile => DataType::Int64,
            Gives::Sketch => DataType::Binary,
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return plan_err!("{}() has no DISTINCT", self.name());
        }
        let quantile = match self.gives {
            Gives::Quantile => Some(quantile(&args)?),
            Gives::Sketch => None,
        };
        Ok(Box::new(Sketching { takes: self.takes, quantile, sketch: Sketch::default() }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[sketch]", args.name), DataType::Binary, true))])
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(self.usage())
    }
}

impl Sketched {
    fn usage(&self) -> &'static Documentation {
        match (self.takes, self.gives) {
            (Takes::Values, Gives::Quantile) => documented!(
                "The `q`-quantile (0 to 1) of whole numbers that are not negative, to 1 part \
                 in 64.",
                "quantile(value, q)",
                "SELECT name, quantile(duration_nanos, 0.99) FROM spans GROUP BY name"
            ),
            (Takes::Values, Gives::Sketch) => documented!(
                "Counts of whole numbers that are not negative in buckets of 1 part in 32, as \
                 bytes that merge.",
                "sketch(value)",
                "SELECT name, sketch(duration_nanos) FROM spans GROUP BY name"
            ),
            (Takes::Sketches, Gives::Quantile) => documented!(
                "The `q`-quantile (0 to 1) of the numbers behind sketches, to 1 part in 64.",
                "sketch_quantile(sketch, q)",
                "SELECT name(name_id), sketch_quantile(sketch, 0.5) FROM rollups \
                 WHERE bucket_nanos = 0 GROUP BY 1"
            ),
            (Takes::Sketches, Gives::Sketch) => documented!(
                "One sketch of the numbers behind several.",
                "merge_sketches(sketch)",
                "SELECT name(name_id), merge_sketches(sketch) FROM rollups \
                 WHERE bucket_nanos = 0 GROUP BY 1"
            ),
        }
    }
}

/// The second argument, which is the same for all rows.
fn quantile(args: &AccumulatorArgs) -> Result<f64> {
    let row = RecordBatch::new_empty(Arc::new(args.schema.clone()));
    let ColumnarValue::Scalar(scalar) = args.exprs[1].evaluate(&row)? else {
        return plan_err!("a quantile is one number for all rows");
    };
    let array = scalar.to_array()?;
    let number = as_float64_array(&array)?;
    if number.is_null(0) || !(0.0..=1.0).contains(&number.value(0)) {
        return plan_err!("a quantile is a number from 0 to 1, not {scalar}");
    }
    Ok(number.value(0))
}

#[derive(Debug)]
struct Sketching {
    takes: Takes,
    /// What is asked for; else it is the sketch.
    quantile: Option<f64>,
    sketch: Sketch,
}

impl Accumulator for Sketching {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if self.takes == Takes::Sketches {
            return self.merge_batch(values);
        }
        for value in values[0].as_primitive::<Int64Type>().iter().flatten() {
            let Ok(value) = u64::try_from(value) else {
                return exec_err!("a quantile is of numbers that are not negative, as {value} is");
            };
            self.sketch.add(value);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for bytes in states[0].as_binary::<i32>().iter().flatten() {
            let sketch = Sketch::decode(bytes)
                .map_err(|error| DataFusionError::Execution(error.to_string()))?;
            self.sketch.merge(&sketch);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.encoded()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Some(quantile) = self.quantile else { return Ok(self.encoded()) };
        let nanos = self.sketch.quantile_nanos(quantile);
        Ok(ScalarValue::Int64(nanos.map(|nanos| i64::try_from(nanos).unwrap_or(i64::MAX))))
    }

    fn size(&self) -> usize {
        size_of_val(self) + size_of_val(self.sketch.buckets())
    }
}

impl Sketching {
    /// Null of no numbers.
    fn encoded(&self) -> ScalarValue {
        let mut bytes = Vec::new();
        self.sketch.encode(&mut bytes);
        ScalarValue::Binary((!bytes.is_empty()).then_some(bytes))
    }
}
