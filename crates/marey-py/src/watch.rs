//! Records the values of watched variables, and answers the requests for watches that come from
//! other processes (`marey watch`).

use crate::library::{intern, table};
use crate::metrics::MetricInput;
use marey_model::endpoint::MAX_REQUEST_BYTES;
use marey_record::table::{LineArg, VariableArg};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

/// Records the values of watched variables for trace sessions. Each variable has its name, the name
/// of its type, and its value. `os_id` is the thread's id in the operating system.
#[pyfunction]
#[pyo3(signature = (file, function, line, os_id, thread_name, variables, /))]
#[expect(clippy::needless_pass_by_value, reason = "what PyO3 extracts from an argument is owned")]
pub(crate) fn record_variables(
    py: Python<'_>,
    file: &str,
    function: &str,
    line: u32,
    os_id: u64,
    thread_name: &str,
    variables: Vec<(String, String, MetricInput)>,
) {
    // Recording takes a lock, so other threads may run meanwhile.
    py.detach(|| {
        let args: Vec<_> = variables
            .iter()
            .map(|(name, value_type, value)| VariableArg {
                value: value.as_argument(intern(name)),
                value_type: intern(value_type),
            })
            .collect();
        let (thread_name, file, function) = (intern(thread_name), intern(file), intern(function));
        let (variables, len) = (args.as_ptr(), args.len());
        let line = LineArg { os_id, thread_name, file, function, line, variables, len };
        // SAFETY: the line, the list and the texts live until the call returns.
        unsafe { (table().record_variables)(Some(&line)) };
    });
}

/// Answers the requests from other processes by `marey.watching.answer`. Errors of a request become
/// its answer. Raises an exception that is for the program, such as `KeyboardInterrupt`.
pub(crate) fn answer_requests(py: Python<'_>) -> PyResult<()> {
    while let Some(request) = next_request() {
        let answer = py
            .import("marey.watching")
            .and_then(|module| module.call_method1("answer", (request,))?.extract::<String>());
        let (answer, interruption) = match answer {
            Ok(text) => (Ok(text), None),
            Err(error) if error.is_instance_of::<PyException>(py) => {
                (Err(error.value(py).to_string()), None)
            }
            Err(error) => (Err("it was interrupted".to_owned()), Some(error)),
        };
        let (is_error, text) = (answer.is_err(), answer.unwrap_or_else(|message| message));
        // SAFETY: the text lives until the call returns.
        unsafe { (table().answer_request)(is_error, text.as_ptr().cast(), text.len()) };
        if let Some(interruption) = interruption {
            return Err(interruption);
        }
    }
    Ok(())
}

fn next_request() -> Option<String> {
    let mut buffer = vec![0; MAX_REQUEST_BYTES];
    // SAFETY: a writable buffer of this length.
    let len = unsafe { (table().next_request)(buffer.as_mut_ptr().cast(), buffer.len()) };
    if len == 0 {
        return None;
    }
    // A request fits, because the endpoint refuses one that is longer than the buffer.
    buffer.truncate(len);
    String::from_utf8(buffer).ok()
}
