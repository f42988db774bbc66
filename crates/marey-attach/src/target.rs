//! A Python process and its stacks.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::time::Duration;

use py_spy::config::{LineNo, LockingStrategy};
use py_spy::{Config, PythonSpy, StackTrace};
use serde::{Deserialize, Serialize};

use crate::AttachError;
use crate::memory::{MappedFile, ProcessMemory, exported_address, mapped_files};
use crate::native::StackCopies;
use crate::object::{MAX_READS, ObjectLayout, Objects, OffsetTable};
use crate::process::{self, ThreadIds, command_line};
use crate::stop::{StopError, StoppedTime, while_stopped};
use crate::tasks::{self, ReadTasks, Task};
use crate::wait::{self, Wait};

/// Attempts to find the interpreter of a process.
const MAX_OPEN_ATTEMPTS: u32 = 5;
/// Readings of a running process that may fail one after another.
const MAX_ATTEMPTS: u32 = 20;
/// Time in which all threads must stop for their native frames.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Position of the system's thread id (`tid`) in glibc's `struct pthread`.
pub(crate) const PTHREAD_THREAD_ID: u64 = if cfg!(target_arch = "x86_64") { 720 } else { 208 };

/// The parts of a process to read.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub struct ReadOptions {
    /// Whether to read the local variables of each frame.
    pub reads_locals: bool,
    /// Whether to read what sleeping threads wait for.
    pub reads_waits: bool,
    /// Whether to read the tasks of asyncio's event loops.
    pub reads_tasks: bool,
    /// Whether to read native frames, for which the process is stopped for a moment.
    pub reads_native_frames: bool,
}

/// A Python process that can be read.
pub struct Target {
    pid: u32,
    options: ReadOptions,
    spy: PythonSpy,
    thread_ids: ThreadIds,
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
    /// Tasks of asyncio's event loops, by thread and name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
    /// Tasks that were not read, because there are too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub omitted_tasks: usize,
    /// Tasks that could not be read, because they changed meanwhile: at least so many.
    #[serde(skip_serializing_if = "is_zero")]
    pub torn_tasks: usize,
}

/// A thread at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Thread {
    /// Thread id in the operating system; `None` if it is unknown, as in some builds of CPython
    /// 3.10.
    pub os_id: Option<u64>,
    /// Thread id in Python (`threading.get_ident`); 0 for a thread that Python does not know.
    #[serde(skip)]
    pub ident: u64,
    /// Name in Python, else in the operating system.
    pub name: String,
    /// Whether it runs or is ready to run.
    pub is_running: bool,
    /// Whether it holds the global interpreter lock.
    pub holds_gil: bool,
    /// The wait, if the thread sleeps in a known system call.
    pub wait: Option<Wait>,
    /// Whether `frames` has the native frames.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_native_frames: bool,
    /// Frames of Python, and native ones if they were asked for, the innermost first.
    pub frames: Vec<Frame>,
}

