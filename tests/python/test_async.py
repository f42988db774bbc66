"""Scopes in coroutines: correct across `await`, in any order of the tasks."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import time
from collections.abc import Awaitable
from typing import Any

import marey
import pytest
from profiles import counts, find, live_root, losses, metrics, record_scope, tree, walk
from programs import run_well
from threads import run_in_threads
from versions import NEWEST_KNOWN


class Turns:
    """Runs tasks in a given order, without a clock."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def _event(self, name: str) -> asyncio.Event:
        return self._events.setdefault(name, asyncio.Event())

    def done(self, name: str) -> None:
        self._event(name).set()

    async def after(self, name: str) -> None:
        await self._event(name).wait()


def test_supported_python_versions_use_the_fast_path() -> None:
    if sys.version_info[:2] <= NEWEST_KNOWN:
        assert marey._native.task_detection_is_fast() is True


def test_interleaved_tasks_keep_their_own_scopes(session: int) -> None:
    async def first(turns: Turns) -> None:
        with marey.scope("first", {"m": 1}):
            turns.done("first is in")
            await turns.after("second is in")
            with marey.scope("inner"):
                turns.done("first is in inner")
                await turns.after("second is out")
        turns.done("first is out")

    async def second(turns: Turns) -> None:
        await turns.after("first is in")
        with marey.scope("second", {"m": 2}):
            turns.done("second is in")
            await turns.after("first is in inner")
            record_scope("inner")
        turns.done("second is out")
        await turns.after("first is out")
        record_scope("alone")

    async def main() -> None:
        turns = Turns()
        with marey.scope("main"):
            await asyncio.gather(first(turns), second(turns))

    asyncio.run(main())
    root = live_root(session)
    assert counts(root) == {
        "main": 1,
        "main/first": 1,
        "main/first/inner": 1,
        "main/second": 1,
        "main/second/inner": 1,
        "main/alone": 1,
    }
    assert metrics(find(root, "main/first")) == {"m": 1}
    assert metrics(find(root, "main/second")) == {"m": 2}
    assert losses(root) == {}


def test_each_task_has_its_own_times(session: int) -> None:
    """The time of each task's scope is its wall time, even if another task ran during it."""
    durations = {}

    async def work(name: str, ready: Awaitable[Any], done: asyncio.Event, millis: int) -> None:
        await ready
        outside = time.perf_counter_ns()
        with marey.scope(name):
            inside = time.perf_counter_ns()
            with marey.scope("busy"):
                busy(millis)
            done.set()
            await asyncio.sleep(0)
            busy(millis)
            inside = time.perf_counter_ns() - inside
        durations[name] = (inside, time.perf_counter_ns() - outside)

    async def main() -> None:
        entered = asyncio.Event(), asyncio.Event()
        start = asyncio.sleep(0)
        await asyncio.gather(
            work("a", start, entered[0], 2), work("b", entered[0].wait(), entered[1], 5)
        )

    asyncio.run(main())
    root = live_root(session)
    for name, millis in (("a", 2), ("b", 5)):
        node, inner = find(root, name)["metrics"], find(root, f"{name}/busy")["metrics"]
        low, high = durations[name]
        assert low * 0.995 <= node["wall_total (ns)"] <= high * 1.005
        assert millis * 995_000 <= inner["wall_total (ns)"] <= node["wall_total (ns)"]
        assert node["wall_self (ns)"] == node["wall_total (ns)"] - inner["wall_total (ns)"]


def busy(millis: int) -> None:
    end = time.perf_counter_ns() + millis * 1_000_000
    while time.perf_counter_ns() < end:
        pass


def test_a_new_task_inherits_the_open_scopes(session: int) -> None:
    async def late(go: asyncio.Event) -> None:
        await go.wait()
        with marey.scope("late", {"m": 1}):
            await asyncio.sleep(0)

    async def main() -> None:
        go = asyncio.Event()
        with marey.scope("parent"), marey.scope("child"):
            task = asyncio.create_task(late(go))
        with marey.scope("elsewhere"):
            go.set()
            await task

    asyncio.run(main())
    assert counts(live_root(session)) == {
        "parent": 1,
        "parent/child": 1,
        "parent/child/late": 1,
        "elsewhere": 1,
    }
    assert metrics(find(live_root(session), "parent/child/late")) == {"m": 1}


