"""`marey dump`: tasks of asyncio's event loops, read from outside."""

from __future__ import annotations

import json
import sys
from typing import Any, NamedTuple

import pytest
from interpreters import VERSIONS, require
from programs import Live, marey_stdout

# The program tells the lines of its functions, and is ready when its pipe has been read: by then
# all tasks that it has created before have run as far as they can.
PROGRAM = """
import asyncio, os, sys, threading, types

class Loader:
    async def load(self, queue):
        return await queue.get()

async def sleeps():
    await asyncio.sleep(1000)

async def locked(lock):
    async with lock:
        pass

async def numbers(event):
    yield 1
    await event.wait()

async def iterates(event):
    async for number in numbers(event):
        pass

async def waits_for_task(task):
    await task

async def gathers(event):
    await asyncio.gather(event.wait(), event.wait())

@types.coroutine
def old(future):
    for number in [0]:
        yield from future

async def awaits_old(future):
    await old(future)

class Awaitable:
    def __await__(self):
        yield from sleeps().__await__()

async def awaits_object():
    await Awaitable()

async def ends():
    pass

class Named(asyncio.Task):
    pass

async def main():
    loop = asyncio.get_running_loop()
    queue, lock, event = asyncio.Queue(), asyncio.Lock(), asyncio.Event()
    await lock.acquire()
    loader = asyncio.create_task(Loader().load(queue), name="läder 读")
    tasks = {
        "sleeps": sleeps(),
        "locked": locked(lock),
        "iterates": iterates(event),
        "waits_for_task": waits_for_task(loader),
        "gathers": gathers(event),
        "awaits_old": awaits_old(loop.create_future()),
        "awaits_python": awaits_old(asyncio.futures._PyFuture(loop=loop)),
        "awaits_object": awaits_object(),
        "ends": ends(),
    }
    tasks = [asyncio.create_task(task, name=name) for name, task in tasks.items()]
    tasks.append(Named(sleeps(), loop=loop, name="named"))
    tasks.append(asyncio.tasks._PyTask(sleeps(), loop=loop, name="python"))
    tasks += [asyncio.create_task(sleeps(), name=f"worker-{number}") for number in range(12)]
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.readline()
    print("ready", flush=True)
    await reader.readline()
    os._exit(0)

asyncio.run(main())
"""


class Place(NamedTuple):
    """The function of a frame without its class, and its line if it is in the program."""

    function: str
    code: str | None


def process(pid: int, *options: str) -> dict[str, Any]:
    (found,) = json.loads(marey_stdout("dump", pid, "--json", *options))
    assert isinstance(found, dict)
    return found


def places(task: dict[str, Any], source: str) -> list[Place]:
    lines = source.splitlines()
    return [
        Place(
            frame["function"].rpartition(".")[2],
            lines[frame["line"] - 1].strip() if frame["file"].endswith("program.py") else None,
        )
        for frame in task["frames"]
    ]


def start(version: str) -> Live:
    python = require(version)
    return Live(PROGRAM, python=python, PYTHONIOENCODING="utf-8")


