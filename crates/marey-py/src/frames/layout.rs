//! The layout of CPython's frames in memory by version, and the walk over them, which needs no GIL.
//!
//! The offsets are those of 64-bit builds with the GIL, from the headers `cpython/pystate.h`,
//! `internal/pycore_frame.h` (3.14 and later: `internal/pycore_interpframe_structs.h`),
//! `cpython/code.h` (3.11 and later) and `cpython/frameobject.h` (3.10).

use super::FramePosition;
use pyo3::PythonVersionInfo;
use pyo3::ffi::{self, PyObject};
use std::ops::RangeInclusive;
use std::sync::OnceLock;

/// The offsets needed to walk from the thread state over the frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameLayout {
    /// Offset, in the thread state, of the pointer to the innermost frame, or of a pointer to the
    /// struct that contains it.
    innermost_offset: usize,
    /// Offset of the pointer to the innermost frame in that struct, if the version has the struct.
    indirection: Option<usize>,
    previous_offset: usize,
    code_offset: usize,
    /// Mask of the low bits of the pointer to the code object that are flags of the reference.
    code_flag_bits: usize,
    instruction: Instruction,
    /// `None` if every frame is a Python frame.
    owner: Option<Owner>,
}

/// The format in which a frame stores its owner, which says whether it is a frame of Python code.
#[derive(Clone, Copy, Debug)]
struct Owner {
    /// Offset of the byte with the owner.
    offset: usize,
    /// The lowest owner whose frames are not Python frames.
    first_non_python: u8,
}

/// The format in which a frame stores its current instruction.
#[derive(Clone, Copy, Debug)]
enum Instruction {
    /// As an index in code units.
    Index { offset: usize },
    /// As a pointer into the code object, whose instructions begin at `code_start`.
    Pointer { offset: usize, code_start: usize },
}

const CODE_UNIT_BYTES: u32 = 2;

impl FrameLayout {
    /// Every known layout, with the minor versions of CPython 3 that have it.
    pub(crate) const ALL: [(RangeInclusive<u8>, Self); 5] = [
        (
            10..=10,
            Self {
                innermost_offset: 24,
                indirection: None,
                previous_offset: 24,
                code_offset: 32,
                code_flag_bits: 0,
                instruction: Instruction::Index { offset: 96 },
                owner: None,
            },
        ),
        (
            11..=11,
            Self {
                innermost_offset: 56,
                indirection: Some(8),
                previous_offset: 48,
                code_offset: 32,
                code_flag_bits: 0,
                instruction: Instruction::Pointer { offset: 56, code_start: 184 },
                owner: None,
            },
        ),
        (
            12..=12,
            Self {
                innermost_offset: 56,
                indirection: Some(0),
                previous_offset: 8,
                code_offset: 0,
                code_flag_bits: 0,
                instruction: Instruction::Pointer { offset: 56, code_start: 192 },
                owner: Some(Owner { offset: 70, first_non_python: 3 }),
            },
        ),
        (
            13..=13,
            Self {
                innermost_offset: 72,
                indirection: None,
                previous_offset: 8,
                code_offset: 0,
                code_flag_bits: 0,
                instruction: Instruction::Pointer { offset: 56, code_start: 200 },
                owner: Some(Owner { offset: 70, first_non_python: 3 }),
            },
        ),
        (
            14..=15,
            Self {
                innermost_offset: 72,
                indirection: None,
                previous_offset: 8,
                code_offset: 0,
                // The tag bits of a `_PyStackRef`, set if the frame borrows the code object.
                code_flag_bits: 0b11,
                instruction: Instruction::Pointer { offset: 56, code_start: 208 },
                // `FRAME_OWNED_BY_INTERPRETER`, and in 3.14 `FRAME_OWNED_BY_CSTACK`.
                owner: Some(Owner { offset: 74, first_non_python: 3 }),
            },
        ),
    ];

    /// Returns the layout of the running version, if it is known. Stores it for `detected`.
    pub(super) fn for_version(version: &PythonVersionInfo) -> Option<Self> {
        let find = || Self::ALL.into_iter().find(|(minors, _)| minors.contains(&version.minor));
        *LAYOUT.get_or_init(|| find().map(|(_, layout)| layout).filter(|_| version.major == 3))
    }

    /// Returns the layout that [`FrameLayout::for_version`] found.
    #[inline(always)]
    pub(super) fn detected() -> Option<Self> {
        LAYOUT.get().copied().flatten()
    }

    /// Appends the frames of the calling thread, whose state is `thread_state`, innermost first.
    /// Stops at a frame whose code object `is_code` rejects.
    ///
    /// # Safety
    /// The state belongs to the calling thread and is valid until the call returns. This is the
    /// layout of the running interpreter.
    #[inline(always)]
    pub(super) unsafe fn walk(
        &self,
        thread_state: *mut ffi::PyThreadState,
        positions: &mut Vec<FramePosition>,
        max_frames: usize,
        is_code: impl Fn(*mut PyObject) -> bool,
    ) {
        // SAFETY: only the thread itself links and frees its frames, also while it runs without the
        // GIL, so they stay valid during this call. The offsets are those of this interpreter.
        unsafe {
            let mut frame: *const u8 = read_pointer(thread_state.cast(), self.innermost_offset);
            if let Some(indirection) = self.indirection {
                frame = read_pointer(frame, indirection);
            }
            while !frame.is_null() && positions.len() < max_frames {
                let is_python = self
                    .owner
                    .is_none_or(|owner| *frame.add(owner.offset) < owner.first_non_python);
                if is_python {
                    let code: *mut PyObject = read_pointer::<PyObject>(frame, self.code_offset)
                        .map_addr(|code| code & !self.code_flag_bits);
                    if !is_code(code) {
                        return;
                    }
                    positions
                        .push(FramePosition { code, offset: self.instruction_offset(frame, code) });
                }
                frame = read_pointer(frame, self.previous_offset);
            }
        }
    }

    /// Returns the offset of the frame's current instruction in bytes.
    ///
    /// # Safety
    /// `frame` is a frame of this layout, and `code` its code object.
    #[inline(always)]
    unsafe fn instruction_offset(&self, frame: *const u8, code: *mut PyObject) -> u32 {
        match self.instruction {
            // SAFETY: guaranteed by the caller.
            Instruction::Index { offset } => unsafe {
                (*frame.add(offset).cast::<i32>()).cast_unsigned().wrapping_mul(CODE_UNIT_BYTES)
            },
            Instruction::Pointer { offset, code_start } => {
                // SAFETY: guaranteed by the caller.
                let pointer: *const u8 = unsafe { read_pointer(frame, offset) };
                (pointer as usize).wrapping_sub(code as usize + code_start) as u32
            }
        }
    }
}

/// The layout of the running interpreter, set by [`FrameLayout::for_version`].
static LAYOUT: OnceLock<Option<FrameLayout>> = OnceLock::new();

/// # Safety
/// There is a readable pointer at `offset` bytes from `base`.
#[inline(always)]
unsafe fn read_pointer<T>(base: *const u8, offset: usize) -> *mut T {
    // SAFETY: guaranteed by the caller.
    unsafe { *base.add(offset).cast::<*mut T>() }
}
