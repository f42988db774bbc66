"""`context="python"`: launches are below the line that makes them, with and without the GIL."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from profiles import Node, tree
from programs import run_well
from replay import environment
from versions import NEWEST_KNOWN

pytestmark = pytest.mark.skipif(
    sys.version_info[:2] > NEWEST_KNOWN,
    reason="launches without the GIL find frames on interpreters whose structures are known",
)

# Names each kernel after the place that it is launched from.
BEGINNING = """\
import atexit, ctypes, json, threading, traceback

at_last = []
# Registered before marey does, and so called after it.
atexit.register(lambda: [function() for function in at_last])

import marey
from replay import Double

double = Double()
marey.start("x", context="python", backend="cupti")
free = ctypes.CDLL("libcuda.so.1").replay_launch
held = ctypes.PyDLL("libcuda.so.1").replay_launch
free.argtypes = held.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64]
elsewhere = double.name("elsewhere")

def here(how):
    frames = traceback.extract_stack()[:-1]
    path = [f"{frame.filename}:{frame.lineno}@{frame.name}" for frame in frames]
    return double.name(json.dumps([how, *path]))

# On one line each: the frames of the launch and those of the reference are the same.
def launch_free(): free(here("free"), 7, 1000)
def launch_held(): held(here("held"), 7, 1000)

def launch():
    launch_free()
    launch_held()

def compile_launch(line):
    return compile("\\n" * line + "free(elsewhere, 7, 1000)", "<generated>", "exec")

def launch_from(line):
    exec(compile_launch(line))

def start(work, times, **options):
    threads = [threading.Thread(target=work, **options) for _ in range(times)]
    for thread in threads:
        thread.start()
    return threads

