//! Reads where a coroutine is suspended, and follows it along the coroutines that it awaits.

use super::{Address, FIRST_FIELD, Objects, Result};
use crate::target::Frame;

/// The maximum number of awaits that are followed from a task to its innermost frame.
const MAX_AWAITS: usize = 500;

/// The progress of a coroutine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Not begun yet.
    Created,
    /// Suspended in an `await` or `yield`.
    Suspended,
    /// Runs in a thread.
    Runs,
    /// Returned, or raised an exception.
    Ended,
}

/// A coroutine and those that it awaits.
pub(crate) struct AwaitChain {
    /// Progress of the outermost coroutine.
    pub(crate) progress: Progress,
    /// Frames of all coroutines, innermost first.
    pub(crate) frames: Vec<Frame>,
}

impl Objects<'_> {
    /// Follows a coroutine along the coroutines that it awaits.
    pub(crate) fn await_chain(&self, coroutine: Address) -> Option<AwaitChain> {
        let mut frames = Vec::new();
        let mut progress = None;
        let mut next_awaitable = Some(coroutine);
        for _ in 0..MAX_AWAITS {
            let Some(object) = next_awaitable else { break };
            match self.type_name(object)?.as_str() {
                "coroutine" | "generator" | "async_generator" => {
                    let Some(suspension) = self.suspension(object) else { break };
                    progress.get_or_insert(suspension.progress);
                    frames.extend(suspension.frame);
                    next_awaitable = suspension.awaited;
                }
                // The first field of each of these awaitables is the generator or coroutine.
                "coroutine_wrapper"
                | "async_generator_asend"
                | "async_generator_athrow"
                | "anext_awaitable" => next_awaitable = self.reference(object, FIRST_FIELD),
                _ => break,
            }
        }
        frames.reverse();
        Some(AwaitChain { progress: progress?, frames })
    }

    fn suspension(&self, generator: Address) -> Option<Suspension> {
        if self.layout.minor == 10 {
            self.suspension_3_10(generator)
        } else {
            self.suspension_3_11(generator)
        }
    }

    /// Reads a coroutine of CPython 3.10, which points to its frame.
    fn suspension_3_10(&self, generator: Address) -> Option<Suspension> {
        const FRAME_STATE: u64 = 108;
        const YIELD_FROM: u8 = 72;
        const INSTRUCTION_BYTES: i32 = 2;
        const CODE_BYTES: u64 = 32;
        let layout = self.layout;
        let Some(frame) = self.reference(generator, layout.generator_frame) else {
            return Some(Suspension::ended());
        };
        let [state] = self.bytes(frame, FRAME_STATE).ok()?;
        let progress = match state.cast_signed() {
            -2 => Progress::Created,
            -1 => Progress::Suspended,
            0 => Progress::Runs,
            _ => return Some(Suspension::ended()),
        };
        let code = self.reference(frame, layout.frame_code)?;
        let instruction_offset =
            self.c_int(frame, layout.frame_instruction)?.checked_mul(INSTRUCTION_BYTES)?;
        let awaited = || {
            let next_offset =
                u64::try_from(instruction_offset.checked_add(INSTRUCTION_BYTES)?).ok()?;
            let instructions = self.reference(code, layout.code_instructions)?;
            let [operation] =
                self.bytes(instructions, CODE_BYTES.checked_add(next_offset)?).ok()?;
            (operation == YIELD_FROM).then_some(())?;
            let stack_depth =
                u64::try_from(self.c_int(frame, layout.frame_stack_end)?).ok()?.checked_sub(1)?;
            self.reference(self.reference(frame, layout.frame_locals)?, 8 * stack_depth)
        };
        Some(Suspension {
            progress,
            frame: self.frame_at(code, instruction_offset.into()).ok().flatten(),
            awaited: if progress == Progress::Suspended { awaited() } else { None },
        })
    }

    /// Reads a coroutine of CPython 3.11 or later, which contains its frame.
    fn suspension_3_11(&self, generator: Address) -> Option<Suspension> {
        let layout = self.layout;
        let [state] = self.bytes(generator, layout.generator_state).ok()?;
        let progress = match (layout.minor, state.cast_signed()) {
            (11 | 12, -2) | (_, -3) => Progress::Created,
            (_, -1 | -2) => Progress::Suspended,
            (_, 0) => Progress::Runs,
            _ => return Some(Suspension::ended()),
        };
        let frame = generator.checked_add(layout.generator_frame)?;
        let code = self.code_of_frame(frame).ok()?;
        let instruction = self.word(frame, layout.frame_instruction).ok()?;
        let first_instruction = code.checked_add(layout.code_instructions)?;
        let instruction_offset = instruction.wrapping_sub(first_instruction).cast_signed();
        let awaits = match (layout.minor, state.cast_signed()) {
            (11 | 12, -1) => self.resumes_an_await(instruction),
            (13.., -1) => true,
            _ => false,
        };
        Some(Suspension {
            progress,
            frame: self.frame_at(code, instruction_offset).ok().flatten(),
            awaited: awaits.then(|| self.top_of_stack(frame)).flatten(),
        })
    }

    /// Returns the code of a frame.
    pub(super) fn code_of_frame(&self, frame: Address) -> Result<Address> {
        self.word(frame, self.layout.frame_code).map(untagged)
    }

    /// Whether the `RESUME` after the instruction in progress says that the frame awaits, and does
    /// not yield. Only for versions before CPython 3.13, whose generators do not tell the two
    /// apart.
    fn resumes_an_await(&self, instruction: Address) -> bool {
        const RESUME: u64 = 2;
        const AFTER_YIELD_FROM: u8 = 2;
        let next: Result<[u8; 2]> = self.bytes(instruction, RESUME);
        next.is_ok_and(|[_, argument]| argument & 3 >= AFTER_YIELD_FROM)
    }

    /// Returns the top object of the value stack of a frame.
    fn top_of_stack(&self, frame: Address) -> Option<Address> {
        let layout = self.layout;
        let top = if layout.minor < 14 {
            let stack_depth =
                u64::try_from(self.c_int(frame, layout.frame_stack_end)?).ok()?.checked_sub(1)?;
            frame.checked_add(layout.frame_locals)?.checked_add(8 * stack_depth)?
        } else {
            self.reference(frame, layout.frame_stack_end)?.checked_sub(8)?
        };
        self.reference(top, 0).map(untagged)
    }
}

/// The progress of one coroutine, its frame, and the object that it awaits.
struct Suspension {
    progress: Progress,
    frame: Option<Frame>,
    awaited: Option<Address>,
}

impl Suspension {
    fn ended() -> Self {
        Self { progress: Progress::Ended, frame: None, awaited: None }
    }
}

/// Removes the tag bits that CPython 3.14 has in the lowest bits of references on a value stack.
fn untagged(reference: Address) -> Address {
    reference & !3
}
