//! Places a request as `sys.remote_exec` does (PEP 768). CPython 3.14 reads it at its safe points.

use std::io;

use crate::interpreter::Attempt;
use crate::memory::Memory;

/// The bit of a thread's `eval_breaker` that says that there is a request.
const PLEASE_STOP: u64 = 1 << 5;
/// The maximum number of interpreters that are followed in the list.
const MAX_INTERPRETERS: usize = 1000;

// Offsets of fields in the table at the beginning of `_PyRuntime` (`_Py_DebugOffsets`). All
// releases of 3.14 have the same table.
const COOKIE: &[u8; 8] = b"xdebugpy";
const VERSION: usize = 8;
const FREE_THREADED: usize = 16;
const FIRST_INTERPRETER: usize = 40;
const INTERPRETER_ID: usize = 56;
const NEXT_INTERPRETER: usize = 64;
const MAIN_THREAD: usize = 80;
const THREAD_INTERPRETER: usize = 200;
const EVAL_BREAKER: usize = 712;
const REMOTE_DEBUGGER_SUPPORT: usize = 720;
const IS_ENABLED: usize = 728;
const IS_PENDING: usize = 736;
const SCRIPT_PATH: usize = 744;
const SCRIPT_PATH_BYTES: usize = 752;
const TABLE_BYTES: usize = 760;

/// The place of a request for the main thread.
#[derive(Debug)]
pub(crate) struct RemoteExec {
    memory: Memory,
    /// Address of the integer that says whether there is a request.
    pending_flag_address: u64,
    script_path_address: u64,
    script_path_bytes: usize,
    eval_breaker_address: u64,
    is_placed: bool,
}

/// The table of offsets (`_Py_DebugOffsets`) of a process.
struct OffsetTable([u8; TABLE_BYTES]);

impl OffsetTable {
    fn read(memory: Memory, runtime_address: u64) -> io::Result<Self> {
        memory.read_bytes(runtime_address).map(Self)
    }

    fn word(&self, field: usize) -> u64 {
        self.0[field..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// Returns the reason why the table cannot be used, if there is one.
    fn objection(&self) -> Option<&'static str> {
        if !self.0.starts_with(COOKIE) || self.word(VERSION) >> 16 != 0x030e {
            return Some("its build of CPython has an unknown layout");
        }
        (self.word(FREE_THREADED) != 0)
            .then_some("free-threaded builds of CPython are not supported yet")
    }
}

impl RemoteExec {
    /// Finds and checks the place of the main thread.
    pub(crate) fn find(memory: Memory, runtime_address: u64) -> Result<Self, String> {
        let unreadable = |error: io::Error| format!("its interpreter cannot be read: {error}");
        let table = OffsetTable::read(memory, runtime_address).map_err(unreadable)?;
        if let Some(objection) = table.objection() {
            return Err(objection.to_owned());
        }
        let interpreter = main_interpreter(memory, runtime_address, &table)
            .map_err(unreadable)?
            .ok_or("its interpreter has not started yet, or has ended")?;
        let field = |base: u64, offset: usize| base + table.word(offset);
        if memory.read_i32(field(interpreter, IS_ENABLED)).map_err(unreadable)? == 0 {
            let reason =
                "it forbids that, by PYTHON_DISABLE_REMOTE_DEBUG or -X disable-remote-debug";
            return Err(reason.to_owned());
        }
        let thread = memory.read_u64(field(interpreter, MAIN_THREAD)).map_err(unreadable)?;
        if thread == 0 {
            return Err("its main thread runs no Python".to_owned());
        }
        if memory.read_u64(field(thread, THREAD_INTERPRETER)).map_err(unreadable)? != interpreter {
            return Err("its build of CPython has an unknown layout".to_owned());
        }
        let support = field(thread, REMOTE_DEBUGGER_SUPPORT);
        Ok(Self {
            memory,
            pending_flag_address: field(support, IS_PENDING),
            script_path_address: field(support, SCRIPT_PATH),
            script_path_bytes: table.word(SCRIPT_PATH_BYTES).min(4096) as usize,
            eval_breaker_address: field(thread, EVAL_BREAKER),
            is_placed: false,
        })
    }

    /// Writes the path of the script and the request to run it.
    pub(crate) fn place(&mut self, script: &str) -> io::Result<Attempt> {
        if script.len() >= self.script_path_bytes {
            return Ok(Attempt::Unexpected(format!("the path {script} is too long for it")));
        }
        match self.memory.read_i32(self.pending_flag_address)? {
            0 => {}
            1 => return Ok(Attempt::Later("another request waits in it")),
            _ => return Ok(Attempt::Unexpected("its requests have an unknown layout".to_owned())),
        }
        self.memory.write(self.script_path_address, &[script.as_bytes(), &[0]].concat())?;
        self.memory.write_i32(self.pending_flag_address, 1)?;
        self.is_placed = true;
        let bits = self.memory.read_u64(self.eval_breaker_address)?;
        self.memory.write_u64(self.eval_breaker_address, bits | PLEASE_STOP)?;
        Ok(Attempt::Placed)
    }

    /// Removes the request if the thread has not looked at it yet. After the script has run
    /// (`has_run`), a waiting request belongs to another tool and stays.
    pub(crate) fn withdraw(&mut self, has_run: bool) -> io::Result<()> {
        if !has_run && self.is_waiting()? {
            self.memory.write_i32(self.pending_flag_address, 0)?;
        }
        self.is_placed = false;
        Ok(())
    }

    /// Whether the thread has not looked at the request yet.
    fn is_waiting(&self) -> io::Result<bool> {
        Ok(self.is_placed && self.memory.read_i32(self.pending_flag_address)? == 1)
    }
}

fn main_interpreter(
    memory: Memory,
    runtime_address: u64,
    table: &OffsetTable,
) -> io::Result<Option<u64>> {
    let mut interpreter = memory.read_u64(runtime_address + table.word(FIRST_INTERPRETER))?;
    for _ in 0..MAX_INTERPRETERS {
        if interpreter == 0 {
            break;
        }
        if memory.read_u64(interpreter + table.word(INTERPRETER_ID))? == 0 {
            return Ok(Some(interpreter));
        }
        interpreter = memory.read_u64(interpreter + table.word(NEXT_INTERPRETER))?;
    }
    Ok(None)
}
