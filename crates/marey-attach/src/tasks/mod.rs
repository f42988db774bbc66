//! Reads the tasks of asyncio's event loops from the memory of a process: the stack of each, and
//! what it waits for.
//!
//! The loops run meanwhile. So a task that has just begun may be missing, and one that has just
//! ended may be shown. Tasks that could not be read are counted.

mod find;
mod waits;

use serde::Serialize;

use crate::memory::MappedFile;
use crate::object::{Address, Objects, Progress};
use crate::target::{Frame, Thread};

/// The maximum number of tasks that are read of a process.
const MAX_TASKS: usize = 10_000;
/// The maximum number of attempts to read a task, or a list of tasks, that changes meanwhile.
const MAX_ATTEMPTS: usize = 3;

/// A task of an event loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Task {
    /// Name of the task.
    pub name: String,
    /// Id in the operating system of the thread that runs the event loop, if it is known.
    pub thread: Option<u64>,
    /// Progress of the task.
    pub state: TaskState,
    /// The thing that the task waits for, such as `a timer` or ``task `load` ``, if it waits.
    pub waits_for: Option<String>,
    /// Frames of the coroutine and of those that it awaits, the innermost first.
    pub frames: Vec<Frame>,
}

/// The progress of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// The thread of the event loop runs the task.
    Running,
    /// The task can go on, and waits only for its turn.
    Ready,
    /// The task waits for something else.
    Waiting,
    /// The task has ended, but something still refers to it.
    Done,
}

/// The tasks of running event loops, as far as they could be read.
#[derive(Debug, Default)]
pub(crate) struct ReadTasks {
    /// The tasks, ordered by thread and name.
    pub(crate) tasks: Vec<Task>,
    /// Number of tasks beyond the limit.
    pub(crate) omitted: usize,
    /// Number of tasks and lists of tasks that changed during each attempt to read them.
    pub(crate) torn: usize,
}

/// The error for an object that changed while it was read.
#[derive(Clone, Copy, Debug)]
struct Torn;

/// Reads the tasks of the running event loops of an interpreter. There are none without asyncio.
pub(crate) fn read(
    objects: &Objects<'_>,
    interpreter: Address,
    files: &[MappedFile],
    threads: &[Thread],
) -> ReadTasks {
    let found = find::tasks(objects, interpreter, files);
    let mut read = ReadTasks {
        omitted: found.tasks.len().saturating_sub(MAX_TASKS),
        torn: found.torn,
        ..ReadTasks::default()
    };
    let reader = TaskReader { objects, threads };
    for task in found.tasks.into_iter().take(MAX_TASKS) {
        match (0..MAX_ATTEMPTS).find_map(|_| reader.task(task).ok()) {
            Some(task) => read.tasks.extend(task),
            None => read.torn += 1,
        }
    }
    read.tasks
        .sort_by(|a, b| (a.thread, natural_key(&a.name)).cmp(&(b.thread, natural_key(&b.name))));
    read
}

/// Returns a sort key for names by which `Task-2` comes before `Task-10`.
fn natural_key(name: &str) -> (&str, Option<u64>, &str) {
    let text = name.trim_end_matches(|character: char| character.is_ascii_digit());
    (text, name[text.len()..].parse().ok(), name)
}

/// Reads tasks by their addresses.
#[derive(Clone, Copy)]
struct TaskReader<'a> {
    objects: &'a Objects<'a>,
    threads: &'a [Thread],
}

impl TaskReader<'_> {
    /// Returns a task, `None` if its event loop does not run.
    fn task(self, task: Address) -> Result<Option<Task>, Torn> {
        let objects = self.objects;
        let event_loop = self.field(task, waits::LOOP_OFFSET, "_loop").ok_or(Torn)?;
        let ident = match objects.instance_attribute(event_loop, "_thread_id") {
            Some(ident) if self.is_none(ident) => return Ok(None),
            Some(ident) => Some(objects.unsigned_integer(ident).ok_or(Torn)?),
            // A loop without this attribute, such as that of uvloop, does not tell its thread. It
            // is taken to run.
            None => None,
        };
        let thread = self.threads.iter().find(|thread| Some(thread.ident) == ident);
        let thread = thread.and_then(|thread| thread.os_id);
        let name = self.name(task).ok_or(Torn)?;
        let (state, waits_for, frames) = if self.is_done(task).ok_or(Torn)? {
            (TaskState::Done, None, Vec::new())
        } else {
            self.activity(task).ok_or(Torn)?
        };
        Ok(Some(Task { name, thread, state, waits_for, frames }))
    }

    /// Returns the state of a task that has not ended, the thing that it waits for, and its frames.
    fn activity(self, task: Address) -> Option<(TaskState, Option<String>, Vec<Frame>)> {
        let layout = self.objects.layout;
        let coroutine = self.field(task, layout.task_coroutine, "_coro")?;
        let chain = self.objects.await_chain(coroutine);
        let (progress, frames) =
            chain.map_or((Progress::Suspended, Vec::new()), |chain| (chain.progress, chain.frames));
        let waiter = self.field(task, layout.task_waiter, "_fut_waiter");
        let waiter = waiter.filter(|&waiter| self.is_done(waiter) == Some(false));
        Some(match (progress, waiter) {
            (Progress::Runs, _) => (TaskState::Running, None, frames),
            (_, Some(waiter)) => {
                (TaskState::Waiting, Some(self.awaited(waiter, frames.first())), frames)
            }
            _ => (TaskState::Ready, None, frames),
        })
    }

    fn name(self, task: Address) -> Option<String> {
        let name = self.field(task, self.objects.layout.task_name, "_name")?;
        // Since CPython 3.12 the name of an unnamed task is only its number until it is asked for.
        self.objects
            .text_of(name)
            .filter(|_| self.objects.type_name(name).as_deref() == Some("str"))
            .or_else(|| Some(format!("Task-{}", self.objects.unsigned_integer(name)?)))
    }

    /// Returns a field of a task or future: the word at `offset` in one of `_asyncio`, and the
    /// attribute of this name in one whose class is written in Python.
    fn field(self, object: Address, offset: u64, attribute: &str) -> Option<Address> {
        if self.is_c_object(object) {
            self.objects.reference(object, offset)
        } else {
            let value = self.objects.instance_attribute(object, attribute)?;
            (!self.is_none(value)).then_some(value)
        }
    }

    /// Whether a task or future is one of the C module `_asyncio`.
    fn is_c_object(self, object: Address) -> bool {
        let is_instance = |name| self.objects.is_instance(object, name);
        is_instance("_asyncio.Task") || is_instance("_asyncio.Future")
    }

    fn is_none(self, object: Address) -> bool {
        self.objects.type_name(object).as_deref() == Some("NoneType")
    }
}
