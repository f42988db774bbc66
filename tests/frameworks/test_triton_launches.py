"""Launches of real Triton kernels, in the oldest and the installed release."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable

import pytest
from paths import SUPPORT
from profiles import counts, find, losses, metrics, tree
from programs import Outcome, run_program

Run = Callable[[str], Outcome]

KERNELS = """
import sys
import marey
import marey.hooks
import triton
import triton.language as tl
import triton_driver

def describe(grid, kernel, args):
    return DESCRIPTIONS[args["n"]]()

DESCRIPTIONS = {}

@triton.jit
def plain(n):
    tl.device_assert(n > 0)

@triton.jit(launch_metadata=describe)
def described(n):
    tl.device_assert(n > 0)
"""


@pytest.fixture
def run(triton_path: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a program with the kernels above and a driver without a device."""
    cache = tmp_path_factory.getbasetemp() / "triton-cache"
    path = os.pathsep.join(filter(None, [triton_path, str(SUPPORT)]))

    def run(source: str) -> Outcome:
        return run_program(
            KERNELS + textwrap.dedent(source),
            PYTHONPATH=path,
            TRITON_CACHE_DIR=str(cache),
            TRITON_DEFAULT_FP_FUSION="1",  # 3.9 warns if it is not set
        )

    return run


def run_well(run: Run, source: str) -> str:
    """Runs a program that must succeed without complaints; returns its output."""
    done = run(source)
    assert done.exit_code == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "marey: no GPU" not in line] == []
    return done.stdout


def test_launches_are_operators_with_their_metrics(run: Run) -> None:
    run_well(
        run,
        """
        DESCRIPTIONS[2] = lambda: {
            "name": "two", "flops": 1, "flops8": 2, "flops64": 3, "bytes": 4.0, "tokens": 5
        }
        marey.start("x", hook="triton")
        with marey.scope("outer"):
            for _ in range(3):
                plain[(1,)](2)
                described[(1,)](2)
        marey.finalize()
        """,
    )
    root = tree("x.hatchet")
    assert counts(root) == {"outer": 1, "outer/plain": 3, "outer/two": 3}
    assert metrics(find(root, "outer/plain")) == {}
    expected = {"flops": 3.0, "flops8": 6.0, "flops64": 9.0, "bytes": 12, "tokens": 15}
    found = metrics(find(root, "outer/two"))
    assert found == expected
    assert [type(found[key]) for key in expected] == [float, float, float, int, int]


def test_metadata_are_evaluated_only_while_recording(run: Run) -> None:
    asked = run_well(
        run,
        """
        DESCRIPTIONS[2] = lambda: print("asked", flush=True) or {}
        def launch(why):
            print(why)
            described[(1,)](2)
        launch("no hook")
        marey.register_triton_hook()
        launch("no session")
        session = marey.start("x", hook="triton")
        launch("recording")
        marey.deactivate(session)
        launch("not active")
        marey.activate(session)
        marey.hooks.LaunchHook().configure(exclude="described")
        launch("excluded")
        marey.finalize()
        launch("over")
        """,
    )
    lines = ["no hook", "no session", "recording", "asked", "not active", "excluded", "over"]
    assert asked.splitlines() == lines


def test_a_metadata_error_fails_the_launch_and_keeps_the_nesting(run: Run) -> None:
    seen = run_well(
        run,
        """
        def fail():
            plain[(1,)](2)
            raise KeyError("no such shape")
        DESCRIPTIONS[2] = fail
        class Outer(marey.hooks.Hook):
            priority = 200
            def enter(self, metadata): print("enter")
            def exit(self, metadata): print("exit")
            def activate(self): pass
            def deactivate(self): pass
        marey.start("x", hook="triton")
        other = marey.start("y", hook=Outer())
        with marey.scope("outer"):
            try:
                described[(1,)](2)
            except KeyError as error:
                print(error)
        marey.finalize(other)
        with marey.scope("next"):
            plain[(1,)](2)
        marey.finalize()
        """,
    )
    # The helper's launch nests in the failing one.
    assert seen.splitlines() == ["enter", "enter", "exit", "exit", "'no such shape'"]
    root = tree("x.hatchet")
    assert counts(root) == {"outer": 1, "next": 1, "next/plain": 1}
    assert losses(root) == {}


def test_a_launch_that_fails_leaves_its_operator(run: Run) -> None:
    run_well(
        run,
        """
        def fail():
            raise RuntimeError("out of resources")
        marey.start("x", hook="triton")
        for _ in range(2):
            triton_driver.on_launch = fail
            with marey.scope("failing"):
                try:
                    plain[(1,)](2)
                except RuntimeError:
                    pass
                marey.enter_scope("after it")
                marey.exit_scope("after it")
            triton_driver.on_launch = lambda: None
            plain[(1,)](2)
        marey.finalize()
        """,
    )
    root = tree("x.hatchet")
    assert counts(root) == {"failing": 2, "failing/plain": 2, "failing/after it": 2, "plain": 2}
    assert losses(root) == {}


def test_a_launch_inside_an_operator_is_not_recorded(run: Run) -> None:
    run_well(
        run,
        """
        marey.start("x", hook="triton")
        marey.enter_scope("fused", triton_op=True)
        plain[(1,)](2)
        marey.exit_scope(triton_op=True)
        plain[(1,)](2)
        marey.finalize()
        """,
    )
    assert counts(tree("x.hatchet")) == {"fused": 1, "plain": 1}


def test_init_handle_is_called_for_loaded_kernels(run: Run) -> None:
    told = run_well(
        run,
        """
        class Loads(marey.hooks.Hook):
            def init_handle(self, module, function, name, metadata_group, hash):
                print("loaded", module, function, name, type(metadata_group).__name__, len(hash))
            def enter(self, metadata): print("launched", metadata.data)
            def exit(self, metadata): pass
            def activate(self): pass
            def deactivate(self): pass
        marey.start("x", hook=Loads())
        plain[(1,)](2)
        """,
    )
    launched = {"name": "plain", "function": 2, "stream": 7}
    assert told.splitlines() == ["loaded 1 2 plain dict 64", f"launched {launched}"]


@pytest.mark.parametrize("change", ["= None", "= lambda metadata: None", "= [print]"])
def test_unknown_hook_chains_warn_once(run: Run, change: str) -> None:
    done = run(
        f"""
        triton.knobs.runtime.launch_exit_hook {change}
        marey.start("x", hook="triton")
        marey.start("y", hook="triton")
        with marey.scope("outer"):
            pass
        marey.finalize()
        print(triton.knobs.runtime.launch_enter_hook.calls)
        """
    )
    assert (done.exit_code, done.stdout) == (0, "[]\n")
    [warning] = [line for line in done.stderr.splitlines() if "UserWarning" in line]
    assert "program.py" in warning
    assert "knobs.runtime.launch_exit_hook is no chain of hooks as in triton 3.6 to 3.9" in warning
    assert counts(tree("x.hatchet")) == {"outer": 1}


def test_unknown_metadata_types_warn_once(run: Run) -> None:
    done = run(
        """
        marey.start("x", hook="triton")
        for metadata in ({"name": "kernel"}, {"name": "kernel"}, None):
            triton.knobs.runtime.launch_enter_hook(metadata)
            triton.knobs.runtime.launch_exit_hook(metadata)
        plain[(1,)](2)
        marey.finalize()
        """
    )
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("UserWarning") == 1
    assert "given a dict where triton 3.6 to 3.9 give a LazyDict" in done.stderr
    assert counts(tree("x.hatchet")) == {"plain": 1}
