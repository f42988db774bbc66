//! Finds the addresses of tasks: in the registers of the module `asyncio.tasks`, and since CPython
//! 3.14 in the linked lists of threads.

use std::collections::BTreeSet;

use super::{MAX_ATTEMPTS, Torn};
use crate::memory::{MappedFile, section_address};
use crate::object::{Address, Objects};

/// The maximum number of tasks that are found in one register or list.
const MAX_FOUND_TASKS: usize = 1 << 20;
/// The maximum number of thread states whose lists are read.
const MAX_THREADS: usize = 1 << 16;

/// Registers of the module `asyncio.tasks`: `_all_tasks` until 3.11, `_scheduled_tasks` and
/// `_eager_tasks` since 3.12.
const REGISTERS: [&str; 3] = ["_all_tasks", "_scheduled_tasks", "_eager_tasks"];

/// The tasks that were found.
#[derive(Default)]
pub(super) struct FoundTasks {
    /// The addresses of the tasks.
    pub(super) tasks: BTreeSet<Address>,
    /// Number of registers, lists and references that changed during each attempt to read them.
    pub(super) torn: usize,
}

impl FoundTasks {
    fn add(&mut self, list: Result<Self, Torn>) {
        match list {
            Ok(list) => {
                self.tasks.extend(list.tasks);
                self.torn += list.torn;
            }
            Err(Torn) => self.torn += 1,
        }
    }
}

/// Returns the tasks of an interpreter.
pub(super) fn tasks(
    objects: &Objects<'_>,
    interpreter: Address,
    files: &[MappedFile],
) -> FoundTasks {
    let mut found = FoundTasks::default();
    let Some(module) = objects.namespace(interpreter, "asyncio.tasks") else { return found };
    for register in REGISTERS.iter().filter_map(|name| objects.dictionary_value(module, name)) {
        found.add(retry(|| tasks_of_register(objects, register)));
    }
    if objects.layout.minor >= 14
        && let Some(offsets) = AsyncioOffsets::read(objects, files)
    {
        for head in offsets.heads(objects, interpreter) {
            found.add(retry(|| offsets.tasks_of_list(objects, head)));
        }
    }
    found
}

/// Returns the result of the first attempt that succeeds.
fn retry(read: impl Fn() -> Result<FoundTasks, Torn>) -> Result<FoundTasks, Torn> {
    (0..MAX_ATTEMPTS).find_map(|_| read().ok()).ok_or(Torn)
}

/// Returns the tasks of a `set`, or of a `WeakSet`.
fn tasks_of_register(objects: &Objects<'_>, register: Address) -> Result<FoundTasks, Torn> {
    if objects.type_name(register).as_deref() == Some("set") {
        let tasks = objects.set_elements(register, MAX_FOUND_TASKS).ok_or(Torn)?;
        return Ok(FoundTasks { tasks: tasks.into_iter().collect(), torn: 0 });
    }
    let data = objects.instance_attribute(register, "data");
    let references =
        data.and_then(|data| objects.set_elements(data, MAX_FOUND_TASKS)).ok_or(Torn)?;
    let mut found = FoundTasks::default();
    for task in references.into_iter().filter_map(|reference| objects.referent(reference)) {
        match objects.type_name(task).as_deref() {
            // A reference to a task that has ended refers to None.
            Some("NoneType") => {}
            Some(_) => {
                found.tasks.insert(task);
            }
            None => found.torn += 1,
        }
    }
    Ok(found)
}

/// Offsets of fields that the module `_asyncio` publishes in its section `.AsyncioDebug`.
struct AsyncioOffsets {
    /// Task: its node in a list.
    task_node: u64,
    /// Interpreter: the list of tasks.
    interpreter_tasks: u64,
    /// Thread state: the list of tasks.
    thread_tasks: u64,
}

impl AsyncioOffsets {
    fn read(objects: &Objects<'_>, files: &[MappedFile]) -> Option<Self> {
        /// Words in the table, which describes a task, an interpreter and a thread.
        const WORDS: usize = 13;
        const TASK_NODE: usize = 6;
        const INTERPRETER_TASKS: usize = 8;
        const THREAD_TASKS: usize = 12;
        let table = files.iter().find_map(|file| section_address(file, ".AsyncioDebug"))?;
        let table: [u8; 8 * WORDS] = objects.bytes(table, 0).ok()?;
        let word = |index: usize| {
            table.as_chunks::<8>().0.get(index).map(|&word| u64::from_ne_bytes(word))
        };
        Some(Self {
            task_node: word(TASK_NODE)?,
            interpreter_tasks: word(INTERPRETER_TASKS)?,
            thread_tasks: word(THREAD_TASKS)?,
        })
    }

    /// Returns the heads of the lists of tasks: one list for each thread, and the interpreter's for
    /// ended threads.
    fn heads(&self, objects: &Objects<'_>, interpreter: Address) -> Vec<Address> {
        const NEXT: u64 = 8;
        let mut heads = Vec::from_iter(interpreter.checked_add(self.interpreter_tasks));
        let mut thread = objects.reference(interpreter, objects.layout.first_thread);
        while let Some(address) = thread.filter(|_| heads.len() < MAX_THREADS) {
            heads.extend(address.checked_add(self.thread_tasks));
            thread = objects.reference(address, NEXT);
        }
        heads
    }

    /// Returns the tasks of a circular list.
    fn tasks_of_list(&self, objects: &Objects<'_>, head: Address) -> Result<FoundTasks, Torn> {
        let mut tasks = Vec::new();
        let mut node = objects.reference(head, 0).ok_or(Torn)?;
        while node != head && tasks.len() < MAX_FOUND_TASKS {
            tasks.extend(node.checked_sub(self.task_node));
            node = objects.reference(node, 0).ok_or(Torn)?;
        }
        Ok(FoundTasks { tasks: tasks.into_iter().collect(), torn: 0 })
    }
}
