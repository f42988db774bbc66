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
pub(crate) struct Chain {
    /// Progress of the outermost coroutine.
    pub(crate) progress: Progress,
    /// Frames of all coroutines, innermost first.
    pub(crate) frames: Vec<Frame>,
}

impl Objects<'_> {
    /// Follows a coroutine along the coroutines that it awaits.
    pub(crate) fn await_chain(&self, coroutine: Address) -> Option<Chain> {
        let mut frames = Vec::new();
        let mut progress = None;
        let mut next = Some(coroutine);
        for _ in 0..MAX_AWAITS {
            let Some(object) = next else { break };
            match self.type_name(object)?.as_str() {
                "coroutine" | "generator" | "async_generator" => {
                    let Some(suspension) = self.suspension(object) else { break };
                    progress.get_or_insert(suspension.progress);
                    frames.extend(suspension.frame);
                    next = suspension.awaits;
                }
                // The first field of each of these awaitables is the generator or coroutine.
                "coroutine_wrapper"
                | "async_generator_asend"
                | "async_generator_athrow"
                | "anext_awaitable" => next = self.reference(object, FIRST_FIELD),
                _ => break,
            }
        }
        frames.reverse();
        Some(Chain { progress: progress?, frames })
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
        const STATE: u64 = 108;
        const YIELD_FROM: u8 = 72;
        const INSTRUCTION_BYTES: i32 = 2;
        const CODE_BYTES: u64 = 32;
        let layout = self.layout;
        let Some(frame) = self.reference(generator, layout.generator_frame) else {
            return Some(Suspension::ended());
        };
        let [state] = self.bytes(frame, STATE).ok()?;
        let progress = match state.cast_signed() {
            -2 => Progress::Created,
            -1 => Progress::Suspended,
            0 => Progress::Runs,
            _ => return Some(Suspension::ended()),
        };
        let code = self.reference(frame, layout.code)?;
        let instruction = self.int(frame, layout.instruction)?.checked_mul(INSTRUCTION_BYTES)?;
        let awaits = || {
            let next = u64::try_from(instruction.checked_add(INSTRUCTION_BYTES)?).ok()?;
            let instructions = self.reference(code, layout.instructions)?;
            let [operation] = self.bytes(instructions, CODE_BYTES.checked_add(next)?).ok()?;
            (operation == YIELD_FROM).then_some(())?;
            let depth = u64::try_from(self.int(frame, layout.stack_end)?).ok()?.checked_sub(1)?;
            self.reference(self.reference(frame, layout.locals)?, 8 * depth)
        };
        Some(Suspension {
            progress,
            frame: self.frame_at(code, instruction.into()).ok().flatten(),
            awaits: if progress == Progress::Suspended { awaits() } else { None },
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
        let instruction = self.word(frame, layout.instruction).ok()?;
        let start = code.checked_add(layout.instructions)?;
        let offset = instruction.wrapping_sub(start).cast_signed();
        let awaits = match (layout.minor, state.cast_signed()) {
            (11 | 12, -1) => self.resumes_an_await(instruction),
            (13.., -1) => true,
            _ => false,
        };
        Some(Suspension {
            progress,
            frame: self.frame_at(code, offset).ok().flatten(),
            awaits: awaits.then(|| self.top_of_stack(frame)).flatten(),
        })
    }

    /// Returns the code of a frame.
    pub(super) fn code_of_frame(&self, frame: Address) -> Result<Address> {
        self.word(frame, self.layout.code).map(untagged)
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
            let depth = u64::try_from(self.int(frame, layout.stack_end)?).ok()?.checked_sub(1)?;
            frame.checked_add(layout.locals)?.checked_add(8 * depth)?
        } else {
            self.reference(frame, layout.stack_end)?.checked_sub(8)?
        };
        self.reference(top, 0).map(untagged)
    }
}

/// The progress of one coroutine, its frame, and the object that it awaits.
struct Suspension {
    progress: Progress,
    frame: Option<Frame>,
    awaits: Option<Address>,
}

impl Suspension {
    fn ended() -> Self {
        Self { progress: Progress::Ended, frame: None, awaits: None }
    }
}

/// Removes the tag bits that CPython 3.14 has in the lowest bits of references on a value stack.
fn untagged(reference: Address) -> Address {
    reference & !3
}