def test_three_hundred_tasks_keep_their_scopes(session: int) -> None:
    async def work(number: int) -> None:
        with marey.scope(f"kind {number % 3}", {"m": 1}):
            for _ in range(3):
                await asyncio.sleep(0)
                with marey.scope("part"):
                    await asyncio.sleep(0)

    async def main() -> None:
        with marey.scope("all"):
            await asyncio.gather(*(work(number) for number in range(300)))

    asyncio.run(main())
    root = live_root(session)
    kinds = [f"all/kind {number}" for number in range(3)]
    expected = {"all": 1} | dict.fromkeys(kinds, 100)
    assert counts(root) == expected | {f"{kind}/part": 300 for kind in kinds}
    assert [metrics(find(root, kind)) for kind in kinds] == [{"m": 100}] * 3


def test_threads_with_a_copied_context_inherit_its_scopes(session: int) -> None:
    def work() -> None:
        record_scope("in thread", {"m": 1})

    async def main() -> None:
        with marey.scope("outer"):
            await asyncio.gather(*(asyncio.to_thread(work) for _ in range(5)))
            await asyncio.get_running_loop().run_in_executor(None, work)

    asyncio.run(main())
    root = live_root(session)
    # `run_in_executor` hands no context on: its thread begins at the main thread's stack.
    assert counts(root) == {"outer": 1, "outer/in thread": 5, "in thread": 1}
    assert metrics(find(root, "outer/in thread")) == {"m": 5}


@pytest.mark.skipif(sys.version_info < (3, 14), reason="threads take no context yet")
def test_a_thread_with_a_copied_task_context_inherits_its_scopes(session: int) -> None:
    def work() -> None:
        record_scope("in thread")

    def run_in_thread() -> None:
        context = contextvars.copy_context()
        thread = threading.Thread(target=work, context=context)  # type: ignore[call-arg]
        thread.start()
        thread.join()

    async def main() -> None:
        with marey.scope("outer"):
            run_in_thread()
        # The task is in no scope: the thread begins at its own stack.
        run_in_thread()

    asyncio.run(main())
    assert counts(live_root(session)) == {"outer": 1, "outer/in thread": 1, "in thread": 1}


def test_tasks_of_a_loop_in_a_thread_keep_their_scopes(session: int) -> None:
    async def work(name: str) -> None:
        with marey.scope(name):
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(work("first"), work("second"))

    def run() -> None:
        with marey.scope("thread"):
            asyncio.run(main())

    run_in_threads(run)
    assert counts(live_root(session)) == {"thread": 1, "thread/first": 1, "thread/second": 1}


def test_scopes_survive_context_run(session: int) -> None:
    def inner() -> None:
        record_scope("inner")

    with marey.scope("outer"):
        context = contextvars.copy_context()
        context.run(inner)
        context.run(marey.enter_scope, "left open", {"m": 1})
        context.run(inner)
        context.run(marey.exit_scope)
    context.run(inner)
    assert counts(live_root(session)) == {
        "outer": 1,
        "outer/inner": 1,
        "outer/left open": 1,
        "outer/left open/inner": 1,
        "inner": 1,
    }


@pytest.mark.parametrize("error", [KeyError, asyncio.CancelledError])
def test_exceptions_leave_the_scopes_of_a_task(session: int, error: type[BaseException]) -> None:
    class Resource:
        async def __aenter__(self) -> None:
            marey.enter_scope("resource")

        async def __aexit__(self, *_: object) -> None:
            await asyncio.sleep(0)
            marey.exit_scope("resource")

    async def fail() -> None:
        with marey.scope("outer"):
            async with Resource():
                with marey.scope("inner"):
                    await asyncio.sleep(0)
                    raise error

    async def main() -> None:
        with pytest.raises(error):
            await asyncio.create_task(fail())
        record_scope("after")

    asyncio.run(main())
    root = live_root(session)
    expected = {"outer": 1, "outer/resource": 1, "outer/resource/inner": 1, "after": 1}
    assert counts(root) == expected
    assert losses(root) == {}


def test_a_cancelled_task_leaves_its_scopes(session: int) -> None:
    async def wait_for_ever(entered: asyncio.Event) -> None:
        with marey.scope("waiting"):
            entered.set()
            await asyncio.Event().wait()

    async def main() -> None:
        entered = asyncio.Event()
        with marey.scope("main"):
            task = asyncio.create_task(wait_for_ever(entered))
            await entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            record_scope("after")

    asyncio.run(main())
    assert counts(live_root(session)) == {"main": 1, "main/waiting": 1, "main/after": 1}


