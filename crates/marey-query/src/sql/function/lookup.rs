//! `name(name_id)` and its kin: from ids to what they stand for.

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

/// A column by id, as a function of the id.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) struct LookupFunction {
    pub(in crate::sql) lookup: Lookup,
    lookups: Arc<Lookups>,
    gives: Gives,
    signature: Signature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Gives {
    Value,
    /// The first id with the same value, which grouping by texts is made to use.
    FirstId,
}

pub(in crate::sql) fn all(lookups: &Arc<Lookups>) -> Vec<ScalarUDF> {
    Lookup::ALL.map(|lookup| LookupFunction::new(lookup, lookups, Gives::Value).into()).into()
}

impl LookupFunction {
    fn new(lookup: Lookup, lookups: &Arc<Lookups>, gives: Gives) -> Self {
        // Also once for every value of a literal.
        let signature = Signature::user_defined(Volatility::Immutable);
        Self { lookup, lookups: Arc::clone(lookups), gives, signature }
    }

    /// What to group by in place of the text.
    pub(in crate::sql) fn first_id(&self) -> ScalarUDF {
        Self::new(self.lookup, &self.lookups, Gives::FirstId).into()
    }

    /// The function behind an interface of `DataFusion`'s, if it is one of these that gives values.
    pub(in crate::sql) fn of(function: &ScalarUDF) -> Option<&Self> {
        let inner: &dyn Any = function.inner().as_ref();
        inner.downcast_ref().filter(|function: &&Self| function.gives == Gives::Value)
    }

    pub(in crate::sql) fn gives_text(&self) -> bool {
        self.lookup.data_type() == DataType::Utf8View
    }

    /// How many ids there are, from 0.
    pub(in crate::sql) fn count(&self) -> Result<usize> {
        self.lookups.count(self.lookup)
    }
}

impl ScalarUDFImpl for LookupFunction {
    fn name(&self) -> &str {
        match (self.gives, self.lookup) {
            (Gives::FirstId, _) => "first_id_with_same_text",
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

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [DataType::Null] => Ok(vec![DataType::UInt32]),
            [integer] if integer.is_integer() => Ok(vec![integer.clone()]),
            [other] => plan_err!("{}() needs an id, not {other}", self.name()),
            _ => plan_err!("{}() takes one id", self.name()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.gives {
            Gives::Value => self.lookup.data_type(),
            Gives::FirstId => DataType::UInt32,
        })
    }

    /// Null for null; and for an id that is not there.
    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let ids = ColumnarValue::values_to_arrays(&args.args)?.swap_remove(0);
        let found = match self.gives {
            Gives::Value => self.lookups.values(self.lookup, &ids)?,
            Gives::FirstId => self.lookups.first_with_same(self.lookup, &ids)?,
        };
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?));
        }
        Ok(ColumnarValue::Array(found))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(match self.lookup {
            Lookup::Name => documented!(
                "The text behind an id of a name.",
                "name(name_id)",
                "SELECT name(name_id), count(*) FROM raw.spans GROUP BY 1"
            ),
            Lookup::Path => documented!(
                "The names around a context and its own, separated by `/`; empty for the root.",
                "path(context_id)",
                "SELECT path(context_id), sum(duration_nanos) FROM raw.spans GROUP BY 1"
            ),
            Lookup::Kind => documented!(
                "What a context is: root, scope, state, module, operator, frame, step or runtime.",
                "kind(context_id)",
                "SELECT kind(context_id), count(*) FROM raw.spans GROUP BY 1"
            ),
            Lookup::Depth => documented!(
                "Contexts between a context and the root, itself included.",
                "depth(context_id)",
                "SELECT max(depth(context_id)) FROM raw.spans"
            ),
            Lookup::ThreadName => documented!(
                "Name of a thread; may be empty.",
                "thread_name(thread_id)",
                "SELECT thread_name(thread_id), count(*) FROM raw.spans GROUP BY 1"
            ),
            Lookup::ProcessOf => documented!(
                "The process of a thread, in processes.",
                "process_of(thread_id)",
                "SELECT process_of(thread_id), count(*) FROM raw.spans GROUP BY 1"
            ),
            Lookup::Pid => documented!(
                "A process's id in the system.",
                "pid(process_id)",
                "SELECT pid(process_id), max(number) FROM raw.steps GROUP BY 1"
            ),
            Lookup::Rank => documented!(
                "A process's rank in a distributed job, if it has one.",
                "rank(process_id)",
                "SELECT rank(process_id), avg(duration_nanos) FROM raw.steps GROUP BY 1"
            ),
        })
    }
}
