//! Merges the native and the Python frames of a thread to one stack. A native frame that runs
//! Python code is replaced by the Python frames that it runs.

use std::path::Path;

use super::symbols::NativeFunction;
use crate::Frame;

/// The function of CPython that evaluates Python frames. One call of it evaluates all frames since
/// the last entry from native code.
const EVALUATE_FUNCTION: &str = "_PyEval_EvalFrameDefault";
/// Prefix of the functions that replace it in builds with a function for each instruction.
const TAIL_CALL_PREFIX: &str = "_TAIL_CALL_";

/// Prefixes of the functions of CPython by which Python calls native functions. They are left out.
const CALL_PREFIXES: [&str; 7] =
    ["_PyEval_", "PyObject_", "_PyObject_", "method_", "cfunction_", "slot_", "_PyFunction_"];
/// Prefixes of the functions of the C library by which threads begin. They are left out.
const START_PREFIXES: [&str; 5] = ["_start", "__libc_start_", "start_thread", "clone", "__clone"];

/// A native frame.
pub(super) struct NativeFrame<'a> {
    /// The function, `None` for an address outside of all files.
    pub(super) function: Option<&'a NativeFunction>,
    /// The path of the function's file.
    pub(super) file: &'a Path,
    /// The code address of the frame.
    pub(super) address: u64,
}

impl NativeFrame<'_> {
    fn name(&self) -> Option<&str> {
        self.function?.name.as_deref()
    }

    /// Whether the function evaluates Python frames.
    fn evaluates_python(&self) -> bool {
        let is_evaluator = |name: &str| {
            let suffix = name.strip_prefix(EVALUATE_FUNCTION);
            suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('.'))
                || name.starts_with(TAIL_CALL_PREFIX)
        };
        self.name().is_some_and(is_evaluator)
    }

    fn starts_with_any(&self, prefixes: &[&str]) -> bool {
        self.name().is_some_and(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
    }

    fn to_frame(&self) -> Frame {
        let address = || format!("{:#x}", self.address);
        Frame {
            function: self.name().map_or_else(address, str::to_owned),
            file: self.file.to_string_lossy().into_owned(),
            is_native: true,
            ..Frame::default()
        }
    }
}

/// Merges the frames of a thread, both innermost first. Python frames replace the native frame that
/// evaluates them. Returns `None` if the two stacks do not match.
pub(super) fn merge(native: &[NativeFrame], python: &[Frame]) -> Option<Vec<Frame>> {
    let interpreter = native.iter().find(|frame| frame.evaluates_python()).map(|frame| frame.file);
    let mut python = python.iter();
    let mut merged: Vec<Frame> = Vec::new();
    let mut has_python_frames = false;
    for frame in native {
        if frame.evaluates_python() {
            has_python_frames = true;
            for call in python.by_ref() {
                merged.push(call.clone());
                if call.is_entry {
                    break;
                }
            }
        } else if !frame.starts_with_any(&START_PREFIXES) {
            // Functions of the interpreter between two Python calls only connect them, so they are
            // left out. Inside the innermost Python call they show what it does, such as wait for a
            // lock.
            let is_interpreter = Some(frame.file) == interpreter;
            if !is_interpreter || (!has_python_frames && !frame.starts_with_any(&CALL_PREFIXES)) {
                merged.push(frame.to_frame());
            }
        }
    }
    // The functions by which a thread begins may have no symbols, so unnamed outermost frames are
    // dropped.
    let is_named = |frame: &Frame| !frame.is_native || !frame.function.starts_with("0x");
    merged.truncate(merged.iter().rposition(is_named).map_or(0, |last| last + 1));
    python.next().is_none().then_some(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(function: &str, is_entry: bool) -> Frame {
        Frame { is_entry, ..Frame::of_python(function, "a.py", 1) }
    }

    fn merged(native: &[(&str, &str)], frames: &[Frame]) -> Option<Vec<String>> {
        let functions: Vec<NativeFunction> = native
            .iter()
            .map(|(name, _)| NativeFunction { name: Some((*name).to_owned()), file_index: 0 })
            .collect();
        let native: Vec<NativeFrame> = native
            .iter()
            .zip(&functions)
            .map(|((_, file), function)| NativeFrame {
                function: Some(function),
                file: Path::new(file),
                address: 0,
            })
            .collect();
        Some(merge(&native, frames)?.into_iter().map(|frame| frame.function).collect())
    }

    const NATIVE: [(&str, &str); 8] = [
        ("futex_wait", "libc"),
        ("lock_acquire", "python"),
        ("_PyEval_EvalFrameDefault", "python"),
        ("PyObject_Call", "python"),
        ("at::run", "torch"),
        ("_PyEval_EvalFrameDefault.cold", "python"),
        ("__libc_start_main", "libc"),
        ("0x7fc594e45249", "libc"),
    ];

    #[test]
    fn python_calls_stand_where_the_interpreter_runs_them() {
        let frames = [python("wait", false), python("hook", true), python("main", true)];
        let expected = ["futex_wait", "lock_acquire", "wait", "hook", "at::run", "main"];
        assert_eq!(merged(&NATIVE, &frames).unwrap(), expected);
    }

    #[test]
    fn stacks_that_do_not_match_are_not_merged() {
        let frames = [python("wait", true), python("hook", true), python("main", true)];
        assert_eq!(merged(&NATIVE, &frames), None);
    }
}
