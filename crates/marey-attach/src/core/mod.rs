//! Reads the stacks of a process that has ended from its core file.
//!
//! A core file lacks some memory, such as that of machine code. It is read from the files that the
//! process had mapped, so these must not have changed since.

mod image;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use marey_model::redact;
use nix::sys::signal::Signal;
use serde::Serialize;
use thiserror::Error;

use self::image::{CoreImage, CoreThread};
use crate::memory::{MappedFile, exported_address};
use crate::object::{Address, MAX_READS, ObjectLayout, Objects, ReadMemory, ThreadState};
use crate::target::{Snapshot, Thread};
use crate::tasks::{self, ReadTasks};
use crate::wait;

/// Why a core file cannot be read.
#[derive(Debug, Error)]
pub enum CoreError {
    /// The file is not a core file, or is truncated.
    #[error("{path} cannot be read as a core file: {source}")]
    NotCore {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file that the process had mapped has been replaced.
    #[error("{0} is not the file that the process had mapped")]
    Replaced(PathBuf),
    /// No file that the process had mapped is a Python interpreter.
    #[error("{path} has no CPython that can be read: {reason}")]
    NotPython {
        /// The core file.
        path: PathBuf,
        /// The part that is missing.
        reason: String,
    },
}

impl CoreError {
    /// Returns how to mend the error, if that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotCore { .. } => Some(
                "write a core file with gcore PID, or take one of systemd with coredumpctl dump PID -o FILE"
                    .to_owned(),
            ),
            Self::Replaced(_) | Self::NotPython { .. } => Some(
                "--executable PATH names the program of the process; libraries must be where they were"
                    .to_owned(),
            ),
        }
    }
}

/// The stacks in a core file.
#[derive(Debug, Serialize)]
pub struct CoreSnapshot {
    /// Threads and tasks.
    #[serde(flatten)]
    pub snapshot: Snapshot,
    /// The signal that has ended the process, `None` if the process went on.
    pub signal: Option<FatalSignal>,
}

/// A signal that ends a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FatalSignal {
    /// Name, such as `SIGSEGV`.
    pub name: &'static str,
    /// Id in the operating system of the thread that received the signal.
    pub thread: u64,
}

impl CoreSnapshot {
    /// Reads a core file. `executable` is the program of the process, if its path has changed.
    pub fn read(path: &Path, executable: Option<&Path>) -> Result<Self, CoreError> {
        let image = CoreImage::open(path, executable)
            .map_err(|source| CoreError::NotCore { path: path.to_owned(), source })?;
        let not_python = |reason| CoreError::NotPython { path: path.to_owned(), reason };
        let files = image.loaded_files();
        let runtime = Runtime::find(&image, &files)?.map_err(not_python)?;
        let objects = Objects::new(&image, &runtime.layout, MAX_READS);
        let interpreters = objects.interpreters(runtime.address);
        let python = interpreters.iter().find_map(|&interpreter| version(&objects, interpreter));
        let python =
            python.ok_or_else(|| not_python("its interpreter was not found".to_owned()))?;

        let argv = interpreters.iter().find_map(|&interpreter| arguments(&objects, interpreter));

        let mut threads = Vec::new();
        let mut all_tasks = Vec::new();
        let (mut omitted_tasks, mut torn_tasks) = (0, 0);
        for interpreter in interpreters {
            let interpreter_threads =
                python_threads(&image, &objects, runtime.address, interpreter);
            let ReadTasks { tasks, omitted, torn } =
                tasks::read(&objects, interpreter, &files, &interpreter_threads);
            threads.extend(interpreter_threads);
            all_tasks.extend(tasks);
            omitted_tasks += omitted;
            torn_tasks += torn;
        }
        threads.sort_by_key(|thread| thread.os_id);
        add_native_threads(&mut threads, &image.threads);
        let signal = image.threads.first().and_then(fatal_signal);
        let argv = argv.unwrap_or_else(|| image.command.split(' ').map(str::to_owned).collect());
        let argv = redact::redact_argv(&argv);
        let pid = image.pid;
        let tasks = all_tasks;
        let snapshot = Snapshot { pid, argv, python, threads, tasks, omitted_tasks, torn_tasks };
        Ok(Self { snapshot, signal })
    }
}

/// The runtime of CPython (`_PyRuntime`) in the memory of a process.
struct Runtime {
    address: Address,
    layout: ObjectLayout,
}

impl Runtime {
    /// Finds the runtime by the symbols of the program or of `libpython`. The inner error says why
    /// there is none.
    fn find(image: &CoreImage, files: &[MappedFile]) -> Result<Result<Self, String>, CoreError> {
        let mut reason = "no program or library with the symbols of CPython was mapped".to_owned();
        for file in files {
            let is_missing = file.open().is_err();
            if is_missing && file.is_python() {
                reason = format!("{} is missing", file.path.display());
            }
            let Some(address) = exported_address(file, "_PyRuntime") else { continue };
            if is_replaced(image, file) {
                return Err(CoreError::Replaced(file.path.clone()));
            }
            return Ok(Self::read(image, file, address));
        }
        Ok(Err(reason))
    }

