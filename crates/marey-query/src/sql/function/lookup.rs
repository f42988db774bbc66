//! The SQL functions that map an id to a value: `name(name_id)`, `path(context_id)`,
//! `pid(process_id)` and so on. The optimizer rules in `sql/rule` delay these calls as far as
//! possible.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::documented;
use crate::sql::lookup::{Lookup, Lookups};

/// The SQL function for one [`Lookup`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) struct LookupFunction {
    pub(in crate::sql) lookup: Lookup,
    lookups: Arc<Lookups>,
    result: LookupResult,
    signature: Signature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LookupResult {
    Value,
    /// The first id that has the same value. An optimizer rule groups by this id instead of the
    /// text.
    FirstId,
}

pub(in crate::sql) fn functions(lookups: &Arc<Lookups>) -> Vec<ScalarUDF> {
    let function = |lookup| LookupFunction::new(lookup, lookups, LookupResult::Value).into();
    Lookup::ALL.map(function).into()
}

impl LookupFunction {
    fn new(lookup: Lookup, lookups: &Arc<Lookups>, result: LookupResult) -> Self {
        // The function is immutable, so calls with literal arguments are evaluated once.
        let signature = Signature::user_defined(Volatility::Immutable);
        Self { lookup, lookups: Arc::clone(lookups), result, signature }
    }

    /// Returns the function that maps an id to the first id with the same value.
    pub(in crate::sql) fn first_id(&self) -> ScalarUDF {
        Self::new(self.lookup, &self.lookups, LookupResult::FirstId).into()
    }

    /// Returns the implementation behind a function, if it is a lookup of values.
    pub(in crate::sql) fn from_udf(function: &ScalarUDF) -> Option<&Self> {
        let inner: &dyn Any = function.inner().as_ref();
        inner.downcast_ref().filter(|function: &&Self| function.result == LookupResult::Value)
    }

    pub(in crate::sql) fn returns_text(&self) -> bool {
        self.lookup.data_type() == DataType::Utf8View
    }

    /// The number of ids, which start at 0.
    pub(in crate::sql) fn count(&self) -> Result<usize> {
        self.lookups.count(self.lookup)
    }
}

impl ScalarUDFImpl for LookupFunction {
    fn name(&self) -> &str {
        match (self.result, self.lookup) {
            (LookupResult::FirstId, _) => "first_id_with_same_text",
            (_, Lookup::Name) => "name",
            (_, Lookup::Path) => "path",
            (_, Lookup::Kind) => "kind",
            (_, Lookup::Depth) => "depth",
            (_, Lookup::ThreadName) => "thread_name",
            (_, Lookup::ProcessOf) => "process_of",
            (_, Lookup::Pid) => "pid",
            (_, Lookup::Rank) => "rank",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Null] => Ok(vec![DataType::UInt32]),
            [integer] if integer.is_integer() => Ok(vec![integer.clone()]),
            [other] => plan_err!("{}() needs an id, not {other}", self.name()),
            _ => plan_err!("{}() takes one id", self.name()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.result {
            LookupResult::Value => self.lookup.data_type(),
            LookupResult::FirstId => DataType::UInt32,
        })
    }

    /// The result is null for a null argument. Unknown ids also give null.
    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let ids = ColumnarValue::values_to_arrays(&args.args)?.swap_remove(0);
        let values = match self.result {
            LookupResult::Value => self.lookups.values(self.lookup, &ids)?,
            LookupResult::FirstId => self.lookups.first_ids_with_same_value(self.lookup, &ids)?,
        };
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(values))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(match self.lookup {
            Lookup::Name => documented!(
                "The name with an id.",
                "name(name_id)",
                "SELECT name(name_id), count(*) FROM raw.spans GROUP BY 1"
            ),
            Lookup::Path => documented!(
                "The names of a context's ancestors and its own, separated by `/`; empty for the \
                 root.",
                "path(context_id)",
                "SELECT path(context_id), sum(duration_nanos) FROM raw.spans GROUP BY 1"
            ),
            Lookup::Kind => documented!(
                "The kind of a context: root, scope, state, module, operator, frame, step or \
                 runtime.",
                "kind(context_id)",
                "SELECT kind(context_id), count(*) FROM raw.spans GROUP BY 1"
            ),
            Lookup::Depth => documented!(
                "The number of contexts from the root (not counted) to a context.",
                "depth(context_id)",
                "SELECT max(depth(context_id)) FROM raw.spans"
            ),
            Lookup::ThreadName => documented!(
                "The name of a thread; may be empty.",
                "thread_name(thread_id)",
                "SELECT thread_name(thread_id), count(*) FROM raw.spans GROUP BY 1"
            ),
            Lookup::ProcessOf => documented!(
                "The id of a thread's process, as in processes.",
                "process_of(thread_id)",
                "SELECT process_of(thread_id), count(*) FROM raw.spans GROUP BY 1"
            ),
            Lookup::Pid => documented!(
                "The operating system's id of a process.",
                "pid(process_id)",
                "SELECT pid(process_id), max(number) FROM raw.steps GROUP BY 1"
            ),
            Lookup::Rank => documented!(
                "The rank of a process in a distributed job; null if it has none.",
                "rank(process_id)",
                "SELECT rank(process_id), avg(duration_nanos) FROM raw.steps GROUP BY 1"
            ),
        })
    }
}
