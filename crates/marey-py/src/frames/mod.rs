//! Paths of Python frames, `file:line@function`, with the line that is executing.
//!
//! Walking is a chase over a few pointers a frame. What it finds, pairs of code object and
//! instruction, is compared with the stack seen last on this thread: as far as they agree the node
//! is known, and only the rest costs a look-up. A pair is turned into text once in the process's
//! life.
//!
//! Where the interpreter keeps its frames differs by version: [`layout`] knows, and
//! [`enable_frames`] checks its walk against the documented one before it is trusted. On an
//! interpreter that is not known the documented walk is used, which is slower.

mod documented;
mod layout;

use crate::library::{self, table};
use layout::Layout;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// A code object and the offset of its executing instruction in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Position {
    code: *mut PyObject,
    offset: u32,
}

/// Most code objects that are kept alive for their names; frames of further ones are `<lost>`.
const MAX_CODES: usize = 1 << 18;
/// Number in place of a name for frames of marey's own package, which are left out of paths.
const HIDDEN: u32 = 0;
/// Name of a frame whose name is not kept.
const LOST_FRAME: &str = "<lost>";

/// Frames deeper than this, counted from the innermost, are left out.
const MAX_DEPTH: usize = 4096;

/// How frames are walked: nothing set up yet, by layout, or as documented.
static MODE: AtomicU8 = AtomicU8::new(UNSET);
const UNSET: u8 = 0;
const FAST: u8 = 1;
const DOCUMENTED: u8 = 2;

/// The code object whose frame, and all those around it, are marey's own: the runner of the program.
/// A strong reference, or null.
static BASE: AtomicPtr<PyObject> = AtomicPtr::new(std::ptr::null_mut());

/// `PyGILState_Check`, which is exported but not in the stable ABI.
static GIL_CHECK: AtomicUsize = AtomicUsize::new(0);

/// What a thread saw last.
#[derive(Default)]
struct Seen {
    /// Number of the tree that the nodes belong to.
    generation: u64,
    /// Outermost first, each with its node.
    stack: Vec<(Position, u32)>,
    /// Innermost first; kept for its memory.
    walked: Vec<Position>,
}

thread_local! {
    static SEEN: RefCell<Seen> = const { RefCell::new(Seen { generation: 0, stack: Vec::new(), walked: Vec::new() }) };
}

/// Makes libmarey ask for Python frames, once; chooses how they are walked.
#[pyfunction]
pub(crate) fn enable_frames(py: Python<'_>) {
    if MODE.load(Ordering::Relaxed) != UNSET {
        return;
    }
    let layout = Layout::of(&py.version_info());
    let is_right = layout.is_some_and(|layout| agrees_with_documentation(py, layout));
    MODE.store(if is_right { FAST } else { DOCUMENTED }, Ordering::Relaxed);
    // SAFETY: a C string; the default handle searches what is loaded.
    let check = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"PyGILState_Check".as_ptr()) };
    GIL_CHECK.store(check as usize, Ordering::Relaxed);
    (table().set_frame_provider)(leaf);
}

/// Leaves the frame of this code object, and those around it, out of every path.
#[pyfunction]
pub(crate) fn set_frame_base(code: Bound<'_, PyAny>) -> PyResult<()> {
    if !code.is_instance(&code.py().import("types")?.getattr("CodeType")?)? {
        return Err(PyTypeError::new_err("a code object is needed"));
    }
    // An older base is leaked: another thread may be comparing with it.
    BASE.store(code.into_ptr(), Ordering::Relaxed);
    Ok(())
}

/// Whether frames are walked by the interpreter's layout rather than its documented functions.
#[pyfunction]
pub(crate) fn frames_are_fast(py: Python<'_>) -> bool {
    enable_frames(py);
    MODE.load(Ordering::Relaxed) == FAST
}

/// Python frames on the caller's stack.
pub(crate) fn stack_depth(py: Python<'_>) -> u32 {
    enable_frames(py);
    let mut walked = Vec::new();
    walk(&mut walked);
    walked.len() as u32
}

fn agrees_with_documentation(py: Python<'_>, layout: Layout) -> bool {
    let (mut fast, mut documented) = (Vec::new(), Vec::new());
    // SAFETY: the GIL is held. The layout is the one of this version; `check` refuses pointers that
    // are no code objects.
    unsafe { layout.walk(&mut fast, MAX_DEPTH, |code| is_code(py, code)) };
    documented::walk(py, &mut documented, MAX_DEPTH);
    !fast.is_empty() && fast == documented
}

fn is_code(py: Python<'_>, candidate: *mut PyObject) -> bool {
    // SAFETY: the layout says that this is an object; its type is read only if it is not null.
    !candidate.is_null() && unsafe { ffi::Py_TYPE(candidate) } == documented::code_type(py)
}

