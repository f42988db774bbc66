//! Reads the interpreters of a process, their threads, and the frames of the threads.

use super::{Address, Objects, ReadError, Result};
use crate::target::{Frame, PTHREAD_THREAD_ID};

/// The maximum numbers of interpreters, of threads, and of frames of a thread.
const MAX_INTERPRETERS: usize = 1 << 10;
const MAX_THREADS: usize = 1 << 16;
const MAX_FRAMES: usize = 1 << 14;

/// A thread state of an interpreter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadState {
    pub(crate) address: Address,
    /// Id in Python (`threading.get_ident`).
    pub(crate) ident: u64,
    /// Id in the operating system. Before CPython 3.11 it is read from a structure of the C
    /// library, and may be wrong.
    pub(crate) os_id: Option<u64>,
    /// Whether the thread holds the global interpreter lock.
    pub(crate) holds_gil: bool,
}

impl Objects<'_> {
    /// Returns the addresses of the interpreters of a runtime.
    pub(crate) fn interpreters(&self, runtime: Address) -> Vec<Address> {
        let mut found = Vec::new();
        let mut next = self.reference(runtime, self.layout.interpreters);
        while let Some(interpreter) = next.filter(|_| found.len() < MAX_INTERPRETERS) {
            found.push(interpreter);
            next = self.reference(interpreter, self.layout.next_interpreter);
        }
        found
    }

    /// Adds the thread states of an interpreter to `found`. Fails at one that cannot be read, and
    /// `found` then has those before it. `lock` is the structure that contains the GIL, if it is
    /// known.
    pub(crate) fn thread_states(
        &self,
        lock: Option<Address>,
        interpreter: Address,
        found: &mut Vec<ThreadState>,
    ) -> Result<()> {
        const NEXT: u64 = 8;
        let layout = self.layout;
        let lock = lock.filter(|&lock| self.int(lock, layout.is_locked) == Some(1));
        let holder = lock.and_then(|lock| self.reference(lock, layout.lock_holder));
        let mut next = self.word(interpreter, layout.threads)?;
        for _ in 0..MAX_THREADS {
            if next == 0 {
                return Ok(());
            }
            let ident = self.word(next, layout.thread_id)?;
            let os_id = match layout.native_thread_id {
                Some(offset) => self.reference(next, offset),
                None => self.int(ident, PTHREAD_THREAD_ID).and_then(|id| u64::try_from(id).ok()),
            };
            found.push(ThreadState {
                address: next,
                ident,
                os_id,
                holds_gil: holder == Some(next),
            });
            next = self.word(next, NEXT)?;
        }
        Err(ReadError::TooLarge)
    }

    /// Adds the frames of a thread state to `frames`, innermost first. Fails at one that cannot be
    /// read, and `frames` then has those before it.
    pub(crate) fn read_frames(&self, thread: Address, frames: &mut Vec<Frame>) -> Result<()> {
        let layout = self.layout;
        let mut next = self.word(thread, layout.thread_frame)?;
        if let Some(offset) = layout.c_frame.filter(|_| next != 0) {
            next = self.word(next, offset)?;
        }
        for _ in 0..MAX_FRAMES {
            if next == 0 {
                return Ok(());
            }
            frames.extend(self.running_frame(next)?);
            next = self.word(next, layout.previous)?;
        }
        Err(ReadError::TooLarge)
    }

    /// Returns a frame, `None` for one that CPython has pushed for C code.
    fn running_frame(&self, frame: Address) -> Result<Option<Frame>> {
        const INSTRUCTION_BYTES: i64 = 2;
        /// The lowest owner whose frames are of C code.
        const C_CODE: u8 = 3;
        let layout = self.layout;
        if layout.minor == 10 {
            let instruction: [u8; 4] = self.bytes(frame, layout.instruction)?;
            let instruction = i64::from(i32::from_ne_bytes(instruction)) * INSTRUCTION_BYTES;
            return self.frame_at(self.code_of_frame(frame)?, instruction);
        }
        let [owner] = self.bytes(frame, layout.owner)?;
        if owner >= C_CODE {
            return Ok(None);
        }
        let code = self.code_of_frame(frame)?;
        let start = code.checked_add(layout.instructions).ok_or(ReadError::Changed)?;
        let instruction = self.word(frame, layout.instruction)?;
        self.frame_at(code, instruction.wrapping_sub(start).cast_signed())
    }

    /// Returns the names of the threads that the module `threading` knows, by their ids in Python.
    pub(crate) fn thread_names(&self, interpreter: Address) -> Vec<(u64, String)> {
        let threads = self.namespace(interpreter, "threading").and_then(|namespace| {
            let active = self.dictionary(self.get(namespace, "_active")?).ok()?;
            self.entries(&active, MAX_THREADS).ok()
        });
        let names = threads.unwrap_or_default().into_iter().filter_map(|(ident, thread)| {
            let name = self.instance_attribute(thread, "_name")?;
            Some((self.unsigned_integer(ident)?, self.text_of(name)?))
        });
        names.collect()
    }
}
