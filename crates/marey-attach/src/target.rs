//! A Python process and its stacks.

use std::collections::HashSet;
use std::fs;
use std::io;

use py_spy::config::{LineNo, LockingStrategy};
use py_spy::{Config, PythonSpy, StackTrace};
use serde::{Deserialize, Serialize};

use crate::AttachError;
use crate::native::{self, Copies};
use crate::process::{self, command_line};
use crate::wait::{self, Wait};

/// Readings of a running process that may fail one after another.
const MAX_ATTEMPTS: u32 = 20;

/// The parts of a process to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether to read the local variables of each frame.
    pub locals: bool,
    /// Whether to read what sleeping threads wait for.
    pub waits: bool,
    /// Whether to read native frames, for which the process is stopped for a moment.
    pub native: bool,
}

/// A Python process that can be read.
pub struct Target {
    pid: u32,
    options: Options,
    spy: PythonSpy,
}

/// The threads of a process at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Process id in the operating system.
    pub pid: u32,
    /// Command line, secrets redacted.
    pub argv: Vec<String>,
    /// Version of CPython, such as `3.11.7`.
    pub python: String,
    /// The threads with Python frames, then those without, each group by id.
    pub threads: Vec<Thread>,
}

/// A thread at one time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Thread {
    /// Thread id in the operating system; `None` if it is unknown, as in some builds of CPython
    /// 3.10.
    pub os_id: Option<u64>,
    /// Name in Python, else in the operating system.
    pub name: String,
    /// Whether it runs or is ready to run.
    pub is_running: bool,
    /// Whether it holds the global interpreter lock.
    pub holds_gil: bool,
    /// The wait, if the thread sleeps in a known system call.
    pub wait: Option<Wait>,
    /// Whether `frames` has the native frames.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_native_frames: bool,
    /// Frames of Python, and native ones if they were asked for, the innermost first.
    pub frames: Vec<Frame>,
}

/// A frame of Python, or a native one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Frame {
    /// Name of the function.
    pub function: String,
    /// Path of the source file, as the code object has it; of a native frame, that of its library.
    pub file: String,
    /// Line in progress, from 1; 0 in a native frame.
    pub line: i32,
    /// Whether it is a native frame.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_native: bool,
    /// Whether native code has called this Python frame.
    #[serde(skip)]
    pub(crate) is_entry: bool,
    /// Local variables as name and text, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locals: Vec<(String, String)>,
}

impl Target {
    /// Finds the interpreter of a process.
    pub fn open(pid: u32, options: Options) -> Result<Self, AttachError> {
        check_access(pid)?;
        if runs_free_threaded(pid) {
            let reason = "free-threaded builds of CPython cannot be read yet".to_owned();
            return Err(AttachError::NotPython { pid, reason });
        }
        let config = Config {
            blocking: LockingStrategy::NonBlocking,
            dump_locals: u64::from(options.locals),
            lineno: LineNo::LastInstruction,
            collect_thread_names: true,
            full_filenames: true,
            ..Config::default()
        };
        let spy = PythonSpy::new(pid.cast_signed(), &config)
            .map_err(|error| AttachError::NotPython { pid, reason: format!("{error:#}") })?;
        Ok(Self { pid, options, spy })
    }

    /// Returns the version of CPython, such as `3.11.7`.
    pub fn python_version(&self) -> String {
        self.spy.version.to_string()
    }

    /// Reads all threads, again if the process changed while it was read.
    pub fn snapshot(&mut self) -> Result<Snapshot, AttachError> {
        let mut threads = if self.options.native {
            // What is found now need not be looked for while the process is stopped.
            self.python_threads()?;
            // A thread that is stopped does not tell whether it ran.
            let running = self.running_threads();
            let stopped = native::stop(self.pid)?;
            let mut threads = self.python_threads()?;
            self.add_native_threads(&mut threads);
            let copies = Copies::read(self.pid, &stopped, &threads);
            drop(stopped);
            for thread in &mut threads {
                thread.is_running = thread.os_id.is_some_and(|id| running.contains(&id));
            }
            copies.merge_into(self.pid, &mut threads);
            threads
        } else {
            let mut threads = self.python_threads()?;
            self.add_native_threads(&mut threads);
            threads
        };
        if self.options.waits {
            for thread in threads.iter_mut().filter(|thread| !thread.is_running) {
                thread.wait = thread.os_id.and_then(|id| wait::of_thread(self.pid, id));
            }
        }
        let python = self.python_version();
        Ok(Snapshot { pid: self.pid, argv: command_line(self.pid), python, threads })
    }

