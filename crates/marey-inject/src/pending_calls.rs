//! Places a request in the queue of pending calls of CPython 3.10 to 3.13.
//!
//! The interpreter calls the functions in the queue between two instructions, with the GIL held. A
//! request is an entry with `PyRun_SimpleString` and a line of Python. The line is stored in the
//! unused bytes of a page after the variables of a library.

use std::io;

use marey_attach::AddressRange;

use crate::interpreter::Attempt;
use crate::memory::Memory;

/// The bit of a thread's `eval_breaker` in CPython 3.13 that says that there are pending calls.
const CALLS_TO_DO: u64 = 1 << 2;
/// The number of bytes that stay zero on both sides of the line.
const MARGIN_BYTES: u64 = 16;
/// The maximum number of threads that are followed in a list, which may be no list of threads.
const MAX_THREADS: usize = 100_000;

/// Offsets in bytes in the structures of one version, from its internal headers (`pycore_interp.h`,
/// `pycore_ceval_state.h`, `pycore_runtime.h`). They are the same on x86-64 and aarch64.
#[derive(Debug)]
pub(crate) struct PendingCallsLayout {
    /// In `_PyRuntime`: the address of the main interpreter.
    main_interpreter: u64,
    /// In the interpreter: the address of `_PyRuntime`.
    interpreter_runtime: u64,
    /// In the interpreter: its id, 0 for the main one.
    interpreter_id: u64,
    /// In the interpreter: the queue.
    queue: u64,
    breaker: BreakerPlace,
    queue_lock: QueueLock,
    /// In the queue: the number of calls. Before 3.13: whether there are any.
    call_count: u64,
    /// In the queue: the calls.
    first_call: u64,
    /// Size of a call in bytes.
    call_bytes: u64,
    /// Number of calls that the queue can hold.
    capacity: i32,
    /// In the queue: the index of the first call. The index after the last call follows.
    first_index: u64,
}

/// The place of the flag that makes the interpreter look at the queue.
#[derive(Clone, Copy, Debug)]
enum BreakerPlace {
    /// An integer of the interpreter, at this offset.
    Interpreter(u64),
    /// The word `eval_breaker` of each thread. The interpreter has the address of the first thread
    /// at this offset.
    Threads(u64),
}

/// The lock of the queue.
#[derive(Clone, Copy, Debug)]
enum QueueLock {
    /// The queue has the address of a semaphore at this offset. The semaphore is 0 if it is locked.
    Semaphore(u64),
    /// The queue has a byte at this offset, whose bit 0 is set if it is locked.
    Mutex(u64),
}

/// The offset of the address of the next thread in a thread state of CPython 3.13. The address of
/// the interpreter and the word `eval_breaker` follow.
const NEXT_THREAD: u64 = 8;

const CPYTHON_3_10: PendingCallsLayout = PendingCallsLayout {
    main_interpreter: 40,
    interpreter_runtime: 16,
    interpreter_id: 24,
    queue: 80,
    breaker: BreakerPlace::Interpreter(68),
    queue_lock: QueueLock::Semaphore(0),
    call_count: 8,
    first_call: 16,
    call_bytes: 16,
    capacity: 32,
    first_index: 528,
};

const CPYTHON_3_11: PendingCallsLayout = PendingCallsLayout {
    main_interpreter: 48,
    interpreter_runtime: 40,
    interpreter_id: 48,
    queue: 112,
    breaker: BreakerPlace::Interpreter(100),
    ..CPYTHON_3_10
};

const CPYTHON_3_12: PendingCallsLayout = PendingCallsLayout {
    main_interpreter: 48,
    interpreter_runtime: 96,
    interpreter_id: 8,
    queue: 400,
    breaker: BreakerPlace::Interpreter(368),
    queue_lock: QueueLock::Semaphore(8),
    call_count: 16,
    first_call: 24,
    first_index: 536,
    ..CPYTHON_3_10
};

const CPYTHON_3_13: PendingCallsLayout = PendingCallsLayout {
    main_interpreter: 640,
    interpreter_runtime: 7376,
    interpreter_id: 7272,
    queue: 32,
    breaker: BreakerPlace::Threads(7344),
    queue_lock: QueueLock::Mutex(8),
    call_count: 12,
    first_call: 24,
    call_bytes: 24,
    capacity: 300,
    first_index: 7224,
};

impl PendingCallsLayout {
    /// Returns the layout of CPython 3.`minor`, from 10 to 13.
    pub(crate) const fn of_minor(minor: u8) -> &'static Self {
        match minor {
            ..=10 => &CPYTHON_3_10,
            11 => &CPYTHON_3_11,
            12 => &CPYTHON_3_12,
            13.. => &CPYTHON_3_13,
        }
    }
}