def test_enter_scope_and_decorators_work_in_tasks(session: int) -> None:
    @marey.scope("decorated")
    async def decorated(depth: int) -> int:
        await asyncio.sleep(0)
        return await decorated(depth - 1) if depth else 7

    async def by_hand(name: str) -> None:
        number = marey.enter_scope(name, {"m": 1})
        await asyncio.sleep(0)
        with pytest.raises(ValueError, match=f"^Scope name mismatch: x != {name}$"):
            marey.exit_scope("x")
        assert marey.exit_scope(name, metrics={"out": 2}) == number
        with pytest.raises(RuntimeError, match="not balanced"):
            marey.exit_scope()

    async def main() -> None:
        assert list(await asyncio.gather(decorated(1), decorated(1))) == [7, 7]
        await asyncio.gather(by_hand("a"), by_hand("b"))

    asyncio.run(main())
    root = live_root(session)
    assert counts(root) == {"decorated": 2, "decorated/decorated": 2, "a": 1, "b": 1}
    assert metrics(find(root, "a")) == {"m": 1, "out": 2}


def test_cpu_timed_scopes_of_tasks_do_not_mix(session: int) -> None:
    @marey.cpu_timed_scope("timed")
    async def work() -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(work(), work())

    asyncio.run(main())
    node = find(live_root(session), "timed")["metrics"]
    assert node["wall_count"] == 2
    assert 0 < node["cpu_time (ns)"] <= node["wall_total (ns)"]


def test_tasks_of_a_loop_inside_a_scope_are_below_it(session: int) -> None:
    async def main() -> None:
        with marey.scope("task"):
            await asyncio.sleep(0)

    with marey.scope("sync"):
        asyncio.run(main())
        record_scope("after")
    assert counts(live_root(session)) == {"sync": 1, "sync/task": 1, "sync/after": 1}


def test_synchronous_scopes_inside_a_task_nest(session: int) -> None:
    def deep(depth: int) -> None:
        with marey.scope("sync"):
            if depth:
                deep(depth - 1)

    async def main() -> None:
        with marey.scope("task"):
            deep(2)
            await asyncio.sleep(0)
            deep(0)

    asyncio.run(main())
    expected = {"task": 1, "task/sync": 2, "task/sync/sync": 1, "task/sync/sync/sync": 1}
    assert counts(live_root(session)) == expected


def test_scopes_in_async_generators_are_balanced(session: int) -> None:
    async def generate() -> Any:
        with marey.scope("generator"):
            for number in range(3):
                with marey.scope("item"):
                    yield number

    async def main() -> None:
        async for _ in generate():
            await asyncio.sleep(0)

    asyncio.run(main())
    assert counts(live_root(session)) == {"generator": 1, "generator/item": 3}


def test_a_session_may_end_while_tasks_have_open_scopes(session: int) -> None:
    async def work(entered: asyncio.Event, go: asyncio.Event) -> None:
        with marey.scope("old", {"m": 1}):
            entered.set()
            await go.wait()
            record_scope("new")

    async def main() -> int | None:
        entered, go = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(work(entered, go))
        await entered.wait()
        marey.finalize(session)
        later = marey.start("later")
        go.set()
        await task
        return later

    assert counts(live_root(asyncio.run(main()))) == {"new": 1}


def test_a_callback_that_schedules_itself_again_does_not_nest_for_ever(session: int) -> None:
    async def main(left: int) -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def tick() -> None:
            nonlocal left
            with marey.scope("tick", {"m": 1}):
                left -= 1
                # The next call gets a copy of this context, and so begins inside this scope.
                loop.call_soon(tick) if left else done.set()

        with marey.scope("main"):
            loop.call_soon(tick)
            await done.wait()

    asyncio.run(main(100_000))
    root = live_root(session)
    found = counts(root)
    assert sum(found.values()) == 100_001
    assert max(path.count("/") for path in found) <= 10
    assert sum(metrics(node).get("m", 0) for _, node in walk(root)) == 100_000


def test_long_chains_of_scopes_are_freed_without_recursion() -> None:
    source = """
        import asyncio, marey
        marey.start("x")
        async def main(left):
            done = asyncio.Event()
            loop = asyncio.get_running_loop()
            def tick():
                nonlocal left
                marey.enter_scope("never left")
                left -= 1
                loop.call_soon(tick) if left else done.set()
            loop.call_soon(tick)
            await done.wait()
        asyncio.run(main(200_000))
        """
    run_well(source, MAREY_MAX_NODES="100")
    assert tree("x.hatchet")["marey"]["losses"]["nodes"] > 100_000
