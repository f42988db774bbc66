"""Launch hooks, driven through the chains that Triton calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import marey as proton
import pytest
from profiles import Node, counts, find, live_root, metrics, tree
from programs import run_well

knobs = pytest.importorskip("triton.knobs")
compiler = pytest.importorskip("triton.compiler")


def launch(
    name: str, more: Callable[[], dict[str, Any]] = dict, run: Callable[[], None] | None = None
) -> None:
    """Does what Triton does for a launch."""
    metadata = compiler.LazyDict({"name": name, "function": 1, "stream": 2})
    metadata.add(more, ())
    knobs.runtime.launch_enter_hook(metadata)
    if run is not None:
        run()
    knobs.runtime.launch_exit_hook(metadata)


class Recording(proton.hooks.Hook):
    """A hook that records its calls."""

    def __init__(self, calls: list[str], name: str, priority: int) -> None:
        self.calls, self.name, self.priority = calls, name, priority

    def note(self, what: str) -> None:
        self.calls.append(f"{self.name} {what}")

    def init_handle(self, *args: Any) -> None:
        self.note("load")

    def destroy_handle(self, *args: Any) -> None:
        self.note("unload")

    def enter(self, metadata: Any) -> None:
        self.note("enter")

    def exit(self, metadata: Any) -> None:
        self.note("exit")

    def activate(self) -> None:
        self.note("activate")

    def deactivate(self) -> None:
        self.note("deactivate")


def shown(root: Node) -> dict[str, int]:
    """Returns the counts as viewers show them: without nodes that only compute metadata."""
    found = counts(root).items()
    return {path: count for path, count in found if "__proton_launch_metadata" not in path}


def test_a_launch_is_an_operator_with_its_metrics() -> None:
    np = pytest.importorskip("numpy")
    session = proton.start("x", hook="triton")
    with proton.scope("outer"):
        for _ in range(2):
            launch(
                "raw",
                lambda: {
                    "name": "matmul",
                    "flops16": 8,
                    "bytes": 4.0,
                    "tokens": np.int64(3),
                    "grid": (1, 2),
                    "what": "text",
                },
            )
    root = live_root(session)
    assert shown(root) == {"outer": 1, "outer/matmul": 2}
    operator = find(root, "outer/matmul")
    assert operator["marey"]["kind"] == "operator"
    assert metrics(operator) == {"flops16": 16.0, "bytes": 8, "tokens": 6}
    assert [type(metrics(operator)[key]) for key in ("flops16", "bytes")] == [float, int]
    assert root["metrics"] == {"bytes": 0, "flops16": 0, "tokens": 0}


def test_kernels_that_compute_metadata_run_under_the_metadata_state() -> None:
    session = proton.start("x", hook="triton")

    def more() -> dict[str, Any]:
        launch("helper")
        proton.enter_scope("inside", {"m": 1})
        proton.exit_scope()
        return {"flops": 1.0}

    launch("kernel", more)
    root = live_root(session)
    assert shown(root) == {"inside": 1, "kernel": 1}
    assert metrics(find(root, "inside/__proton_launch_metadata:kernel")) == {"m": 1}


def test_a_launch_inside_a_launch_belongs_to_the_outer_one() -> None:
    session = proton.start("x", hook="triton")

    def run() -> None:
        launch("inner", lambda: {"flops": 1.0})
        with proton.scope("still outer"):
            pass

    launch("outer", run=run)
    launch("next")
    assert shown(live_root(session)) == {"outer": 1, "outer/still outer": 1, "next": 1}


def test_a_launch_of_a_task_is_below_the_tasks_scopes() -> None:
    async def task(name: str, turns: asyncio.Queue[None]) -> None:
        with proton.scope(name):
            await turns.get()
            launch("kernel", lambda: {"flops": 1.0})

    async def main() -> None:
        turns: asyncio.Queue[None] = asyncio.Queue()
        tasks = [asyncio.create_task(task(name, turns)) for name in ("a", "b")]
        for _ in tasks:
            turns.put_nowait(None)
        await asyncio.gather(*tasks)

    session = proton.start("x", hook="triton")
    asyncio.run(main())
    root = live_root(session)
    assert shown(root) == {"a": 1, "a/kernel": 1, "b": 1, "b/kernel": 1}
    assert metrics(find(root, "a/kernel")) == metrics(find(root, "b/kernel")) == {"flops": 1.0}


def test_kernels_are_included_and_excluded_by_name() -> None:
    hook = proton.hooks.LaunchHook()
    assert hook is proton.hooks.LaunchHook()
    session = proton.start("x", hook=hook)
    try:
        hook.configure(include="mat", exclude=".*slow")
        launch("matmul")
        launch("matmul_slow")
        launch("matvec", lambda: {"name": "matvec_slow"})
        launch("softmax")
    finally:
        hook.configure()
    launch("softmax")
    assert shown(live_root(session)) == {"matmul": 1, "softmax": 1}


def test_a_hook_is_called_only_while_its_session_is_active() -> None:
    session = proton.start("x", hook="triton")
    other = proton.start("y")
    launch("seen")
    proton.deactivate(session)
    launch("not seen")
    proton.activate(session)
    launch("seen")
    proton.finalize(session)
    launch("too late")
    assert shown(tree("x.hatchet")) == shown(live_root(other)) == {"seen": 2}


def test_restarting_a_session_reactivates_its_hook() -> None:
    calls: list[str] = []
    session = proton.start("same", hook=Recording(calls, "hook", 0))
    proton.deactivate(session)
    proton.start("same")
    assert calls == ["hook activate", "hook deactivate", "hook activate"]


def test_the_global_hook_serves_all_sessions() -> None:
    session = proton.start("x")
    proton.register_triton_hook()
    launch("seen")
    proton.unregister_triton_hook()
    launch("not seen")
    assert shown(live_root(session)) == {"seen": 1}


def test_hooks_nest_by_priority() -> None:
    calls: list[str] = []
    low, high = Recording(calls, "low", -1), Recording(calls, "high", 200)
    proton.start("a", hook=low)
    session = proton.start("b", hook=high)
    knobs.runtime.kernel_load_end_hook("module", "function", "name", {}, "hash")
    launch("kernel")
    knobs.runtime.kernel_unload_hook("module", "function", "name", {}, "hash")
    proton.finalize(session)
    launch("kernel")
    assert calls == [
        *("low activate", "high activate", "high load", "low load", "high enter", "low enter"),
        *("low exit", "high exit", "low unload", "high unload", "high deactivate"),
        *("low enter", "low exit"),
    ]


def test_another_hook_may_have_evaluated_the_metadata() -> None:
    class Curious(Recording):
        def enter(self, metadata: Any) -> None:
            metadata.get()

    session = proton.start("x", hook="triton")
    proton.start("x", hook=Curious([], "curious", 200))
    launch("raw", lambda: {"name": "kernel", "flops": 1})
    root = live_root(session)
    assert shown(root) == {"kernel": 1}
    assert metrics(find(root, "kernel")) == {"flops": 1.0}


def test_the_manager_lists_the_hooks_of_sessions() -> None:
    manager = proton.hooks.HookManager
    session = proton.start("x", hook="triton")
    other = proton.start("y")
    assert session is not None
    assert manager.active_hooks == [proton.hooks.LaunchHook()]
    assert manager.session_hooks == {session: {proton.hooks.LaunchHook(): True}}
    proton.deactivate(session)
    assert manager.active_hooks == []
    assert manager.session_hooks == {session: {proton.hooks.LaunchHook(): False}}
    proton.activate(session)
    proton.finalize(other)
    assert manager.active_hooks == [proton.hooks.LaunchHook()]
    proton.finalize(session)
    assert (manager.active_hooks, manager.session_hooks) == ([], {})


def test_the_instrumentation_hook_warns_that_it_has_no_effect() -> None:
    from marey.hooks.instrumentation import InstrumentationHook

    hook = InstrumentationHook("default:granularity=cta")
    with pytest.warns(UserWarning, match="kernels do not time themselves"):
        session = proton.start("x", hook=hook)
    launch("kernel")
    assert shown(live_root(session)) == {}
    assert proton.hooks.HookManager.active_hooks == [hook]
    with pytest.raises(ValueError, match=r"^Unknown mode: pcsampling$"):
        InstrumentationHook("pcsampling")


def test_metadata_numbers_have_the_type_of_their_key() -> None:
    from marey.metric import transform_tensor_metrics

    torch = pytest.importorskip("torch")
    values, tensors = transform_tensor_metrics(
        {"flops16": 2, "bytes": torch.tensor([9.0, 10.0]), "flops": [1, 2], "other": 3}
    )
    assert (values, tensors) == (
        {"flops16": 2.0, "bytes": [9, 10], "flops": [1.0, 2.0], "other": 3},
        {},
    )
    assert [type(values[key]) for key in ("flops16", "other")] == [float, int]
    elsewhere = torch.empty(1, device="meta")
    assert transform_tensor_metrics({"bytes": elsewhere}) == ({}, {"bytes": elsewhere})


def test_unregistering_empties_tritons_chains() -> None:
    session = proton.start("x", hook="triton")
    assert knobs.runtime.launch_enter_hook.calls
    proton.finalize(session)
    assert not knobs.runtime.launch_enter_hook.calls
    assert not knobs.runtime.kernel_unload_hook.calls


def test_without_triton_the_hook_raises_import_error() -> None:
    source = """
        import sys
        sys.modules["triton"] = None
        import marey, marey.hooks
        for act in (lambda: marey.start("x", hook="triton"), marey.register_triton_hook):
            try:
                act()
            except ImportError as error:
                print(error)
        print(marey._native.sessions())
        """
    assert run_well(source) == 'hook="triton" needs the package triton\n' * 2 + "[]\n"


def test_the_profile_of_a_launch_is_a_hatchet_file() -> None:
    proton.start("x", hook="triton")
    launch("kernel", lambda: {"flops": 1.0})
    proton.finalize()
    with open("x.hatchet") as file:
        document: list[Node] = json.load(file)
    assert document[1] == {}
    assert metrics(find(document[0], "kernel")) == {"flops": 1.0}


def test_metadata_that_launches_nothing_leaves_no_node() -> None:
    session = proton.start("x", hook="triton")
    assert session is not None
    with proton.scope("outer"):
        launch("kernel", lambda: {"flops": 1})
    outer = find(live_root(session), "outer")
    assert [child["frame"]["name"] for child in outer["children"]] == ["kernel"]
