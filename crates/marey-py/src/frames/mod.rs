//! The frame provider: finds the context node of the calling thread's Python stack. The recorder
//! calls it in sessions whose context is Python frames.
//!
//! A frame is named `file:line@function`, with the line that is executing. A walk follows a few
//! pointers per frame and yields pairs of code object and instruction. They are compared with the
//! stack that was seen last on this thread. The nodes of the common prefix are known, and only the
//! other frames cost look-ups. Each pair is converted to text once per process.
//!
//! Most threads have released the GIL when they launch. Such a thread runs no Python, so its frames
//! do not change and can be walked. It takes the GIL only for a frame that has no name yet.
//!
//! The place of frames in memory differs by version. [`layout`] has the offsets, and
//! [`enable_frames`] compares its walk with the documented one before it trusts it. On an unknown
//! interpreter only the documented walk is used, which is slower and needs the GIL. There, threads
//! without the GIL record at the root, so that they do not wait for the GIL at each launch.

mod documented;
mod layout;
mod names;
pub(crate) mod sampling;

use crate::library::table;
use crate::thread::{self, Thread};
pub(crate) use layout::FrameLayout;
use names::HIDDEN;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// A code object and the offset of its executing instruction in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FramePosition {
    code: *mut PyObject,
    offset: u32,
}

/// The maximum number of frames of a path, counted from the innermost. Outer frames are left out.
const MAX_DEPTH: usize = 4096;

/// The way in which frames are walked: [`UNSET`], [`FAST`] (by layout) or [`DOCUMENTED`] (by attributes).
static WALK_MODE: AtomicU8 = AtomicU8::new(UNSET);
const UNSET: u8 = 0;
const FAST: u8 = 1;
const DOCUMENTED: u8 = 2;

/// The code object of marey's program runner, whose frame and all frames around it are left out. A
/// strong reference, or null.
static BASE_CODE: AtomicPtr<PyObject> = AtomicPtr::new(std::ptr::null_mut());

/// The frames that a thread saw last.
#[derive(Default)]
struct ThreadFrames {
    /// The generation of the tree that the nodes belong to.
    generation: u64,
    /// Outermost first, each with its node.
    stack: Vec<(FramePosition, u32)>,
    /// Innermost first. A buffer, kept to reuse its allocation.
    positions: Vec<FramePosition>,
    /// The ids of names that will not change. Per thread, because a lock that threads without the
    /// GIL take could be locked while another thread forks, and would then stay locked in the
    /// child.
    name_ids: HashMap<FramePosition, u32>,
}

thread_local! {
    static FRAMES: RefCell<ThreadFrames> = RefCell::default();
}

/// Registers the frame provider, once, and chooses how frames are walked.
#[pyfunction]
pub(crate) fn enable_frames(py: Python<'_>) -> PyResult<()> {
    if WALK_MODE.load(Ordering::Relaxed) != UNSET {
        return Ok(());
    }
    let layout = FrameLayout::for_version(&py.version_info());
    let is_correct = layout.is_some_and(|layout| agrees_with_documentation(py, layout));
    if is_correct {
        thread::allow_access_without_gil(py)?;
    }
    WALK_MODE.store(if is_correct { FAST } else { DOCUMENTED }, Ordering::Relaxed);
    (table().set_frame_provider)(innermost_node);
    Ok(())
}

/// Leaves the frame of this code object, and all frames around it, out of every path.
#[pyfunction]
pub(crate) fn set_frame_base(code: Bound<'_, PyAny>) -> PyResult<()> {
    if !code.is_instance(&code.py().import("types")?.getattr("CodeType")?)? {
        return Err(PyTypeError::new_err("expected a code object"));
    }
    // The older base is leaked, because another thread may be comparing with it.
    BASE_CODE.store(code.into_ptr(), Ordering::Relaxed);
    Ok(())
}

/// Whether frames are walked by the interpreter's layout rather than through documented
/// attributes.
#[pyfunction]
pub(crate) fn frames_are_fast(py: Python<'_>) -> PyResult<bool> {
    enable_frames(py)?;
    Ok(WALK_MODE.load(Ordering::Relaxed) == FAST)
}

