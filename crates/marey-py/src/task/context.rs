//! Reads the current `contextvars` context of a thread, and the value of a variable in it, from the
//! interpreter's memory. This tells whether code runs in a task, and which scope the task is in.
//!
//! Two words show whether code runs in an entered context: the thread state's pointer to the
//! context, and the context's flag. The import of the module determines their offsets: it enters a
//! context and searches for its address.
//!
//! Only the thread that has entered a context changes it, and its variables are in a persistent map
//! (`Python/hamt.c`) whose nodes are immutable. So a thread without the GIL may read its own
//! context. [`ContextVariable::probe`] compares a direct read with the value that it has set before
//! direct reads are trusted.

use crate::frames::FrameLayout;
use pyo3::ffi::{self, PyObject, PyThreadState, PyTypeObject};
use pyo3::prelude::*;
use pyo3::types::PyCFunction;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Offset of `PyThreadState.context`, 0 while it is unknown.
static CONTEXT_OFFSET: AtomicUsize = AtomicUsize::new(0);

/// Whether `threading` runs each thread in an entered context, as CPython does from 3.14 on.
static DO_THREADS_ENTER_CONTEXTS: AtomicBool = AtomicBool::new(false);

// The structures of CPython 3.10 to 3.15 (`pycore_context.h`, `pycore_hamt.h`).

const HEADER_BYTES: usize = size_of::<PyObject>();
/// `PyContext.ctx_prev`: the context that the thread was in when it entered this one.
const PREVIOUS_OFFSET: usize = HEADER_BYTES;
/// `PyContext.ctx_vars`, after the previous context.
const VARS_OFFSET: usize = HEADER_BYTES + 8;
/// `PyContext.ctx_entered`, after the variables and the weak references.
const ENTERED_OFFSET: usize = VARS_OFFSET + 16;
/// `PyHamtObject.h_root`.
const ROOT_OFFSET: usize = HEADER_BYTES;
/// `PyHamtNode_Bitmap.b_bitmap`, after the number of entries.
const BITMAP_OFFSET: usize = HEADER_BYTES + 8;
/// `PyHamtNode_Bitmap.b_array`: pairs of a key and its value, or of null and a node.
const PAIRS_OFFSET: usize = BITMAP_OFFSET + 8;
/// `PyHamtNode_Array.a_array`.
const CHILDREN_OFFSET: usize = HEADER_BYTES;
/// The number of bits of the hash that each level of the map uses.
const LEVEL_BITS: u32 = 5;

/// Whether the offset of the context in a thread state is known.
#[inline(always)]
pub(super) fn is_offset_known() -> bool {
    CONTEXT_OFFSET.load(Ordering::Relaxed) != 0
}

/// Returns the context that a thread has entered, `None` if it has entered none.
///
/// # Safety
/// [`is_offset_known`] is true, and the state is the caller's and stays valid.
#[inline(always)]
pub(super) unsafe fn entered_context(thread_state: *const PyThreadState) -> Option<*const u8> {
    let offset = CONTEXT_OFFSET.load(Ordering::Relaxed);
    // SAFETY: `setup` has checked both offsets on this interpreter.
    unsafe {
        let context = read(thread_state.cast(), offset).cast::<u8>();
        (!context.is_null() && *context.add(ENTERED_OFFSET).cast::<i32>() != 0).then_some(context)
    }
}

/// Whether an entered context may be the one in which `threading` runs the whole thread, and not
/// that of a task. Such a context has no previous one. The contexts of an event loop have one: the
/// loop copies the thread's context, which creates that context if the thread has none.
///
/// # Safety
/// The calling thread has entered the context.
#[inline(always)]
pub(super) unsafe fn may_be_thread_context(context: *const u8) -> bool {
    // SAFETY: `setup` has checked the offset on this interpreter.
    let is_outermost = || unsafe { read(context, PREVIOUS_OFFSET) }.is_null();
    DO_THREADS_ENTER_CONTEXTS.load(Ordering::Relaxed) && is_outermost()
}

/// Returns the pointer at an offset of a structure.
///
/// # Safety
/// There is a readable pointer at the offset.
#[inline(always)]
unsafe fn read(structure: *const u8, offset: usize) -> *mut PyObject {
    // SAFETY: guaranteed by the caller.
    unsafe { *structure.add(offset).cast::<*mut PyObject>() }
}