fn walk(walked: &mut Vec<Position>) {
    walked.clear();
    // SAFETY: every caller holds the GIL.
    let py = unsafe { Python::assume_attached() };
    match (MODE.load(Ordering::Relaxed), Layout::known()) {
        // SAFETY: the GIL is held, and the layout was checked on this interpreter.
        (FAST, Some(layout)) => unsafe { layout.walk(walked, MAX_DEPTH, |_| true) },
        _ => documented::walk(py, walked, MAX_DEPTH),
    }
    let base = BASE.load(Ordering::Relaxed);
    if !base.is_null()
        && let Some(at) = walked.iter().rposition(|position| position.code == base)
    {
        walked.truncate(at);
    }
}

/// The node of the innermost Python frame; the root where this thread runs no Python.
extern "C" fn leaf() -> u32 {
    let mut generation = 0;
    // SAFETY: a writable number.
    let root = unsafe { (table().frame_root)(&raw mut generation) };
    if !holds_gil() {
        return root;
    }
    let found = SEEN.try_with(|seen| {
        // Taken while it runs: the look-up of a new frame calls into Python, which may come back.
        let mut seen = seen.try_borrow_mut().ok()?;
        Some(seen.leaf(root, generation))
    });
    found.ok().flatten().unwrap_or(root)
}

fn holds_gil() -> bool {
    let check = GIL_CHECK.load(Ordering::Relaxed);
    if check == 0 {
        return false;
    }
    // SAFETY: the address is that of `int PyGILState_Check(void)`.
    let check = unsafe { std::mem::transmute::<usize, extern "C" fn() -> i32>(check) };
    check() == 1
}

impl Seen {
    fn leaf(&mut self, root: u32, generation: u64) -> u32 {
        if self.generation != generation {
            self.generation = generation;
            self.stack.clear();
        }
        walk(&mut self.walked);
        let same = self
            .stack
            .iter()
            .zip(self.walked.iter().rev())
            .take_while(|((seen, _), now)| seen == *now)
            .count();
        self.stack.truncate(same);
        let mut node = self.stack.last().map_or(root, |&(_, node)| node);
        for at in same..self.walked.len() {
            let position = self.walked[self.walked.len() - 1 - at];
            let name = name_of(position);
            if name != HIDDEN {
                node = (table().frame_child)(node, name);
            }
            self.stack.push((position, node));
        }
        node
    }
}

/// Numbers of frames' names, and the code objects that they keep alive: an address must not come to
/// mean another function.
#[derive(Default)]
struct Names {
    numbers: HashMap<Position, u32>,
    codes: HashMap<*mut PyObject, Py<PyAny>>,
}

// SAFETY: the addresses are only compared; the objects behind them are `Py`, which is Send.
unsafe impl Send for Names {}

static NAMES: Mutex<Option<Names>> = Mutex::new(None);

/// Number of a frame's name.
fn name_of(position: Position) -> u32 {
    let known = |names: &Option<Names>| names.as_ref()?.numbers.get(&position).copied();
    if let Ok(names) = NAMES.lock() {
        if let Some(number) = known(&names) {
            return number;
        }
        if names.as_ref().is_some_and(|names| names.codes.len() >= MAX_CODES) {
            return intern(LOST_FRAME);
        }
    }
    // SAFETY: the GIL is held, see `leaf`. The code object is on the stack, so it is alive.
    let code = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), position.code) };
    // Not under the lock: this calls into Python, which may let another thread run.
    let number = if is_ours(&code) {
        HIDDEN
    } else {
        let text = describe(&code, position.offset);
        intern(&text.unwrap_or_else(|_| "<unknown frame>".to_owned()))
    };
    if let Ok(mut names) = NAMES.lock() {
        let names = names.get_or_insert_default();
        names.numbers.insert(position, number);
        if let Entry::Vacant(vacant) = names.codes.entry(position.code) {
            vacant.insert(code.unbind());
        }
    }
    number
}

/// Whether the code belongs to marey's package.
fn is_ours(code: &Bound<'_, PyAny>) -> bool {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| Some(library::own_path()?.parent()?.to_owned()));
    let file = code.getattr("co_filename").and_then(|file| file.extract::<PathBuf>());
    matches!((folder, file), (Some(folder), Ok(file)) if file.starts_with(folder))
}

fn intern(text: &str) -> u32 {
    // SAFETY: the text lives until the call returns.
    unsafe { (table().intern)(text.as_ptr().cast(), text.len()) }
}

fn describe(code: &Bound<'_, PyAny>, offset: u32) -> PyResult<String> {
    let file: String = code.getattr("co_filename")?.extract()?;
    let function: String = code.getattr("co_name")?.extract()?;
    let line = line_of(code, offset)?;
    Ok(format!("{file}:{line}@{function}"))
}

/// The line of an instruction: the documented table of ranges `(start, end, line)`.
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
