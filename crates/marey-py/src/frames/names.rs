//! Makes the names of frames, `file:line@function`, and caches their interned ids by code object
//! and instruction. The cache keeps each code object alive, so that its address names it for ever.

use super::FramePosition;
use crate::library::{self, intern};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

/// Stands for the name id of a frame of marey's own package, which is left out of paths.
pub(super) const HIDDEN: u32 = 0;
/// The name of a frame whose name is not cached.
const LOST_FRAME: &str = "<lost>";
/// The maximum number of code objects that are kept alive for their names. Frames of further code
/// objects are named `<lost>`.
const MAX_CODES: usize = 1 << 18;

/// The name of a frame.
pub(super) struct FrameName {
    /// The interned name's id, or [`HIDDEN`].
    pub(super) id: u32,
    /// Whether the position will always have this name, because its code object is kept alive.
    pub(super) is_permanent: bool,
}

/// The name ids of frames, and their code objects, which are kept alive so that no address is
/// reused for another function.
#[derive(Default)]
struct FrameNames {
    ids: HashMap<FramePosition, u32>,
    codes: HashMap<*mut PyObject, Py<PyAny>>,
}

// SAFETY: the addresses are only compared, and the objects behind them are owned as `Py`, which is
// Send.
unsafe impl Send for FrameNames {}

/// Locked only with the GIL held, and never across a call that could release the GIL.
static NAMES: Mutex<Option<FrameNames>> = Mutex::new(None);

/// Returns the name of a frame that is on the caller's stack.
pub(super) fn frame_name(py: Python<'_>, position: FramePosition) -> FrameName {
    let cached = |names: &Option<FrameNames>| names.as_ref()?.ids.get(&position).copied();
    if let Ok(names) = NAMES.lock() {
        if let Some(id) = cached(&names) {
            return FrameName { id, is_permanent: true };
        }
        if names.as_ref().is_some_and(|names| names.codes.len() >= MAX_CODES) {
            return FrameName { id: intern(LOST_FRAME), is_permanent: false };
        }
    }
    // SAFETY: the code object is on the stack, so it is alive.
    let code = unsafe { Bound::from_borrowed_ptr(py, position.code) };
    // Not under the lock, because this calls into Python, which may let another thread run.
    let id = if is_marey_code(&code) {
        HIDDEN
    } else {
        let text = describe_frame(&code, position.offset);
        intern(&text.unwrap_or_else(|_| "<unknown frame>".to_owned()))
    };
    let Ok(mut names) = NAMES.lock() else { return FrameName { id, is_permanent: false } };
    let names = names.get_or_insert_default();
    names.ids.insert(position, id);
    if let Entry::Vacant(vacant) = names.codes.entry(position.code) {
        vacant.insert(code.unbind());
    }
    FrameName { id, is_permanent: true }
}

/// Whether the code belongs to marey's package.
fn is_marey_code(code: &Bound<'_, PyAny>) -> bool {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| Some(library::module_path()?.parent()?.to_owned()));
    let file = code.getattr("co_filename").and_then(|file| file.extract::<PathBuf>());
    matches!((folder, file), (Some(folder), Ok(file)) if file.starts_with(folder))
}

fn describe_frame(code: &Bound<'_, PyAny>, offset: u32) -> PyResult<String> {
    let file: String = code.getattr("co_filename")?.extract()?;
    let function: String = code.getattr("co_name")?.extract()?;
    let line = line_of(code, offset)?;
    Ok(format!("{file}:{line}@{function}"))
}

/// Returns the line of an instruction, from the ranges `(start, end, line)` of `co_lines`.
fn line_of(code: &Bound<'_, PyAny>, offset: u32) -> PyResult<u32> {
    for range in code.call_method0("co_lines")?.try_iter()? {
        let (start, end, line): (u32, u32, Option<u32>) = range?.extract()?;
        if (start..end).contains(&offset)
            && let Some(line) = line
        {
            return Ok(line);
        }
    }
    code.getattr("co_firstlineno")?.extract()
}
