//! Tells in words what an asyncio task waits for.

use super::TaskReader;
use crate::object::Address;
use crate::target::Frame;

/// Offset of the event loop in a future and in a task.
pub(super) const LOOP_OFFSET: u64 = 16;

/// Functions of asyncio that wait: the end of the path of the file, the name, and the thing that
/// they wait for. CPython 3.10 has the names without a class.
const WAITING_FUNCTIONS: [(&str, &str, &str); 24] = [
    ("asyncio/tasks.py", "sleep", "a timer"),
    ("asyncio/tasks.py", "_wait", "other tasks"),
    ("asyncio/taskgroups.py", "TaskGroup.__aexit__", "the tasks of its group"),
    ("asyncio/taskgroups.py", "TaskGroup._aexit", "the tasks of its group"),
    ("asyncio/locks.py", "Lock.acquire", "a lock"),
    ("asyncio/locks.py", "Semaphore.acquire", "a semaphore"),
    ("asyncio/locks.py", "Event.wait", "an event"),
    ("asyncio/locks.py", "Condition.wait", "a condition"),
    ("asyncio/locks.py", "acquire", "a lock or a semaphore"),
    ("asyncio/locks.py", "wait", "an event or a condition"),
    ("asyncio/queues.py", "Queue.get", "an item of a queue"),
    ("asyncio/queues.py", "Queue.put", "room in a queue"),
    ("asyncio/queues.py", "get", "an item of a queue"),
    ("asyncio/queues.py", "put", "room in a queue"),
    ("asyncio/streams.py", "StreamReader._wait_for_data", "data"),
    ("asyncio/streams.py", "_wait_for_data", "data"),
    ("asyncio/streams.py", "FlowControlMixin._drain_helper", "a reader of its data"),
    ("asyncio/streams.py", "_drain_helper", "a reader of its data"),
    ("asyncio/selector_events.py", "BaseSelectorEventLoop.sock_recv", "data"),
    ("asyncio/selector_events.py", "BaseSelectorEventLoop.sock_accept", "a connection"),
    ("asyncio/base_subprocess.py", "BaseSubprocessTransport._wait", "a child process"),
    ("asyncio/base_subprocess.py", "_wait", "a child process"),
    ("asyncio/base_events.py", "Server.serve_forever", "connections"),
    ("asyncio/base_events.py", "serve_forever", "connections"),
];

impl TaskReader<'_> {
    /// Returns the thing that a task waits for. The innermost function tells if it is one of
    /// asyncio, else the awaited future.
    pub(super) fn awaited(self, future: Address, innermost: Option<&Frame>) -> String {
        let waiting_function = innermost.and_then(|frame| {
            let is_innermost = |(file, function, _): &&(&str, &str, &str)| {
                frame.function == *function && frame.file.ends_with(file)
            };
            WAITING_FUNCTIONS.iter().find(is_innermost)
        });
        if let Some((_, _, target)) = waiting_function {
            return (*target).to_owned();
        }
        self.describe_future(future).unwrap_or_else(|| "a future".to_owned())
    }

    fn describe_future(self, future: Address) -> Option<String> {
        let objects = self.objects;
        if ["_asyncio.Task", "Task"].iter().any(|class| objects.is_instance(future, class)) {
            return Some(format!("task `{}`", self.name(future)?));
        }
        let children = objects.instance_attribute(future, "_children")?;
        let number = objects.list_length(children)?;
        Some(if number == 1 { "1 task".to_owned() } else { format!("{number} tasks") })
    }

    /// Whether a future or task has a result, an exception or was cancelled.
    pub(super) fn is_done(self, future: Address) -> Option<bool> {
        let objects = self.objects;
        if self.is_c_object(future) {
            return Some(objects.c_int(future, objects.layout.future_state)? != 0);
        }
        // An object whose class is written in Python has an own `_state` only once it changes.
        match objects.instance_attribute(future, "_state") {
            Some(state) => Some(objects.text_of(state)? != "PENDING"),
            None => Some(false),
        }
    }
}
