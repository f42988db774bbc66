//! Conversion of Python strings to UTF-8.

use pyo3::prelude::*;
use pyo3::types::PyString;
use std::borrow::Cow;

/// Returns a string as UTF-8. Lone surrogates, which UTF-8 lacks, are escaped with a backslash.
pub(crate) fn utf8<'a>(text: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, str>> {
    if let Ok(text) = text.to_str() {
        return Ok(Cow::Borrowed(text));
    }
    let bytes = text.call_method1("encode", ("utf-8", "backslashreplace"))?;
    Ok(Cow::Owned(String::from_utf8_lossy(bytes.extract()?).into_owned()))
}