    /// Reads the threads that have Python frames, again if the process changed while it was read.
    pub fn python_threads(&mut self) -> Result<Vec<Thread>, AttachError> {
        let mut reason = String::new();
        for _ in 0..MAX_ATTEMPTS {
            match self.try_read() {
                Ok(threads) => return Ok(threads),
                Err(failed) => reason = failed,
            }
            if !process::is_alive(self.pid) {
                return Err(AttachError::NoProcess(self.pid));
            }
        }
        Err(AttachError::Unreadable { pid: self.pid, reason })
    }

    /// Reads the threads that have Python frames, once. Returns the reason for a failure, which is
    /// to be expected now and then.
    pub fn try_read(&mut self) -> Result<Vec<Thread>, String> {
        let stacks = self.spy.get_stack_traces().map_err(|error| format!("{error:#}"))?;
        let mut threads: Vec<Thread> = stacks.into_iter().map(|stack| self.thread(stack)).collect();
        threads.sort_by_key(|thread| thread.os_id);
        Ok(threads)
    }

    fn thread(&self, stack: StackTrace) -> Thread {
        let os_id = stack.os_thread_id.or_else(|| self.thread_id(stack.thread_id));
        let state = os_id.and_then(|id| process::state(self.pid, id));
        let name = stack.thread_name.filter(|name| !name.is_empty());
        Thread {
            os_id,
            name: name.or_else(|| self.kernel_name(os_id)).unwrap_or_default(),
            is_running: state.map_or(stack.active, |state| state == 'R'),
            holds_gil: stack.owns_gil,
            wait: None,
            has_native_frames: false,
            frames: stack.frames.into_iter().map(Frame::from).collect(),
        }
    }

    fn running_threads(&self) -> HashSet<u64> {
        let threads = process::threads(self.pid).into_iter();
        threads.filter(|&thread| process::state(self.pid, thread) == Some('R')).collect()
    }

    fn kernel_name(&self, os_id: Option<u64>) -> Option<String> {
        os_id.map(|id| process::thread_name(self.pid, id))
    }

    /// Returns the system's id of a thread by the address of its `struct pthread`, which is
    /// CPython's id of the thread. CPython 3.10 has no other.
    fn thread_id(&self, pthread: u64) -> Option<u64> {
        /// Position of the field `tid` in glibc's `struct pthread`.
        const TID_OFFSET: u64 = if cfg!(target_arch = "x86_64") { 720 } else { 208 };
        let memory = fs::File::open(format!("/proc/{}/mem", self.pid)).ok()?;
        let mut bytes = [0; 4];
        let offset = pthread.checked_add(TID_OFFSET)?;
        std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, offset).ok()?;
        let id = u64::from(u32::from_ne_bytes(bytes));
        process::threads(self.pid).contains(&id).then_some(id)
    }

    /// Adds the threads that Python does not know, such as those of OpenMP.
    fn add_native_threads(&self, threads: &mut Vec<Thread>) {
        let known: HashSet<u64> = threads.iter().filter_map(|thread| thread.os_id).collect();
        let native = process::threads(self.pid).into_iter().filter(|id| !known.contains(id));
        threads.extend(native.map(|id| Thread {
            os_id: Some(id),
            name: process::thread_name(self.pid, id),
            is_running: process::state(self.pid, id) == Some('R'),
            holds_gil: false,
            wait: None,
            has_native_frames: false,
            frames: Vec::new(),
        }));
    }
}

impl From<py_spy::Frame> for Frame {
    fn from(frame: py_spy::Frame) -> Self {
        let locals = frame.locals.unwrap_or_default().into_iter();
        let locals = locals.map(|local| (local.name, local.repr.unwrap_or_default())).collect();
        Self {
            function: frame.name,
            file: frame.filename,
            line: frame.line,
            is_native: false,
            is_entry: frame.is_entry || frame.is_shim_entry,
            locals,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Returns why a process cannot be read at all, before anything else is tried.
fn check_access(pid: u32) -> Result<(), AttachError> {
    if !process::is_alive(pid) {
        return Err(AttachError::NoProcess(pid));
    }
    // The same check of the kernel as for process_vm_readv.
    match fs::File::open(format!("/proc/{pid}/mem")) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(AttachError::Forbidden(pid))
        }
        _ => Ok(()),
    }
}

/// Whether a process runs a free-threaded build, by the names of its files.
fn runs_free_threaded(pid: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().filter_map(|line| line.rsplit('/').next()).any(process::is_free_threaded)
}