"""


def launched(program: str, script: str = "") -> dict[str, int]:
    """Returns the number of launches with and without the GIL, if each is where its name says."""
    source = BEGINNING + textwrap.dedent(program)
    # Forks beside threads are warned of.
    run_well(source, "-W", "ignore", **environment(Path("lib"), script))
    found: dict[str, int] = {}
    for kernel, path, count in kernels(tree("x.hatchet")):
        if kernel == "elsewhere":
            continue
        how, *expected = json.loads(kernel)
        assert path == expected, how
        found[how] = found.get(how, 0) + count
    return found


def kernels(node: Node, above: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str], int]]:
    """Yields every kernel with its path and its count."""
    for child in node["children"]:
        name = child["frame"]["name"]
        if child["marey"]["kind"] == "kernel":
            yield name, list(above), child["metrics"]["count"]
        yield from kernels(child, (*above, name))


def elsewhere() -> list[list[str]]:
    """Returns the paths of kernels that have no path in their name."""
    return [path for kernel, path, _ in kernels(tree("x.hatchet")) if kernel == "elsewhere"]


def test_launches_have_frames_with_and_without_the_gil() -> None:
    found = launched("""
        launch()
        for _ in range(3):
            launch()
            launch(); launch_free()
        (lambda: launch())()
        [launch() for _ in range(2)]
    """)
    assert found == {"free": 13, "held": 10}


def test_launches_at_every_stack_depth_have_their_frames() -> None:
    found = launched("""
        def descend(depth):
            launch()
            if depth:
                descend(depth - 1)
                launch()

        descend(20)
    """)
    assert found == {"free": 41, "held": 41}


def test_reused_code_addresses_do_not_mix_names() -> None:
    """New code may get the address of old code, which a thread without the GIL must detect."""
    found = launched("""
        for number in range(300):
            name = f"f{number % 11}"
            source = "\\n" * (number % 7) + f"def {name}(): launch_free()\\n{name}()"
            exec(compile(source, "<generated>", "exec"))
    """)
    assert found == {"free": 300}


def test_launches_do_not_wait_for_the_gil() -> None:
    found = launched("""
        is_over = False

        def spin():
            while not is_over:
                pass

        def work():
            for _ in range(50):
                launch()
                eval("launch_free()")

        (spinner,) = start(spin, 1)
        for thread in start(work, 4):
            thread.join()
        is_over = True
        spinner.join()
    """)
    assert found == {"free": 400, "held": 200}


def test_launches_of_native_threads_are_at_the_root() -> None:
    found = launched(
        """
        def work():
            launch_free()
            double.play("beside")
            launch_free()

        work()
        for thread in start(work, 4):
            thread.join()
        """,
        """
        part beside {
            thread {
                launch elsewhere
            }
        }
        """,
    )
    assert found == {"free": 10}
    assert elsewhere() == [[]]


def test_python_called_by_native_threads_has_frames() -> None:
    found = launched("""
        libc = ctypes.CDLL(None)

        @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
        def routine(_):
            launch()

        for _ in range(3):
            thread = ctypes.c_ulong()
            assert libc.pthread_create(ctypes.byref(thread), None, routine, None) == 0
            assert libc.pthread_join(thread, None) == 0
    """)
    assert found == {"free": 3, "held": 3}


def test_launches_in_coroutines_and_generators_have_their_frames() -> None:
    found = launched("""
        import asyncio

        async def inner():
            launch()
            await asyncio.sleep(0)
            launch()

        async def outer():
            await asyncio.gather(inner(), inner())
            await inner()

        def generate():
            launch()
            yield
            launch()

        asyncio.run(outer())
        list(generate())
    """)
    assert found == {"free": 8, "held": 8}


@pytest.mark.skipif(find_spec("greenlet") is None, reason="greenlet is not installed")
def test_launches_in_greenlets_have_their_frames() -> None:
    found = launched("""
        from greenlet import greenlet

        def ping():
            for _ in range(5):
                launch()
                other.switch()

        def pong():
            while True:
                launch()
                one.switch()

        one, other = greenlet(ping), greenlet(pong)
        one.switch()
        launch()
    """)
    assert found == {"free": 11, "held": 11}


def test_a_pending_exception_is_kept() -> None:
    """A frame that an exception leaves frees its objects, whose destructors may launch."""
    launched(
        """
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        run = ctypes.cast(ctypes.CDLL("libcuda.so.1").replay_run, ctypes.c_void_p)

        def fail():
            raise KeyError("ours")

        def work():
            return [make(1, None, run), fail()]

        try:
            work()
        except KeyError as error:
            assert error.args == ("ours",)
        """,
        "launch elsewhere",
    )
    ((*_, place),) = elsewhere()
    assert place.endswith("@work")


@pytest.mark.parametrize("loops", [0, 1000, 10_000, 100_000, 1_000_000])
def test_the_interpreter_ends_while_daemons_launch(loops: int) -> None:
    """The threads always wait for the GIL and launch from new code."""
    launched(f"""
        ready = threading.Barrier(5)

        def work():
            line = 0
            while True:
                launch_from(line)
                line += 1
                if line == 20:
                    ready.wait()

        start(work, 4, daemon=True)
        ready.wait()
        for _ in range({loops}):
            pass
    """)


def test_launches_go_on_while_the_interpreter_ends() -> None:
    """The interpreter frees its thread states, so launches without the GIL are then at the root."""
    launched("""
        many = ctypes.CDLL("libcuda.so.1").replay_launch_many
        many.argtypes = [*free.argtypes, ctypes.c_uint64]
        ready = threading.Barrier(3)

        def work():
            ready.wait()
            many(elsewhere, 7, 1000, 10**12)

        @at_last.append
        def begin_again():
            marey.start("late", context="python", backend="cupti")
            many(elsewhere, 7, 1000, 10_000)
            launch_held()
            marey.finalize()

        start(work, 2, daemon=True)
        ready.wait()
    """)
    (place,) = {
        tuple(path) for kernel, path, _ in kernels(tree("late.hatchet")) if kernel == "elsewhere"
    }
    assert place == ()


def test_forks_beside_threads_that_launch() -> None:
    found = launched("""
        import os, sys

        is_over = False
        # Every code object is kept, up to a limit.
        codes = [compile_launch(line) for line in range(1000)]

        def work():
            line = 0
            while not is_over:
                exec(codes[line % 1000])
                line += 1

        threads = start(work, 3)
        for _ in range(50):
            child = os.fork()
            if child == 0:
                # A child cannot use its parent's CUDA.
                with marey.scope("child"):
                    sys.exit()
            assert os.waitpid(child, 0)[1] == 0
        is_over = True
        for thread in threads:
            thread.join()
        launch()
    """)
    assert found == {"free": 1, "held": 1}


def test_a_thread_without_the_gil_is_at_the_root_after_a_subinterpreter() -> None:
    """After one existed, a thread without the GIL may be in either: it is at the root."""
    found = launched("""
        try:
            import _interpreters
        except ImportError:
            import _xxsubinterpreters as _interpreters
        try:
            inside = _interpreters.create("legacy")
        except TypeError:
            inside = _interpreters.create(isolated=False)
        launch_held()
        program = f'''
        import ctypes
        for kind in (ctypes.CDLL, ctypes.PyDLL):
            function = kind("libcuda.so.1").replay_launch
            function.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64]
            function({elsewhere}, 7, 1000)
        '''
        _interpreters.run_string(inside, program.replace("\\n        ", "\\n"))
        free(elsewhere, 7, 1000)
        _interpreters.destroy(inside)
    """)
    assert found == {"held": 1}
    assert [] in elsewhere()
