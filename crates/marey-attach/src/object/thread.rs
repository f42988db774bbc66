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
        let mut interpreters = Vec::new();
        let mut next_interpreter = self.reference(runtime, self.layout.first_interpreter);
        while let Some(interpreter) =
            next_interpreter.filter(|_| interpreters.len() < MAX_INTERPRETERS)
        {
            interpreters.push(interpreter);
            next_interpreter = self.reference(interpreter, self.layout.next_interpreter);
        }
        interpreters
    }

    /// Adds the thread states of an interpreter to `states`. Fails at one that cannot be read, and
    /// `states` then has those before it. `gil_struct` is the structure that contains the GIL, if
    /// it is known.
    pub(crate) fn thread_states(
        &self,
        gil_struct: Option<Address>,
        interpreter: Address,
        states: &mut Vec<ThreadState>,
    ) -> Result<()> {
        const NEXT: u64 = 8;
        let layout = self.layout;
        let gil_struct = gil_struct
            .filter(|&gil_struct| self.c_int(gil_struct, layout.is_gil_locked) == Some(1));
        let gil_holder =
            gil_struct.and_then(|gil_struct| self.reference(gil_struct, layout.gil_holder));
        let mut state = self.word(interpreter, layout.first_thread)?;
        for _ in 0..MAX_THREADS {
            if state == 0 {
                return Ok(());
            }
            let ident = self.word(state, layout.thread_id)?;
            let os_id = match layout.native_thread_id {
                Some(offset) => self.reference(state, offset),
                None => self.c_int(ident, PTHREAD_THREAD_ID).and_then(|id| u64::try_from(id).ok()),
            };
            states.push(ThreadState {
                address: state,
                ident,
                os_id,
                holds_gil: gil_holder == Some(state),
            });
            state = self.word(state, NEXT)?;
        }
        Err(ReadError::TooLarge)
    }

    /// Adds the frames of a thread state to `frames`, innermost first. Fails at one that cannot be
    /// read, and `frames` then has those before it.
    pub(crate) fn read_frames(&self, thread: Address, frames: &mut Vec<Frame>) -> Result<()> {
        let layout = self.layout;
        let mut frame = self.word(thread, layout.thread_frame)?;
        if let Some(offset) = layout.c_frame.filter(|_| frame != 0) {
            frame = self.word(frame, offset)?;
        }
        for _ in 0..MAX_FRAMES {
            if frame == 0 {
                return Ok(());
            }
            frames.extend(self.running_frame(frame)?);
            frame = self.word(frame, layout.previous_frame)?;
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
            let instruction: [u8; 4] = self.bytes(frame, layout.frame_instruction)?;
            let instruction = i64::from(i32::from_ne_bytes(instruction)) * INSTRUCTION_BYTES;
            return self.frame_at(self.code_of_frame(frame)?, instruction);
        }
        let [owner] = self.bytes(frame, layout.frame_owner)?;
        if owner >= C_CODE {
            return Ok(None);
        }
        let code = self.code_of_frame(frame)?;
        let start = code.checked_add(layout.code_instructions).ok_or(ReadError::Changed)?;
        let instruction = self.word(frame, layout.frame_instruction)?;
        self.frame_at(code, instruction.wrapping_sub(start).cast_signed())
    }

    /// Returns the names of the threads that the module `threading` knows, by their ids in Python.
    pub(crate) fn thread_names(&self, interpreter: Address) -> Vec<(u64, String)> {
        let threads = self.namespace(interpreter, "threading").and_then(|namespace| {
            let active = self.dictionary(self.dictionary_value(namespace, "_active")?).ok()?;
            self.entries(&active, MAX_THREADS).ok()
        });
        let names = threads.unwrap_or_default().into_iter().filter_map(|(ident, thread)| {
            let name = self.instance_attribute(thread, "_name")?;
            Some((self.unsigned_integer(ident)?, self.text_of(name)?))
        });
        names.collect()
    }
}