    /// Reads the version and the layout of the runtime at `address`, whose symbols are in `file`.
    fn read(image: &CoreImage, file: &MappedFile, address: Address) -> Result<Self, String> {
        let minor = match exported_address(file, "Py_Version") {
            Some(version) => {
                let mut bytes = [0; 4];
                image.read_into(version, &mut bytes).ok_or("its version cannot be read")?;
                u64::from(u32::from_ne_bytes(bytes) >> 16 & 0xff)
            }
            // CPython 3.10 does not export its version.
            None => 10,
        };
        let layout = ObjectLayout::of_runtime(image, address, minor)?;
        Ok(Self { address, layout })
    }
}

/// Whether the first bytes of a file differ from those in the core file.
fn is_replaced(image: &CoreImage, file: &MappedFile) -> bool {
    const HEAD_BYTES: usize = 1024;
    let (mut recorded, mut current) = ([0; HEAD_BYTES], [0; HEAD_BYTES]);
    let is_recorded = image.read_into(file.start, &mut recorded).is_some();
    let read_current = |opened: std::fs::File| {
        std::os::unix::fs::FileExt::read_exact_at(&opened, &mut current, file.offset).ok()
    };
    is_recorded && file.open().ok().and_then(read_current).is_some() && recorded != current
}

/// Returns the version of an interpreter, such as `3.11.7`. `None` if the memory is not that of an
/// interpreter.
fn version(objects: &Objects<'_>, interpreter: Address) -> Option<String> {
    let text = objects
        .text_of(objects.dictionary_value(objects.namespace(interpreter, "sys")?, "version")?)?;
    let version = text.split(' ').next()?;
    version.starts_with(&format!("3.{}.", objects.layout.minor)).then(|| version.to_owned())
}

/// Returns the arguments of the process from `sys.orig_argv`. Those of the core file are truncated.
fn arguments(objects: &Objects<'_>, interpreter: Address) -> Option<Vec<String>> {
    const MAX_ARGUMENTS: u64 = 1_000;
    let list = objects.dictionary_value(objects.namespace(interpreter, "sys")?, "orig_argv")?;
    objects.list_items(list, MAX_ARGUMENTS)?.into_iter().map(|text| objects.text_of(text)).collect()
}

/// Returns the threads of an interpreter with their frames.
fn python_threads(
    image: &CoreImage,
    objects: &Objects<'_>,
    runtime: Address,
    interpreter: Address,
) -> Vec<Thread> {
    let names: HashMap<u64, String> = objects.thread_names(interpreter).into_iter().collect();
    let gil_struct = if objects.layout.minor < 12 { runtime } else { interpreter };
    let mut states = Vec::new();
    // Threads and frames whose memory the core file lacks are left out.
    objects.thread_states(Some(gil_struct), interpreter, &mut states).unwrap_or_default();
    let thread = |ThreadState { address, ident, os_id, holds_gil }| {
        let mut frames = Vec::new();
        objects.read_frames(address, &mut frames).unwrap_or_default();
        let core_thread = image.threads.iter().find(|thread| Some(thread.os_id) == os_id);
        let name = names.get(&ident).cloned().unwrap_or_default();
        Thread { ident, holds_gil, frames, ..native_thread(name, core_thread) }
    };
    states.into_iter().map(thread).collect()
}

/// Adds the threads that have no thread state of Python.
fn add_native_threads(threads: &mut Vec<Thread>, core_threads: &[CoreThread]) {
    let known_ids: HashSet<u64> = threads.iter().filter_map(|thread| thread.os_id).collect();
    let native_threads = core_threads.iter().filter(|thread| !known_ids.contains(&thread.os_id));
    // The names are empty, because a core file has none.
    threads.extend(native_threads.map(|thread| native_thread(String::new(), Some(thread))));
}

fn native_thread(name: String, core_thread: Option<&CoreThread>) -> Thread {
    let system_call = core_thread.and_then(|core_thread| core_thread.system_call);
    let wait = system_call.and_then(|(call_number, first_argument)| {
        wait::of_call(call_number, Some(first_argument), |_| None)
    });
    Thread {
        os_id: core_thread.map(|core_thread| core_thread.os_id),
        name,
        is_running: core_thread.is_some_and(|core_thread| core_thread.system_call.is_none()),
        wait,
        ..Thread::default()
    }
}

/// Returns the signal that has ended a process, and the thread that received it.
fn fatal_signal(thread: &CoreThread) -> Option<FatalSignal> {
    const FATAL: [Signal; 8] = [
        Signal::SIGQUIT,
        Signal::SIGILL,
        Signal::SIGABRT,
        Signal::SIGBUS,
        Signal::SIGFPE,
        Signal::SIGSEGV,
        Signal::SIGSYS,
        Signal::SIGXCPU,
    ];
    let signal = Signal::try_from(thread.signal).ok().filter(|signal| FATAL.contains(signal))?;
    Some(FatalSignal { name: signal.as_str(), thread: thread.os_id })
}