/// Returns the number of Python frames on the caller's stack.
pub(crate) fn stack_depth(py: Python<'_>) -> PyResult<u32> {
    enable_frames(py)?;
    let mut positions = Vec::new();
    walk(&Thread::attached(py), &mut positions);
    Ok(positions.len() as u32)
}

/// Whether the walk by layout finds the same frames as the documented one.
fn agrees_with_documentation(py: Python<'_>, layout: FrameLayout) -> bool {
    let (mut fast_frames, mut documented_frames) = (Vec::new(), Vec::new());
    let thread = Thread::attached(py);
    // SAFETY: the state is the thread's, and the layout is the one of this version; `is_code`
    // rejects pointers to other objects.
    unsafe { layout.walk(thread.state(), &mut fast_frames, MAX_DEPTH, |code| is_code(py, code)) };
    documented::walk(py, &mut documented_frames, MAX_DEPTH);
    !fast_frames.is_empty() && fast_frames == documented_frames
}

fn is_code(py: Python<'_>, candidate: *mut PyObject) -> bool {
    // SAFETY: according to the layout this is an object or null; its type is read only if it is not
    // null.
    !candidate.is_null() && unsafe { ffi::Py_TYPE(candidate) } == documented::code_type(py)
}

/// Replaces `positions` by the frames of the calling thread, innermost first, without the base.
fn walk(thread: &Thread, positions: &mut Vec<FramePosition>) {
    positions.clear();
    match (WALK_MODE.load(Ordering::Relaxed), FrameLayout::detected()) {
        // SAFETY: the state is valid as long as `thread`, and the layout was checked on this
        // interpreter.
        (FAST, Some(layout)) => unsafe {
            layout.walk(thread.state(), positions, MAX_DEPTH, |_| true);
        },
        _ => documented::walk(thread.attach().py(), positions, MAX_DEPTH),
    }
    leave_out_base(positions);
}

/// Removes the frame of the base, and all frames around it.
fn leave_out_base(positions: &mut Vec<FramePosition>) {
    let base_code = BASE_CODE.load(Ordering::Relaxed);
    if !base_code.is_null()
        && let Some(index) = positions.iter().rposition(|position| position.code == base_code)
    {
        positions.truncate(index);
    }
}

/// Returns the node of the innermost Python frame, or the root if this thread runs no Python.
extern "C" fn innermost_node() -> u32 {
    let mut generation = 0;
    let root = (table().frame_root)(Some(&mut generation));
    let Some(thread) = Thread::current() else { return root };
    let node = FRAMES.try_with(|frames| {
        // Not `borrow_mut`: the look-up of a new frame calls into Python, which may come back here
        // while the outer call has the borrow.
        let mut frames = frames.try_borrow_mut().ok()?;
        Some(frames.innermost_node(root, generation, &thread))
    });
    node.ok().flatten().unwrap_or(root)
}

impl ThreadFrames {
    fn innermost_node(&mut self, root: u32, generation: u64, thread: &Thread) -> u32 {
        walk(thread, &mut self.positions);
        self.node_of_positions(root, generation, thread)
    }

    /// Returns the node of the path in `positions`, whose frames are on the stack of a thread.
    fn node_of_positions(&mut self, root: u32, generation: u64, thread: &Thread) -> u32 {
        if self.generation != generation {
            self.generation = generation;
            self.stack.clear();
        }
        let common_len = self
            .stack
            .iter()
            .zip(self.positions.iter().rev())
            .take_while(|((previous, _), current)| previous == *current)
            .count();
        self.stack.truncate(common_len);
        let mut node = self.stack.last().map_or(root, |&(_, node)| node);
        let mut attached_thread = None;
        for index in common_len..self.positions.len() {
            let position = self.positions[self.positions.len() - 1 - index];
            let name_id = self.name_ids.get(&position).copied().unwrap_or_else(|| {
                let py = attached_thread.get_or_insert_with(|| thread.attach()).py();
                let name = names::frame_name(py, position);
                if name.is_permanent {
                    self.name_ids.insert(position, name.id);
                }
                name.id
            });
            if name_id != HIDDEN {
                node = (table().frame_child)(node, name_id);
            }
            self.stack.push((position, node));
        }
        node
    }
}
