//! The layout of CPython's frames in memory, by version.
//!
//! Offsets are of 64-bit builds with the GIL, from the headers `cpython/pystate.h`,
//! `internal/pycore_frame.h` (3.14 and later: `internal/pycore_interpframe_structs.h`),
//! `cpython/code.h` (3.11 and later) and `cpython/frameobject.h` (3.10).

use super::Position;
use pyo3::PythonVersionInfo;
use pyo3::ffi::{self, PyObject};
use std::sync::OnceLock;

/// The offsets needed to walk from the thread state over the frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Offset, in the thread state, of the pointer to the innermost frame or to a struct that
    /// contains that pointer.
    innermost: usize,
    /// Offset of the pointer to the innermost frame in that struct, if there is one.
    indirection: Option<usize>,
    previous: usize,
    code: usize,
    /// Low bits of the pointer to the code object that are flags of the reference.
    code_flags: usize,
    instruction: Instruction,
    /// Offset of the byte with the owner of the frame, and the first of the owners whose frames are
    /// not Python frames.
    owner: Option<(usize, u8)>,
}

/// How a frame stores its current instruction.
#[derive(Clone, Copy, Debug)]
enum Instruction {
    /// As an index in code units.
    Index { offset: usize },
    /// As a pointer into the code object, whose instructions begin at `code_start`.
    Pointer { offset: usize, code_start: usize },
}

/// Bytes of a code unit.
const UNIT: u32 = 2;

impl Layout {
    /// Returns the layout of a version, if it is known.
    pub(super) fn of(version: &PythonVersionInfo) -> Option<Self> {
        *LAYOUT.get_or_init(|| match (version.major, version.minor) {
            (3, 10) => Some(Self {
                innermost: 24,
                indirection: None,
                previous: 24,
                code: 32,
                code_flags: 0,
                instruction: Instruction::Index { offset: 96 },
                owner: None,
            }),
            (3, 11) => Some(Self {
                innermost: 56,
                indirection: Some(8),
                previous: 48,
                code: 32,
                code_flags: 0,
                instruction: Instruction::Pointer { offset: 56, code_start: 184 },
                owner: None,
            }),
            (3, 12) => Some(Self {
                innermost: 56,
                indirection: Some(0),
                previous: 8,
                code: 0,
                code_flags: 0,
                instruction: Instruction::Pointer { offset: 56, code_start: 192 },
                owner: Some((70, 3)),
            }),
            (3, 13) => Some(Self {
                innermost: 72,
                indirection: None,
                previous: 8,
                code: 0,
                code_flags: 0,
                instruction: Instruction::Pointer { offset: 56, code_start: 200 },
                owner: Some((70, 3)),
            }),
            (3, 14 | 15) => Some(Self {
                innermost: 72,
                indirection: None,
                previous: 8,
                code: 0,
                // `_PyStackRef`: set if the frame borrows the code object.
                code_flags: 0b11,
                instruction: Instruction::Pointer { offset: 56, code_start: 208 },
                // `FRAME_OWNED_BY_INTERPRETER`, and in 3.14 `FRAME_OWNED_BY_CSTACK`.
                owner: Some((74, 3)),
            }),
            _ => None,
        })
    }

    /// Returns the layout that [`Layout::of`] found.
    #[inline(always)]
    pub(super) fn known() -> Option<Self> {
        LAYOUT.get().copied().flatten()
    }

    /// Appends the frames of the calling thread, whose state is `state`, innermost first. Stops at
    /// a frame whose code object `is_code` rejects.
    ///
    /// # Safety
    /// The state is the calling thread's and is valid until the call returns, and this is the
    /// layout of the running interpreter.
    #[inline(always)]
    pub(super) unsafe fn walk(
        &self,
        state: *mut ffi::PyThreadState,
        walked: &mut Vec<Position>,
        most: usize,
        is_code: impl Fn(*mut PyObject) -> bool,
    ) {
        // SAFETY: only the thread itself links and frees its frames, also while it runs without the
        // GIL, so they stay valid during this call. The offsets are those of this interpreter.
        unsafe {
            let mut frame: *const u8 = word(state.cast(), self.innermost);
            if let Some(indirection) = self.indirection {
                frame = word(frame, indirection);
            }
            while !frame.is_null() && walked.len() < most {
                let is_python = self.owner.is_none_or(|(offset, first)| *frame.add(offset) < first);
                if is_python {
                    let code: *mut PyObject =
                        word::<PyObject>(frame, self.code).map_addr(|code| code & !self.code_flags);
                    if !is_code(code) {
                        return;
                    }
                    walked.push(Position { code, offset: self.offset(frame, code) });
                }
                frame = word(frame, self.previous);
            }
        }
    }

    /// # Safety
    /// `frame` is a frame of this layout, and `code` its code object.
    #[inline(always)]
    unsafe fn offset(&self, frame: *const u8, code: *mut PyObject) -> u32 {
        match self.instruction {
            // SAFETY: as the caller promises.
            Instruction::Index { offset } => unsafe {
                (*frame.add(offset).cast::<i32>()).cast_unsigned().wrapping_mul(UNIT)
            },
            Instruction::Pointer { offset, code_start } => {
                // SAFETY: as the caller promises.
                let pointer: *const u8 = unsafe { word(frame, offset) };
                (pointer as usize).wrapping_sub(code as usize + code_start) as u32
            }
        }
    }
}

static LAYOUT: OnceLock<Option<Layout>> = OnceLock::new();

/// # Safety
/// There is a readable pointer at `offset` bytes from `base`.
#[inline(always)]
unsafe fn word<T>(base: *const u8, offset: usize) -> *mut T {
    // SAFETY: as the caller promises.
    unsafe { *base.add(offset).cast::<*mut T>() }
}