/// The queue of the main interpreter of a process.
#[derive(Debug)]
pub(crate) struct PendingCalls {
    memory: Memory,
    layout: &'static PendingCallsLayout,
    interpreter: u64,
    run_string_address: u64,
    /// Ranges of memory that nothing uses.
    unused_ranges: Vec<AddressRange>,
    placed: Option<PlacedCall>,
}

/// A request in the queue: the index of its call, and the memory of its line of Python.
#[derive(Clone, Copy, Debug)]
struct PlacedCall {
    call_index: i32,
    line_range: AddressRange,
}

/// The state of the queue at one time.
#[derive(Clone, Copy, Debug)]
struct QueueState {
    call_count: i32,
    first_index: i32,
    /// Index after the last call.
    end_index: i32,
}

impl PendingCalls {
    /// Finds and checks the queue.
    pub(crate) fn find(
        memory: Memory,
        runtime_address: u64,
        run_string_address: u64,
        layout: &'static PendingCallsLayout,
        unused_ranges: Vec<AddressRange>,
    ) -> Result<Self, String> {
        let read = |address| {
            let unreadable = |error| format!("its interpreter cannot be read: {error}");
            memory.read_u64(address).map_err(unreadable)
        };
        let interpreter = read(runtime_address + layout.main_interpreter)?;
        if interpreter == 0 {
            return Err("its interpreter has not started yet, or has ended".to_owned());
        }
        let stated_runtime = read(interpreter + layout.interpreter_runtime)?;
        let id = read(interpreter + layout.interpreter_id)?;
        if (stated_runtime, id) != (runtime_address, 0) {
            return Err("its build of CPython has an unknown layout".to_owned());
        }
        Ok(Self { memory, layout, interpreter, run_string_address, unused_ranges, placed: None })
    }

    /// Adds a call that runs the script.
    pub(crate) fn place(&mut self, script: &str) -> io::Result<Attempt> {
        if self.is_locked()? {
            return Ok(Attempt::Later("its queue of calls is locked"));
        }
        let Some(state) = self.state()? else {
            return Ok(Attempt::Unexpected("its queue of calls has an unknown layout".to_owned()));
        };
        let breakers = self.breakers()?;
        let next_index = (state.end_index + 1) % self.layout.capacity;
        if next_index == state.first_index {
            return Ok(Attempt::Later("its queue of calls is full"));
        }
        let line = line(script);
        let Some(address) = self.find_room(line.len() as u64)? else {
            return Ok(Attempt::Later("it has no unused memory for a line of Python"));
        };
        self.memory.write(address, line.as_bytes())?;
        let (layout, queue) = (self.layout, self.queue());
        let call = queue
            + layout.first_call
            + u64::from(state.end_index.cast_unsigned()) * layout.call_bytes;
        let mut entry = [self.run_string_address, address, 0].map(u64::to_ne_bytes).concat();
        entry.truncate(layout.call_bytes as usize);
        self.memory.write(call, &entry)?;
        self.memory.write_i32(queue + layout.first_index + 4, next_index)?;
        self.memory.write_i32(queue + layout.call_count, self.incremented_count(state))?;
        self.set_breakers(&breakers)?;
        self.placed = Some(PlacedCall {
            call_index: state.end_index,
            line_range: (address, address + line.len() as u64),
        });
        Ok(Attempt::Placed)
    }

    /// Sets the flag again, if the call is still in the queue. Before 3.13 a thread may have been
    /// stopped just before it cleared the flag, and have cleared it later. The threads may run,
    /// because the flag only makes the interpreter look.
    pub(crate) fn remind(&self) -> io::Result<()> {
        match self.layout.breaker {
            BreakerPlace::Interpreter(_) if self.is_waiting()? => self.set_breakers(&[]),
            _ => Ok(()),
        }
    }

    /// Clears the line of Python, so that the call does nothing. The line is left as it is if the
    /// interpreter is just reading it.
    pub(crate) fn withdraw(&mut self, has_run: bool) -> io::Result<()> {
        let Some(placed) = self.placed else { return Ok(()) };
        if has_run || self.is_waiting()? {
            let zeros = vec![0; (placed.line_range.1 - placed.line_range.0) as usize];
            self.memory.write(placed.line_range.0, &zeros)?;
        }
        self.placed = None;
        Ok(())
    }

    /// Whether the call is still in the queue, and so has not begun.
    fn is_waiting(&self) -> io::Result<bool> {
        let (Some(placed), Some(state)) = (self.placed, self.state()?) else { return Ok(false) };
        let capacity = self.layout.capacity;
        let position = (placed.call_index - state.first_index).rem_euclid(capacity);
        Ok(position < (state.end_index - state.first_index).rem_euclid(capacity))
    }

    fn queue(&self) -> u64 {
        self.interpreter + self.layout.queue
    }