/// A frame of Python, or a native one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Frame {
    /// Name of the function.
    pub function: String,
    /// Path of the source file, as the code object has it; of a native frame, that of its library.
    pub file: String,
    /// Line in progress, from 1; 0 in a native frame.
    pub line: i32,
    /// Whether it is a native frame.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
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
    pub fn open(pid: u32, options: ReadOptions) -> Result<Self, AttachError> {
        check_access(pid)?;
        if runs_free_threaded(pid) {
            return Err(AttachError::FreeThreaded(pid));
        }
        let config = Config {
            blocking: LockingStrategy::NonBlocking,
            dump_locals: u64::from(options.reads_locals),
            lineno: LineNo::LastInstruction,
            collect_thread_names: true,
            full_filenames: true,
            ..Config::default()
        };
        // The interpreter is checked by reading stacks, which fails where they change meanwhile.
        let mut attempts = 1;
        let spy = loop {
            match PythonSpy::new(pid.cast_signed(), &config) {
                Ok(spy) => break spy,
                Err(_) if attempts < MAX_OPEN_ATTEMPTS && process::is_alive(pid) => attempts += 1,
                Err(error) => {
                    return Err(AttachError::NotPython { pid, reason: format!("{error:#}") });
                }
            }
        };
        Ok(Self { pid, options, spy, thread_ids: ThreadIds::new(pid) })
    }

    /// Returns the version of CPython, such as `3.11.7`.
    pub fn python_version(&self) -> String {
        self.spy.version.to_string()
    }

    /// Returns the first two numbers of the version.
    pub(crate) const fn version(&self) -> (u64, u64) {
        (self.spy.version.major, self.spy.version.minor)
    }

    pub(crate) const fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the address of the main interpreter.
    pub(crate) const fn interpreter_address(&self) -> u64 {
        self.spy.addresses.interpreter_address as u64
    }

    /// Returns the address at which the interpreter has the address of `sys.modules`.
    pub(crate) const fn modules_address(&self) -> u64 {
        self.spy.addresses.imports_modules_address as u64
    }

    /// Reads all threads, again if the process changed while it was read.
    pub fn snapshot(&mut self) -> Result<Snapshot, AttachError> {
        let mut threads = if self.options.reads_native_frames {
            // Addresses that this read finds need not be looked for while the process is stopped.
            self.python_threads()?;
            // A thread that is stopped does not tell whether it ran.
            let running = self.running_threads();
            let (mut threads, copies) = self.stopped_threads()?;
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
        if self.options.reads_waits {
            for thread in threads.iter_mut().filter(|thread| !thread.is_running) {
                thread.wait = thread.os_id.and_then(|id| wait::of_thread(self.pid, id));
            }
        }
        let ReadTasks { tasks, omitted: omitted_tasks, torn: torn_tasks } =
            if self.options.reads_tasks {
                self.tasks(&threads).unwrap_or_default()
            } else {
                ReadTasks::default()
            };
        let (argv, python) = (command_line(self.pid), self.python_version());
        Ok(Snapshot { pid: self.pid, argv, python, threads, tasks, omitted_tasks, torn_tasks })
    }

    /// Reads the tasks of event loops; `None` in a version of CPython whose tasks cannot be read.
    fn tasks(&self, threads: &[Thread]) -> Option<ReadTasks> {
        let memory = ProcessMemory::open(self.pid)?;
        let layout = self.layout(&memory).ok()?;
        let interpreter = self.interpreter_address();
        let objects = Objects::new(&memory, &layout, MAX_READS);
        Some(tasks::read(&objects, interpreter, &mapped_files(self.pid), threads))
    }

    /// Returns the layout of the interpreter, with the offsets that the build itself has, else the reason why it cannot be
    /// read. A build without symbols has the layout of its version.
    pub(crate) fn layout(&self, memory: &ProcessMemory) -> Result<ObjectLayout, AttachError> {
        let (major, minor) = self.version();
        let layout = match runtime_address(self.pid) {
            Some(runtime) => ObjectLayout::of_runtime(memory, runtime, minor),
            None => ObjectLayout::for_version(major, minor)
                .copied()
                .ok_or_else(|| format!("CPython {major}.{minor} cannot be read yet")),
        };
        layout.map_err(|reason| AttachError::NotPython { pid: self.pid, reason })
    }

    /// Reads all threads and copies their stacks while they are stopped.
    fn stopped_threads(&mut self) -> Result<(Vec<Thread>, StackCopies), AttachError> {
        let pid = self.pid;
        let read = || {
            let mut threads = self.python_threads()?;
            self.add_native_threads(&mut threads);
            let copies = StackCopies::read(pid, &threads);
            Ok((threads, copies))
        };
        match while_stopped(pid, STOP_TIMEOUT, &mut StoppedTime::default(), read) {
            Ok(result) => result,
            Err(StopError::Refused) => Err(AttachError::NotStopped(pid)),
            Err(error) => Err(AttachError::Unreadable { pid, reason: error.reason() }),
        }
    }

    /// Reads the threads that have Python frames, again if the process changed while it was read.
    pub fn python_threads(&mut self) -> Result<Vec<Thread>, AttachError> {
        let mut reason = String::new();
        for _ in 0..MAX_ATTEMPTS {
            match self.read_threads_once() {
                Ok(threads) => return Ok(threads),
                Err(failure) => reason = failure,
            }
            if !process::is_alive(self.pid) {
                return Err(AttachError::NoProcess(self.pid));
            }
        }
        Err(AttachError::Unreadable { pid: self.pid, reason })
    }

    /// Reads the threads that have Python frames, once. Returns the reason for a failure.
    fn read_threads_once(&mut self) -> Result<Vec<Thread>, String> {
        let stacks = self.stacks()?;
        let mut threads: Vec<Thread> = stacks.into_iter().map(|stack| self.thread(stack)).collect();
        threads.sort_by_key(|thread| thread.os_id);
        Ok(threads)
    }

    /// Reads the stacks of all threads, once.
    pub(crate) fn stacks(&mut self) -> Result<Vec<StackTrace>, String> {
        let stacks = self.spy.get_stack_traces().map_err(|error| format!("{error:#}"))?;
        let inner: Vec<u64> = stacks.iter().filter_map(|stack| self.inner_id(stack)).collect();
        self.thread_ids.update(inner);
        Ok(stacks)
    }

    /// Returns the id in the operating system of the thread of a stack.
    pub(crate) fn os_id(&self, stack: &StackTrace) -> Option<u64> {
        let id = self.thread_ids.outer_id(self.inner_id(stack)?)?;
        process::state(self.pid, id).map(|_exists| id)
    }

    /// Returns the id of the thread of a stack in the namespace of the process.
    fn inner_id(&self, stack: &StackTrace) -> Option<u64> {
        stack.os_thread_id.or_else(|| self.os_id_of_pthread(stack.thread_id))
    }

    fn thread(&self, stack: StackTrace) -> Thread {
        let os_id = self.os_id(&stack);
        let state = os_id.and_then(|id| process::state(self.pid, id));
        let name = stack.thread_name.filter(|name| !name.is_empty());
        Thread {
            os_id,
            ident: stack.thread_id,
            name: name.or_else(|| self.kernel_name(os_id)).unwrap_or_default(),
            is_running: state.map_or(stack.active, |state| state == 'R'),
            holds_gil: stack.owns_gil,
            frames: stack.frames.into_iter().map(Frame::from).collect(),
            ..Thread::default()
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
    fn os_id_of_pthread(&self, pthread: u64) -> Option<u64> {
        let address = pthread.checked_add(PTHREAD_THREAD_ID)?;
        Some(ProcessMemory::open(self.pid)?.read(address).map(u32::from_ne_bytes)?.into())
    }

    /// Adds the threads that Python does not know, such as those of OpenMP.
    fn add_native_threads(&self, threads: &mut Vec<Thread>) {
        let known_ids: HashSet<u64> = threads.iter().filter_map(|thread| thread.os_id).collect();
        let native_ids =
            process::threads(self.pid).into_iter().filter(|id| !known_ids.contains(id));
        threads.extend(native_ids.map(|id| Thread {
            os_id: Some(id),
            name: process::thread_name(self.pid, id),
            is_running: process::state(self.pid, id) == Some('R'),
            ..Thread::default()
        }));
    }
}

#[cfg(test)]
impl Frame {
    /// Returns a frame of Python that native code has called.
    pub(crate) fn of_python(function: &str, file: &str, line: i32) -> Self {
        let (function, file) = (function.into(), file.into());
        Self { function, file, line, is_entry: true, ..Self::default() }
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
fn is_zero(value: &usize) -> bool {
    *value == 0
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

/// Whether a process runs a free-threaded build: by what its runtime says, else by the names of its
/// files.
fn runs_free_threaded(pid: u32) -> bool {
    let Some(memory) = ProcessMemory::open(pid) else { return false };
    let table = runtime_address(pid).and_then(|runtime| OffsetTable::read(&memory, runtime));
    table.map_or_else(
        || {
            let files = mapped_files(pid);
            let interpreters = files.iter().filter(|file| file.is_python());
            interpreters.map(MappedFile::name).any(|name| process::is_free_threaded(&name))
        },
        |table| table.is_free_threaded(),
    )
}

/// Returns the address of the runtime of CPython in a process.
pub(crate) fn runtime_address(pid: u32) -> Option<u64> {
    let files = mapped_files(pid);
    let mut interpreters = files.iter().filter(|file| file.is_python());
    interpreters.find_map(|file| exported_address(file, "_PyRuntime"))
}
