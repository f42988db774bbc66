//! The threads of an interpreter and their frames, where nothing else reads them: in core files.

use super::{Address, Objects};
use crate::target::Frame;

/// Interpreters, threads and frames that are read at most.
const MAX_INTERPRETERS: usize = 1 << 10;
const MAX_THREADS: usize = 1 << 16;
const MAX_FRAMES: usize = 1 << 14;

/// A thread of an interpreter.
pub(crate) struct PythonThread {
    /// Id in Python (`threading.get_ident`).
    pub(crate) ident: u64,
    /// Id in the operating system, since CPython 3.11.
    pub(crate) os_id: Option<u64>,
    /// Whether it holds the global interpreter lock.
    pub(crate) holds_gil: bool,
    /// Frames, the innermost first.
    pub(crate) frames: Vec<Frame>,
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

    /// Returns the threads of an interpreter.
    pub(crate) fn threads(&self, runtime: Address, interpreter: Address) -> Vec<PythonThread> {
        const NEXT: u64 = 8;
        let layout = self.layout;
        let lock = if layout.minor < 12 { runtime } else { interpreter };
        let is_locked = self.int(lock, layout.is_locked) == Some(1);
        let holder = self.reference(lock, layout.lock_holder).filter(|_| is_locked);
        let mut found = Vec::new();
        let mut next = self.reference(interpreter, layout.threads);
        while let Some(thread) = next.filter(|_| found.len() < MAX_THREADS) {
            found.push(PythonThread {
                ident: self.word(thread, layout.thread_id).unwrap_or(0),
                os_id: layout.native_thread_id.and_then(|offset| self.reference(thread, offset)),
                holds_gil: holder == Some(thread),
                frames: self.frames(thread),
            });
            next = self.reference(thread, NEXT);
        }
        found
    }

    fn frames(&self, thread: Address) -> Vec<Frame> {
        let layout = self.layout;
        let first = self.reference(thread, layout.thread_frame);
        let mut next = match layout.c_frame {
            Some(offset) => first.and_then(|c_frame| self.reference(c_frame, offset)),
            None => first,
        };
        let mut frames = Vec::new();
        let mut steps = 0;
        while let Some(frame) = next.filter(|_| steps < MAX_FRAMES) {
            steps += 1;
            frames.extend(self.running_frame(frame));
            next = self.reference(frame, layout.previous);
        }
        frames
    }

    /// Returns a frame; `None` for those that CPython pushes for C code.
    fn running_frame(&self, frame: Address) -> Option<Frame> {
        const INSTRUCTION_BYTES: i64 = 2;
        /// Owners from this one on are of C code.
        const C_CODE: u8 = 3;
        let layout = self.layout;
        let code = self.code_of_frame(frame)?;
        if layout.minor == 10 {
            let instruction = i64::from(self.int(frame, layout.instruction)?);
            return self.frame_at(code, instruction * INSTRUCTION_BYTES);
        }
        let [owner] = self.bytes(frame, layout.owner).ok()?;
        (owner < C_CODE).then_some(())?;
        let start = code.checked_add(layout.instructions)?;
        let instruction = self.word(frame, layout.instruction).ok()?;
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
            Some((self.number(ident)?, self.string(name)?))
        });
        names.collect()
    }
}