    /// Returns the state of the queue, `None` if its values contradict one another.
    fn state(&self) -> io::Result<Option<QueueState>> {
        let (queue, layout) = (self.queue(), self.layout);
        let state = QueueState {
            call_count: self.memory.read_i32(queue + layout.call_count)?,
            first_index: self.memory.read_i32(queue + layout.first_index)?,
            end_index: self.memory.read_i32(queue + layout.first_index + 4)?,
        };
        let indexes = 0..layout.capacity;
        let is_sound = indexes.contains(&state.first_index)
            && indexes.contains(&state.end_index)
            && self.is_count_sound(state);
        Ok(is_sound.then_some(state))
    }

    fn is_count_sound(&self, state: QueueState) -> bool {
        match self.layout.breaker {
            BreakerPlace::Interpreter(_) => (0..=1).contains(&state.call_count),
            BreakerPlace::Threads(_) => {
                state.call_count
                    == (state.end_index - state.first_index).rem_euclid(self.layout.capacity)
            }
        }
    }

    const fn incremented_count(&self, state: QueueState) -> i32 {
        match self.layout.breaker {
            BreakerPlace::Interpreter(_) => 1,
            BreakerPlace::Threads(_) => state.call_count + 1,
        }
    }

    fn is_locked(&self) -> io::Result<bool> {
        match self.layout.queue_lock {
            QueueLock::Semaphore(offset) => {
                let semaphore = self.memory.read_u64(self.queue() + offset)?;
                Ok(self.memory.read_i32(semaphore)? == 0)
            }
            QueueLock::Mutex(offset) => {
                let [byte] = self.memory.read_bytes(self.queue() + offset)?;
                Ok(byte & 1 == 1)
            }
        }
    }

    /// Returns the address and the value of the word `eval_breaker` of each thread. There are none
    /// before 3.13.
    fn breakers(&self) -> io::Result<Vec<(u64, u64)>> {
        let BreakerPlace::Threads(first_thread_offset) = self.layout.breaker else {
            return Ok(Vec::new());
        };
        let mut breakers = Vec::new();
        let mut thread = self.memory.read_u64(self.interpreter + first_thread_offset)?;
        while thread != 0 && breakers.len() < MAX_THREADS {
            let [next, interpreter, breaker] = self.memory.read_words(thread + NEXT_THREAD)?;
            if interpreter != self.interpreter {
                return Err(io::Error::other("its list of threads has an unknown layout"));
            }
            breakers.push((thread + NEXT_THREAD + 16, breaker));
            thread = next;
        }
        Ok(breakers)
    }

    /// Sets the flag that makes the interpreter look at the queue.
    fn set_breakers(&self, breakers: &[(u64, u64)]) -> io::Result<()> {
        if let BreakerPlace::Interpreter(offset) = self.layout.breaker {
            self.memory.write_i32(self.interpreter + offset, 1)?;
        }
        let mut breakers = breakers.iter();
        breakers.try_for_each(|(address, bits)| self.memory.write_u64(*address, bits | CALLS_TO_DO))
    }

    /// Returns an address in unused memory with room for a line of Python and zeros around it.
    fn find_room(&self, line_bytes: u64) -> io::Result<Option<u64>> {
        for &(start, end) in &self.unused_ranges {
            let mut content = vec![0; (end - start) as usize];
            self.memory.read(start, &mut content)?;
            // The line of another request may be at the start, so the room begins after it.
            let used_bytes = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let address = start + used_bytes as u64 + MARGIN_BYTES;
            if address + line_bytes + MARGIN_BYTES <= end {
                return Ok(Some(address));
            }
        }
        Ok(None)
    }
}

/// Returns the line of Python that runs a script, as a C string.
///
/// The line changes no names of the program. It ignores an error, because a forked child may run it
/// when the script is gone. It repeats a Ctrl-C that arrives meanwhile, which is for the program.
fn line(script: &str) -> String {
    let read = format!("with open('{script}')as f:s=f.read()");
    let repeat = "import _thread as t;t.start_new_thread(t.interrupt_main,())";
    let code = format!(
        "try:\\n {read}\\n exec(s,{{}})\\nexcept Exception:pass\\nexcept KeyboardInterrupt:\\n {repeat}"
    );
    format!("__builtins__.exec(\"{code}\",{{}})\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_line_are_its_own() {
        let expected = "__builtins__.exec(\"try:\\n with open('/tmp/s.py')as f:s=f.read()\\n \
                        exec(s,{})\\nexcept Exception:pass\\nexcept KeyboardInterrupt:\\n import \
                        _thread as t;t.start_new_thread(t.interrupt_main,())\",{})\0";
        assert_eq!(line("/tmp/s.py"), expected);
    }
}
