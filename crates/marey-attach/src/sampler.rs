//! Repeated readings of the Python threads of a process.
//!
//! A sample costs one system call for all that the sample before has read, one for the state of each
//! thread, and one for each part of a stack that is new.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::AttachError;
use crate::memory::ProcessMemory;
use crate::object::{Address, MAX_READS, ObjectLayout, Objects, ThreadState};
use crate::process::{self, ThreadIds};
use crate::reread::RereadMemory;
use crate::target::{Target, Thread, runtime_address};

/// Readings of a sample, of which all but the last may fail.
const MAX_ATTEMPTS: u32 = 3;
/// Files of threads that are open at the same time, of the 1,024 that a program may mostly open.
const MAX_OPEN_FILES: usize = 512;
/// Names that are kept.
const MAX_NAMES: usize = 1 << 12;
/// Time after which names are read again for threads that had none in Python.
const NAME_LIFETIME: Duration = Duration::from_secs(1);

/// Reads the Python threads of a process many times.
pub struct Sampler {
    memory: RereadMemory,
    layout: ObjectLayout,
    interpreter: Address,
    /// The structure that has the lock of the interpreter, if it is known.
    gil_struct: Option<Address>,
    samples_idle: bool,
    thread_ids: ThreadIds,
    state_files: ThreadStateFiles,
    names: ThreadNames,
}

impl Sampler {
    /// Prepares to sample the threads of a process that run, and with `samples_idle` also those that wait.
    pub fn new(target: &Target, samples_idle: bool) -> Result<Self, AttachError> {
        let pid = target.pid();
        let (Some(memory), Some(memory_of_names)) =
            (ProcessMemory::open(pid), ProcessMemory::open(pid))
        else {
            return Err(AttachError::Forbidden(pid));
        };
        let interpreter = target.interpreter_address();
        let layout = target.layout(&memory)?;
        let gil_struct = if layout.minor < 12 { runtime_address(pid) } else { Some(interpreter) };
        Ok(Self {
            memory: RereadMemory::new(pid, memory),
            layout,
            interpreter,
            gil_struct,
            samples_idle,
            thread_ids: ThreadIds::new(pid),
            state_files: ThreadStateFiles { pid, files: HashMap::new() },
            names: ThreadNames::new(pid, memory_of_names),
        })
    }

    /// Reads the threads that have Python frames. Returns the reason for a failure, which is to be
    /// expected now and then because the process runs meanwhile.
    pub fn sample(&mut self) -> Result<Vec<Thread>, &'static str> {
        // Most failures are of stacks that change fast, which the samples would otherwise lack.
        for _ in 1..MAX_ATTEMPTS {
            if let Ok(threads) = self.try_sample() {
                return Ok(threads);
            }
        }
        self.try_sample()
    }

    fn try_sample(&mut self) -> Result<Vec<Thread>, &'static str> {
        let began = Instant::now();
        self.memory.begin_pass();
        let objects = Objects::new(&self.memory, &self.layout, MAX_READS);
        let mut python_states = Vec::new();
        let listed = objects.thread_states(self.gil_struct, self.interpreter, &mut python_states);
        listed.map_err(|_changed| "the list of threads changed")?;
        self.thread_ids.update(python_states.iter().filter_map(|state| state.os_id));
        let mut threads = Vec::new();
        for mut state in python_states {
            state.os_id = state.os_id.and_then(|id| self.thread_ids.outer_id(id));
            let is_running = state.os_id.and_then(|id| self.state_files.is_running(id));
            if is_running.is_none() {
                state.os_id = None;
            }
            let is_running = is_running.unwrap_or(state.holds_gil);
            if !is_running && !self.samples_idle {
                continue;
            }
            let mut frames = Vec::new();
            let stack = objects.read_frames(state.address, &mut frames);
            stack.map_err(|_changed| "a stack changed")?;
            if frames.is_empty() {
                continue;
            }
            let name = self.names.of_thread(&state, began, |memory| {
                Objects::new(memory, &self.layout, MAX_READS).thread_names(self.interpreter)
            });
            threads.push(Thread {
                os_id: state.os_id,
                ident: state.ident,
                name,
                is_running,
                holds_gil: state.holds_gil,
                frames,
                ..Thread::default()
            });
        }
        Ok(threads)
    }
}

/// The states of the threads of a process, whose files stay open.
struct ThreadStateFiles {
    pid: u32,
    files: HashMap<u64, File>,
}

impl ThreadStateFiles {
    /// Whether a thread runs or is ready to run; `None` if it has ended.
    fn is_running(&mut self, thread: u64) -> Option<bool> {
        const STAT_BYTES: usize = 512;
        if self.files.len() > MAX_OPEN_FILES {
            self.files.clear();
        }
        if !self.files.contains_key(&thread) {
            let file = File::open(process::thread_file(self.pid, thread, "stat")).ok()?;
            self.files.insert(thread, file);
        }
        let mut stat = [0; STAT_BYTES];
        match self.files.get(&thread)?.read_at(&mut stat, 0) {
            Ok(length) => process::state_in(stat.get(..length)?).map(|state| state == b'R'),
            Err(_ended) => {
                self.files.remove(&thread);
                None
            }
        }
    }
}

/// The names of the threads of a process.
struct ThreadNames {
    pid: u32,
    memory: ProcessMemory,
    /// Names in Python by the ids in Python, which threads may get again.
    python_names: HashMap<u64, String>,
    /// When they were read.
    last_read: Option<Instant>,
    /// Names in Python of threads that were seen, by both of their ids; `None` for none.
    seen: HashMap<(u64, Option<u64>), Option<String>>,
}

impl ThreadNames {
    fn new(pid: u32, memory: ProcessMemory) -> Self {
        Self { pid, memory, python_names: HashMap::new(), last_read: None, seen: HashMap::new() }
    }

    /// Returns the name of a thread in Python, else that in the operating system.
    fn of_thread(
        &mut self,
        thread: &ThreadState,
        sample_began: Instant,
        read_names: impl FnOnce(&ProcessMemory) -> Vec<(u64, String)>,
    ) -> String {
        let key = (thread.ident, thread.os_id);
        let seen = self.seen.get(&key);
        if let Some(Some(name)) = seen {
            return name.clone();
        }
        let is_due = self.last_read.is_none_or(|last_read| {
            last_read < sample_began && (seen.is_none() || last_read.elapsed() > NAME_LIFETIME)
        });
        if is_due {
            self.python_names = read_names(&self.memory).into_iter().collect();
            self.last_read = Some(Instant::now());
        }
        if self.seen.len() >= MAX_NAMES {
            self.seen.clear();
        }
        let name = self.python_names.get(&thread.ident).cloned();
        self.seen.insert(key, name.clone());
        name.or_else(|| Some(process::thread_name(self.pid, thread.os_id?))).unwrap_or_default()
    }
}
