//! Paths of Python frames, `file:line@function`, with the line that is executing.
//!
//! Walking is a chase over a few pointers a frame. What it finds, pairs of code object and
//! instruction, is compared with the stack seen last on this thread: as far as they agree the node
//! is known, and only the rest costs a look-up. A pair is turned into text once in the process's
//! life.
//!
//! A thread that let go of the GIL, as most do for a launch, stands still as far as Python goes: its
//! frames are walked as they are. It asks for the GIL only where a frame has no name yet.
//!
//! Where the interpreter keeps its frames differs by version: [`layout`] knows, and
//! [`enable_frames`] checks its walk against the documented one before it is trusted. On an
//! interpreter that is not known the documented walk is used, which is slower, and needs the GIL: there
//! threads without it are at the root, rather than wait for it at each launch.

mod documented;
mod layout;
mod names;

use crate::library::table;
use crate::thread::{self, Thread};
use layout::Layout;
use names::HIDDEN;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// A code object and the offset of its executing instruction in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Position {
    code: *mut PyObject,
    offset: u32,
}

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

/// What a thread saw last.
#[derive(Default)]
struct Seen {
    /// Number of the tree that the nodes belong to.
    generation: u64,
    /// Outermost first, each with its node.
    stack: Vec<(Position, u32)>,
    /// Innermost first; kept for its memory.
    walked: Vec<Position>,
    /// Numbers of names that will stay. The thread's own: a lock that threads without the GIL take
    /// might be taken while another thread forks, and would be so in the child for ever.
    names: HashMap<Position, u32>,
}

thread_local! {
    static SEEN: RefCell<Seen> = RefCell::default();
}

/// Makes libmarey ask for Python frames, once; chooses how they are walked.
#[pyfunction]
pub(crate) fn enable_frames(py: Python<'_>) -> PyResult<()> {
    if MODE.load(Ordering::Relaxed) != UNSET {
        return Ok(());
    }
    let layout = Layout::of(&py.version_info());
    let is_right = layout.is_some_and(|layout| agrees_with_documentation(py, layout));
    if is_right {
        thread::allow_without_gil(py)?;
    }
    MODE.store(if is_right { FAST } else { DOCUMENTED }, Ordering::Relaxed);
    (table().set_frame_provider)(leaf);
    Ok(())
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
pub(crate) fn frames_are_fast(py: Python<'_>) -> PyResult<bool> {
    enable_frames(py)?;
    Ok(MODE.load(Ordering::Relaxed) == FAST)
}

/// Python frames on the caller's stack.
pub(crate) fn stack_depth(py: Python<'_>) -> PyResult<u32> {
    enable_frames(py)?;
    let mut walked = Vec::new();
    walk(&Thread::attached(py), &mut walked);
    Ok(walked.len() as u32)
}

fn agrees_with_documentation(py: Python<'_>, layout: Layout) -> bool {
    let (mut fast, mut documented) = (Vec::new(), Vec::new());
    let thread = Thread::attached(py);
    // SAFETY: the thread's state. The layout is the one of this version; `is_code` refuses pointers
    // that are no code objects.
    unsafe { layout.walk(thread.state(), &mut fast, MAX_DEPTH, |code| is_code(py, code)) };
    documented::walk(py, &mut documented, MAX_DEPTH);
    !fast.is_empty() && fast == documented
}

fn is_code(py: Python<'_>, candidate: *mut PyObject) -> bool {
    // SAFETY: the layout says that this is an object; its type is read only if it is not null.
    !candidate.is_null() && unsafe { ffi::Py_TYPE(candidate) } == documented::code_type(py)
}

fn walk(thread: &Thread, walked: &mut Vec<Position>) {
    walked.clear();
    match (MODE.load(Ordering::Relaxed), Layout::known()) {
        // SAFETY: the state stays with `thread`, and the layout was checked on this interpreter.
        (FAST, Some(layout)) => unsafe { layout.walk(thread.state(), walked, MAX_DEPTH, |_| true) },
        _ => documented::walk(thread.call().py(), walked, MAX_DEPTH),
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
    let Some(thread) = Thread::current() else { return root };
    let found = SEEN.try_with(|seen| {
        // Taken while it runs: the look-up of a new frame calls into Python, which may come back.
        let mut seen = seen.try_borrow_mut().ok()?;
        Some(seen.leaf(root, generation, &thread))
    });
    found.ok().flatten().unwrap_or(root)
}

impl Seen {
    fn leaf(&mut self, root: u32, generation: u64, thread: &Thread) -> u32 {
        if self.generation != generation {
            self.generation = generation;
            self.stack.clear();
        }
        walk(thread, &mut self.walked);
        let same = self
            .stack
            .iter()
            .zip(self.walked.iter().rev())
            .take_while(|((seen, _), now)| seen == *now)
            .count();
        self.stack.truncate(same);
        let mut node = self.stack.last().map_or(root, |&(_, node)| node);
        let mut call = None;
        for at in same..self.walked.len() {
            let position = self.walked[self.walked.len() - 1 - at];
            let name = self.names.get(&position).copied().unwrap_or_else(|| {
                let py = call.get_or_insert_with(|| thread.call()).py();
                let name = names::of(py, position);
                if name.stays {
                    self.names.insert(position, name.number);
                }
                name.number
            });
            if name != HIDDEN {
                node = (table().frame_child)(node, name);
            }
            self.stack.push((position, node));
        }
        node
    }
}