/// Determines the offset of the context in a thread state.
pub(super) fn setup(py: Python<'_>) -> PyResult<()> {
    // The copy creates a context for the importing thread, usually the main one. From then on every
    // context that this thread enters has a previous one.
    let context = py.import("contextvars")?.call_method0("copy_context")?;
    CONTEXT_OFFSET.store(find_offset(py, &context)?, Ordering::Relaxed);
    let version = py.version_info();
    DO_THREADS_ENTER_CONTEXTS.store((version.major, version.minor) >= (3, 14), Ordering::Relaxed);
    Ok(())
}

/// Returns the offset of `PyThreadState.context` in CPython 3.`minor`, if it is known.
const fn known_offset(minor: u8) -> Option<usize> {
    match minor {
        10 => Some(240),
        11 => Some(224),
        12..=14 => Some(208),
        15 => Some(232),
        _ => None,
    }
}

// Each version whose frames are known must also have a known offset of the context.
const _: () = {
    let mut index = 0;
    while index < FrameLayout::ALL.len() {
        let minors = &FrameLayout::ALL[index].0;
        let is_known =
            known_offset(*minors.start()).is_some() && known_offset(*minors.end()).is_some();
        assert!(is_known, "a version with a layout of frames has no offset of the context");
        index += 1;
    }
};

/// Returns the offset at which the thread state points to the current context, 0 if none is found.
/// Runs a probe inside `context`, which is entered from a copy of it.
fn find_offset(py: Python<'_>, context: &Bound<'_, PyAny>) -> PyResult<usize> {
    let version = py.version_info();
    let candidates: Vec<usize> = match known_offset(version.minor) {
        Some(offset) => vec![offset],
        // An unknown version: the thread states of later versions are far larger than this range.
        None => (64..400).step_by(size_of::<usize>()).collect(),
    };
    let outer = context.call_method0("copy")?;
    let (context_address, previous_address) = (context.as_ptr() as usize, outer.as_ptr() as usize);
    let find_among = move |candidates: &[usize]| {
        candidates.iter().copied().find(|&offset| {
            // SAFETY: the GIL is held, and the candidates are inside the thread state of the
            // version that they are for.
            let found = unsafe { read(ffi::PyThreadState_Get().cast(), offset).cast::<u8>() };
            // SAFETY: a pointer that equals the context's address points to a context object.
            found as usize == context_address
                && unsafe {
                    read(found, PREVIOUS_OFFSET) as usize == previous_address
                        && *found.add(ENTERED_OFFSET).cast::<i32>() == 1
                }
        })
    };
    let candidates_inside = candidates.clone();
    let probe = PyCFunction::new_closure(py, None, None, move |_args, _kwargs| {
        find_among(&candidates_inside)
    })?;
    let found: Option<usize> =
        outer.call_method1("run", (context.getattr("run")?, probe))?.extract()?;
    // Outside of the context, the pointers and the flag must have other values.
    // SAFETY: `context` is a live context object.
    let is_entered_after = unsafe {
        !read(context.as_ptr().cast(), PREVIOUS_OFFSET).is_null()
            || *context.as_ptr().cast::<u8>().add(ENTERED_OFFSET).cast::<i32>() != 0
    };
    Ok(found.filter(|_| find_among(&candidates).is_none() && !is_entered_after).unwrap_or(0))
}

/// A context variable, with what is needed to look it up in a context.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContextVariable {
    /// A reference that is never released.
    object: *mut PyObject,
    hash: u32,
    /// The types of a map's nodes.
    bitmap_type: *mut PyTypeObject,
    array_type: *mut PyTypeObject,
}

// SAFETY: the pointers are to objects that live as long as the process, and are only compared.
unsafe impl Send for ContextVariable {}
// SAFETY: the pointers are to objects that live as long as the process, and are only compared.
unsafe impl Sync for ContextVariable {}

