//! The addresses of tasks: those that asyncio's registers have, and since CPython 3.14 those in the
//! lists of threads.

use std::collections::BTreeSet;

use crate::memory::{Mapped, section_address};
use crate::object::{Address, Objects};

/// Tasks that are looked for.
const MAX_FOUND: usize = 1 << 20;
/// Thread states that are looked at.
const MAX_THREADS: usize = 1 << 16;

/// Registers of the module `asyncio.tasks`: `_all_tasks` until 3.11, `_scheduled_tasks` and
/// `_eager_tasks` since 3.12.
const REGISTERS: [&str; 3] = ["_all_tasks", "_scheduled_tasks", "_eager_tasks"];

/// Returns the addresses of the tasks of an interpreter, in ascending order.
pub(super) fn tasks(objects: &Objects<'_>, interpreter: Address, files: &[Mapped]) -> Vec<Address> {
    let Some(module) = objects.namespace(interpreter, "asyncio.tasks") else { return Vec::new() };
    let mut found = BTreeSet::new();
    for name in REGISTERS {
        found.extend(
            objects
                .get(module, name)
                .into_iter()
                .flat_map(|register| registered(objects, register)),
        );
    }
    if objects.layout.minor >= 14 {
        found.extend(listed(objects, interpreter, files).unwrap_or_default());
    }
    found.into_iter().collect()
}

/// Returns the tasks of a `set`, or of a `WeakSet`.
fn registered(objects: &Objects<'_>, register: Address) -> Vec<Address> {
    if objects.type_name(register).as_deref() == Some("set") {
        return objects.set(register, MAX_FOUND).unwrap_or_default();
    }
    let data = objects.instance_attribute(register, "data");
    let references = data.and_then(|data| objects.set(data, MAX_FOUND)).unwrap_or_default();
    let tasks = references.into_iter().filter_map(|reference| objects.referent(reference));
    // A reference to a task that has ended refers to None.
    tasks.filter(|&task| objects.type_name(task).is_some_and(|name| name != "NoneType")).collect()
}

/// Returns the tasks in the lists of threads, and in that of threads that have ended.
fn listed(objects: &Objects<'_>, interpreter: Address, files: &[Mapped]) -> Option<Vec<Address>> {
    let offsets = Offsets::read(objects, files)?;
    let mut heads = vec![interpreter.checked_add(offsets.interpreter_tasks)?];
    let mut thread = objects.reference(interpreter, objects.layout.threads);
    while let Some(address) = thread.filter(|_| heads.len() < MAX_THREADS) {
        const NEXT: u64 = 8;
        heads.push(address.checked_add(offsets.thread_tasks)?);
        thread = objects.reference(address, NEXT);
    }
    let mut found = Vec::new();
    for head in heads {
        let mut node = objects.reference(head, 0);
        while let Some(address) = node.filter(|&node| node != head && found.len() < MAX_FOUND) {
            found.extend(address.checked_sub(offsets.node));
            node = objects.reference(address, 0);
        }
    }
    Some(found)
}

/// Positions that `_asyncio` publishes of its own structures.
struct Offsets {
    /// Task: its node in a list.
    node: u64,
    /// Interpreter: the list of tasks.
    interpreter_tasks: u64,
    /// Thread state: the list of tasks.
    thread_tasks: u64,
}

impl Offsets {
    fn read(objects: &Objects<'_>, files: &[Mapped]) -> Option<Self> {
        /// Words in the table: of a task, of an interpreter, of a thread.
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
            node: word(TASK_NODE)?,
            interpreter_tasks: word(INTERPRETER_TASKS)?,
            thread_tasks: word(THREAD_TASKS)?,
        })
    }
}