@pytest.mark.parametrize("version", VERSIONS)
def test_each_task_has_its_stack_and_what_it_waits_for(version: str) -> None:
    with start(version) as program:
        program.write_line()
        assert program.read_line() == "ready"
        found = process(program.process.pid)
    tasks = {task["name"]: task for task in found["tasks"]}
    stacks = {name: places(task, PROGRAM) for name, task in tasks.items()}
    waits = {name: task["waits_for"] for name, task in tasks.items()}

    sleep = [Place("sleep", None), Place("sleeps", "await asyncio.sleep(1000)")]
    assert stacks["sleeps"] == stacks["named"] == stacks["python"] == sleep
    assert stacks["locked"][-1] == Place("locked", "async with lock:")
    assert stacks["locked"][0] == Place("acquire", None)
    assert stacks["iterates"] == [
        Place("wait", None),
        Place("numbers", "await event.wait()"),
        Place("iterates", "async for number in numbers(event):"),
    ]
    assert stacks["awaits_old"] == [
        Place("old", "yield from future"),
        Place("awaits_old", "await old(future)"),
    ]
    assert stacks["awaits_object"] == [
        *sleep,
        Place("__await__", "yield from sleeps().__await__()"),
        Place("awaits_object", "await Awaitable()"),
    ]
    assert stacks["waits_for_task"] == [Place("waits_for_task", "await task")]
    assert stacks["läder 读"][-1] == Place("load", "return await queue.get()")

    assert waits["sleeps"] == waits["python"] == waits["awaits_object"] == "a timer"
    assert waits["waits_for_task"] == "task `läder 读`"
    assert waits["gathers"] == "2 tasks"
    assert waits["awaits_old"] == waits["awaits_python"] == "a future"
    assert waits["läder 读"] == "an item of a queue"
    # CPython 3.10 has no names of classes, so two of them look alike.
    assert waits["locked"].startswith("a lock")
    assert waits["iterates"].startswith("an event")

    states = {task["state"] for name, task in tasks.items() if name != "ends"}
    assert states == {"waiting"}
    assert {task["thread"] for task in tasks.values()} == {found["pid"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_task_that_runs_or_is_ready_is_told_from_one_that_waits(version: str) -> None:
    source = """
    import asyncio, os, sys
    async def spins():
        print("ready", flush=True)
        while True:
            pass
    async def ready():
        pass
    async def ends():
        pass
    async def main():
        ended = asyncio.create_task(ends(), name="ended")
        await ended
        spinning = asyncio.create_task(spins(), name="spins")
        waiting = asyncio.create_task(ready(), name="ready")
        await asyncio.sleep(1000)
    asyncio.run(main())
    """
    python = require(version)
    with Live(source, python=python) as program:
        assert program.read_line() == "ready"
        tasks = {task["name"]: task for task in process(program.process.pid)["tasks"]}
    states = {name: task["state"] for name, task in tasks.items()}
    assert (states["spins"], states["ready"]) == ("running", "ready")
    assert tasks["ready"]["frames"][0]["function"] == "ready"
    # Since 3.14 a register has no tasks that have ended.
    assert states.get("ended", "done") == "done"


def test_a_task_that_cannot_be_read_is_counted() -> None:
    source = """
    import asyncio, ctypes, os, sys
    async def waits():
        await asyncio.sleep(1000)
    async def main():
        tasks = [asyncio.create_task(waits(), name=name) for name in ("whole", "torn")]
        # A task's event loop, while the task ends.
        ctypes.c_void_p.from_address(id(tasks[1]) + 16).value = None
        print("ready", flush=True)
        sys.stdin.readline()
        os._exit(0)
    asyncio.run(main())
    """
    with Live(source) as program:
        assert program.read_line() == "ready"
        found = process(program.process.pid)
        assert "whole" in {task["name"] for task in found["tasks"]}
        assert "torn" not in {task["name"] for task in found["tasks"]}
        assert found["torn_tasks"] == 1
        text = marey_stdout("dump", str(program.process.pid))
    assert text.endswith("\nTasks that could not be read, because they changed: at least 1\n")


def test_the_text_groups_tasks_that_are_alike() -> None:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    with start(own) as program:
        program.write_line()
        assert program.read_line() == "ready"
        text = marey_stdout("dump", program.process.pid)
    blocks = text.split("\n\n")
    sleeps = next(block for block in blocks if "worker-0" in block).splitlines()
    names = "named, python, sleeps, worker-0, worker-1 and 10 more"
    assert sleeps[0] == f"Tasks {names} of MainThread wait for a timer"
    assert sleeps[1].startswith("    sleep (")
    assert sleeps[2].startswith("    sleeps (")
    waits = "Task waits_for_task of MainThread waits for task `läder 读`"
    assert any(block.startswith(waits) for block in blocks)


def test_tasks_of_each_thread_are_those_of_its_loop() -> None:
    source = """
    import asyncio, sys, threading
    both = threading.Barrier(3)
    async def waits(name):
        asyncio.current_task().set_name(name)
        await asyncio.get_running_loop().run_in_executor(None, both.wait)
        await asyncio.sleep(1000)
    for name in ("one", "two"):
        run = lambda name=name: asyncio.run(waits(name))
        threading.Thread(target=run, name=name, daemon=True).start()
    both.wait()
    print("ready", flush=True)
    sys.stdin.readline()
    """
    with Live(source) as program:
        assert program.read_line() == "ready"
        found = process(program.process.pid)
        ids = {thread["name"]: thread["os_id"] for thread in found["threads"]}
        assert {task["name"]: task["thread"] for task in found["tasks"]} == {
            name: ids[name] for name in ("one", "two")
        }
        (only,) = process(program.process.pid, str(ids["one"]))["tasks"]
        assert only["name"] == "one"


def test_a_program_whose_tasks_change_is_read_again_and_again() -> None:
    source = """
    import asyncio, os, sys
    async def leaf(depth):
        if depth:
            await leaf(depth - 1)
        await asyncio.sleep(0)
    async def main():
        print("ready", flush=True)
        while True:
            await asyncio.gather(*(leaf(number % 7) for number in range(50)))
    asyncio.run(main())
    """
    with Live(source) as program:
        assert program.read_line() == "ready"
        for _ in range(10):
            found = process(program.process.pid)
            names = {frame["function"] for task in found["tasks"] for frame in task["frames"]}
            assert names <= {"leaf", "main", "sleep", "__sleep0"}
        assert program.process.poll() is None


def test_a_program_without_asyncio_has_no_tasks() -> None:
    with Live("import sys; print('ready', flush=True); sys.stdin.readline()") as program:
        assert program.read_line() == "ready"
        assert "tasks" not in process(program.process.pid)