impl ContextVariable {
    /// Determines how to look a variable up, and checks that with maps of both kinds of node.
    /// Returns `None` if this interpreter stores variables in another way than expected.
    pub(super) fn probe(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        /// Enough variables to make the root an array node. A node becomes one when it has 16 of 32
        /// children.
        const VARIABLES: usize = 128;
        let py = object.py();
        let version = py.version_info();
        if !is_offset_known() || version.major != 3 || !(10..=15).contains(&version.minor) {
            return Ok(None);
        }
        let hash = object.hash()?;
        let mut variable = Self {
            // Leaked: the variable lives as long as the process.
            object: object.clone().into_ptr(),
            hash: hash as u32 ^ (hash as u64 >> 32) as u32,
            bitmap_type: null_mut(),
            array_type: null_mut(),
        };
        if variable.hash == u32::MAX {
            variable.hash -= 1;
        }
        let contexts = py.import("contextvars")?;
        let context = contexts.call_method0("Context")?;
        let new_variable = || contexts.getattr("ContextVar")?.call1(("marey_probe",));
        let set_in_context = |variable: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>| {
            context.call_method1("run", (variable.getattr("set")?, value)).map(drop)
        };
        set_in_context(&new_variable()?, &context)?;
        variable.bitmap_type = node_type(&context, "hamt_bitmap_node")?;
        if variable.bitmap_type.is_null() || !variable.has_value(&context, None) {
            return Ok(None);
        }
        set_in_context(object, object)?;
        let mut is_correct = variable.has_value(&context, Some(object));
        for _ in 0..VARIABLES {
            set_in_context(&new_variable()?, &context)?;
        }
        variable.array_type = node_type(&context, "hamt_array_node")?;
        is_correct &= !variable.array_type.is_null() && variable.has_value(&context, Some(object));
        // A second value shows that a read follows a change.
        set_in_context(object, &contexts)?;
        is_correct &= variable.has_value(&context, Some(&contexts));
        Ok(is_correct.then_some(variable))
    }

    /// Whether a direct read finds the expected value of the variable in a context.
    fn has_value(&self, context: &Bound<'_, PyAny>, expected: Option<&Bound<'_, PyAny>>) -> bool {
        // SAFETY: the GIL is held.
        let found = unsafe { self.value_in(context.as_ptr().cast()) };
        found == expected.map(Bound::as_ptr)
    }

    /// Returns the variable's value in a context, borrowed. `None` if it has none, or if another
    /// variable has the same hash.
    ///
    /// # Safety
    /// The caller's thread has entered the context, or holds the GIL.
    #[inline]
    pub(super) unsafe fn value_in(&self, context: *const u8) -> Option<*mut PyObject> {
        // SAFETY: no other thread changes the context during this call, as the caller guarantees,
        // so its map stays valid, and the map's nodes are immutable. `probe` has checked the
        // offsets on this interpreter.
        unsafe {
            let mut node = read(read(context, VARS_OFFSET).cast(), ROOT_OFFSET);
            let mut hash = self.hash;
            while !node.is_null() {
                let position = hash & ((1 << LEVEL_BITS) - 1);
                hash >>= LEVEL_BITS;
                if ffi::Py_TYPE(node) == self.array_type {
                    node =
                        read(node.cast(), CHILDREN_OFFSET + position as usize * size_of::<usize>());
                    continue;
                }
                if ffi::Py_TYPE(node) != self.bitmap_type {
                    return None;
                }
                let bitmap = *node.cast::<u8>().add(BITMAP_OFFSET).cast::<u32>();
                if bitmap >> position & 1 == 0 {
                    return None;
                }
                let preceding_pairs = (bitmap & ((1 << position) - 1)).count_ones() as usize;
                let pair = PAIRS_OFFSET + preceding_pairs * 2 * size_of::<usize>();
                let (key, value) =
                    (read(node.cast(), pair), read(node.cast(), pair + size_of::<usize>()));
                if !key.is_null() {
                    return (key == self.object).then_some(value);
                }
                node = value;
            }
            None
        }
    }
}

/// Returns the type of the root of a context's map if the type has this name, else null.
fn node_type(context: &Bound<'_, PyAny>, name: &str) -> PyResult<*mut PyTypeObject> {
    let has_type_name = |object: *mut PyObject, name: &str| {
        // SAFETY: the GIL is held, and the offsets are those of objects in the versions that
        // `probe` accepts.
        let object = unsafe { Bound::from_borrowed_ptr_or_opt(context.py(), object) };
        object.map_or(Ok(false), |object| Ok::<_, PyErr>(object.get_type().name()? == name))
    };
    // SAFETY: `probe` accepts only versions with these offsets, and the root is read only if the
    // map's type has the expected name.
    unsafe {
        let map = read(context.as_ptr().cast(), VARS_OFFSET);
        if !has_type_name(map, "hamt")? {
            return Ok(null_mut());
        }
        let root = read(map.cast(), ROOT_OFFSET);
        Ok(if has_type_name(root, name)? { ffi::Py_TYPE(root) } else { null_mut() })
    }
}
