"""Operators in hostile circumstances: the program continues, and what is lost is counted."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from marey import _torch_inputs
from programs import marey_command, run_command
from replay import build_library
from torch_programs import run_plain, shape

pytest.importorskip("torch")


@pytest.mark.parametrize("address", [0, 8, 1 << 46, 1 << 63, (1 << 64) - 8])
def test_a_guess_at_memory_that_is_not_there_finds_nothing(address: int) -> None:
    assert _torch_inputs._words(address, 4) == []
    assert _torch_inputs._values(address, 2) == []


@pytest.mark.parametrize("count", [-1, 1 << 32])
def test_a_guess_of_an_impossible_number_of_inputs_finds_nothing(count: int) -> None:
    known = ctypes.create_string_buffer(64)
    assert len(_torch_inputs._values(ctypes.addressof(known), 4)) == 4
    assert _torch_inputs._values(ctypes.addressof(known), count) == []


def test_a_process_without_torch_has_no_operators() -> None:
    run_plain(
        """
        from types import SimpleNamespace
        from marey import _torch_operators

        torch = SimpleNamespace(__version__="2.15.0", version=SimpleNamespace())
        objection = _torch_operators.start(torch).objection
        assert objection == "this process has not loaded libtorch_cpu.so", objection
        _torch_operators.stop()
        """
    )


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_library_without_a_symbol_has_no_operators(tmp_path: Path) -> None:
    (tmp_path / "empty.c").write_text("int nothing;\n")
    library = tmp_path / "libtorch_cpu.so"
    command = ["cc", "-shared", "-Wl,-soname,libtorch_cpu.so", "-o", str(library)]
    subprocess.run([*command, str(tmp_path / "empty.c")], check=True)
    run_plain(
        f"""
        import ctypes
        from types import SimpleNamespace
        from marey import _torch_operators

        library = ctypes.CDLL({str(library)!r})
        torch = SimpleNamespace(__version__="2.15.0", version=SimpleNamespace())
        objection = _torch_operators.start(torch).objection
        assert objection.startswith("libtorch_cpu.so does not export _ZN2at"), objection
        """
    )


# A library whose callbacks cannot be registered, in a package that a trial imports as PyTorch.
ABORTS = """
#include <stdlib.h>
#define EXPORT(name) __attribute__((visibility("default"))) void name(void) { abort(); }
EXPORT(_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE)
EXPORT(_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE)
EXPORT(_ZN2at14removeCallbackEm)
EXPORT(_ZNK2at14RecordFunction4nameEv)
EXPORT(_ZN2at14RecordFunction15currentThreadIdEv)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_an_unknown_version_that_crashes_is_named_and_the_program_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "packages" / "torch"
    package.mkdir(parents=True)
    (tmp_path / "aborts.c").write_text(ABORTS)
    library = package / "libtorch_cpu.so"
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libtorch_cpu.so", "-o", str(library)]
    subprocess.run([*command, str(tmp_path / "aborts.c")], check=True)
    (package / "__init__.py").write_text(f"import ctypes\nctypes.CDLL({str(library)!r})\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run_plain(
        f"""
        import sys, warnings
        import marey, marey.torch, torch

        torch.__version__ = "99.0.0"
        sys.path.insert(0, {str(package.parent)!r})
        session = marey.start("unknown")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            marey.torch.enable(operators=True)
        (warning,) = caught
        start = "operators of PyTorch 99.0.0 are not recorded: a trial of its callbacks failed: "
        assert str(warning.message) == start + "it crashed with SIGABRT", warning.message
        assert torch.nn.Linear(2, 1)(torch.ones(2)).shape == (1,)
        marey.finalize(session)
        """
    )
    (tree, *_) = json.loads(Path("unknown.hatchet").read_text())
    assert shape(tree)["step"][1] == {"Linear": (1, {})}
    assert tree["marey"]["notes"]["operators"].endswith("it crashed with SIGABRT")


def test_torch_may_be_imported_after_the_start() -> None:
    done = run_command(
        sys.executable,
        "-c",
        "import marey, marey.torch; s = marey.start('late'); marey.torch.enable(operators=True); "
        "import torch; torch.relu(torch.ones(1)); marey.finalize(s); print('done')",
    )
    assert (done.exit_code, done.stdout) == (0, "done\n"), done.stderr
    tree = shape(json.loads(Path("late.hatchet").read_text())[0])
    assert tree["aten::relu"][0] == 1


INTERPRETERS = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import marey
import marey.torch
import torch

session = marey.start("two")
marey.torch.enable(operators=True)
with marey.scope("before"):
    torch.relu(torch.ones(1))
other = interpreters.create()
code = '''
try:
    import marey
except ImportError:
    pass
total = sum(range(1000))
'''
run = getattr(interpreters, "exec", None) or interpreters.run_string
with marey.scope("between"):
    failure = run(other, code)
    assert failure is None, failure
    torch.relu(torch.ones(1))
interpreters.destroy(other)
with marey.scope("after"):
    torch.relu(torch.ones(1))
marey.finalize(session)
print("done")
"""


def test_a_second_interpreter_does_not_disturb_the_recording() -> None:
    done = run_command(sys.executable, "-c", INTERPRETERS)
    assert (done.exit_code, done.stdout) == (0, "done\n"), done.stderr
    tree = shape(json.loads(Path("two.hatchet").read_text())[0])
    for name in ("before", "between", "after"):
        assert tree[name][1]["aten::relu"][0] == 1


PROFILERS = """
import marey
import marey.torch
import torch
from torch.profiler import ProfilerActivity, profile

x = torch.ones(4)

def relus(profiler):
    return sum(event.count for event in profiler.key_averages() if event.key == "aten::relu")

def new_profiler():
    return profile(activities=[ProfilerActivity.CPU], record_shapes=True)

around, across = new_profiler(), new_profiler()
around.start()
torch.relu(x)
session = marey.start("beside")
marey.torch.enable(operators=True)
torch.relu(x)
around.stop()          # began before marey, ends while marey records
torch.relu(x)
across.start()         # begins while marey records, ends after it
torch.relu(x)
marey.finalize(session)
marey.torch.disable()
torch.relu(x)
across.stop()
with new_profiler() as after:
    torch.relu(x)
print(relus(around), relus(across), relus(after))
"""


def test_torch_s_profiler_may_begin_and_end_at_any_time() -> None:
    done = run_command(sys.executable, "-c", PROFILERS)
    assert (done.exit_code, done.stdout) == (0, "2 2 1\n"), done.stderr
    tree = shape(json.loads(Path("beside.hatchet").read_text())[0])
    assert tree["aten::relu"][0] == 3


THREADS_AND_FORKS = """
import os
import threading
import marey
import marey.torch
import torch

torch.set_num_threads(1)
marey.torch.enable(operators=True)
session = marey.start("hostile", data="trace")
stop = threading.Event()

def work(number):
    x = torch.ones(4)
    while not stop.is_set():
        torch.relu(x)
        try:
            torch.mm(x, x)
        except RuntimeError:
            pass

threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(50)]
for thread in threads:
    thread.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        torch.relu(torch.ones(4))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    marey.deactivate(session)
    marey.activate(session)
stop.set()
for thread in threads:
    thread.join()
with marey.scope("last"):
    torch.relu(torch.ones(4))
marey.finalize(session, "marey")
print("done")
"""


def test_forks_errors_and_pauses_among_fifty_threads_lose_nothing_silently() -> None:
    import marey

    done = run_command(sys.executable, "-c", THREADS_AND_FORKS)
    assert (done.exit_code, done.stdout) == (0, "done\n"), done.stderr
    run = marey.open("hostile.marey")
    last = run.sql("SELECT path FROM spans WHERE path LIKE 'last/%' AND name = 'aten::relu'")
    assert last.rows() == [("last/aten::relu",)]
    # A full buffer is a loss; a scope that nobody closes would be a fault.
    causes: list[Any] = [cause for (cause,) in run.sql("SELECT cause FROM losses").rows()]
    assert {"unmatched_exits", "stuck_threads", "nodes", "names"}.isdisjoint(causes)


SLOW_LOCKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Of the slow thread: milliseconds before it takes a lock of PyTorch, and with the lock. */
static _Thread_local int before_ms, holding_ms;
static atomic_int has_come, is_forking, has_locked;

static void before_fork(void) {
    is_forking = 1; /* After marey's handler, which was registered later. */
    for (int i = 0; i < 1000 && has_come && !has_locked; i++) usleep(1000);
}

__attribute__((constructor)) static void load(void) { pthread_atfork(before_fork, NULL, NULL); }

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void be_slow(int before, int holding) { before_ms = before, holding_ms = holding; }
int coming(void) { return has_come; }
int locked(void) { return has_locked; }

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    static int (*lock)(pthread_mutex_t *);
    Dl_info caller;
    if (!lock) lock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    if (!holding_ms || !dladdr(__builtin_return_address(0), &caller) ||
        !strstr(caller.dli_fname, "libtorch_cpu"))
        return lock(mutex);
    has_come = 1;
    for (long end = now_ms() + before_ms; now_ms() < end && !is_forking;) {}
    int failure = lock(mutex);
    has_locked = 1;
    usleep(holding_ms * 1000);
    holding_ms = 0;
    return failure;
}
"""

FORK_BESIDE_A_SLOW_THREAD = """
import ctypes, os, signal, sys, threading
import marey
import marey.torch
import torch

before_ms, is_reached = int(sys.argv[1]), sys.argv[2]
library = ctypes.CDLL(os.environ["LD_PRELOAD"])
x = torch.ones(4)
torch.relu(x)
marey.torch.enable(operators=True)
session = marey.start("slow", data="trace")
ready, changed = threading.Event(), threading.Event()

def work():
    torch.relu(x)
    ready.set()
    changed.wait()
    library.be_slow(before_ms, 300)
    torch.relu(x)

thread = threading.Thread(target=work)
thread.start()
ready.wait()
torch.relu(x)
marey.deactivate(session)
marey.activate(session)
changed.set()
while not getattr(library, is_reached)():
    pass
child = os.fork()
if child == 0:
    signal.alarm(20)
    torch.relu(x)
    beside = threading.Thread(target=torch.relu, args=(x,))
    beside.start()
    beside.join()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
marey.finalize(session)
"""


@pytest.mark.parametrize(("before_ms", "is_reached"), [("0", "locked"), ("30", "coming")])
def test_a_child_does_not_wait_for_a_lock_of_pytorch_that_another_thread_held(
    tmp_path: Path, before_ms: str, is_reached: str
) -> None:
    library = build_library(str(tmp_path / "slow_locks.so"), SLOW_LOCKS)
    done = run_command(
        *(sys.executable, "-c", FORK_BESIDE_A_SLOW_THREAD, before_ms, is_reached),
        LD_PRELOAD=str(library),
    )
    assert (done.exit_code, done.stdout) == (0, "7\n"), done.stderr


def test_an_exit_in_the_middle_of_an_operator_is_the_program_s(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import os, torch\n"
        "library = torch.library.Library('marey_tests', 'DEF')\n"
        "library.define('leave(Tensor x) -> Tensor')\n"
        "def leave(x):\n"
        "    raise SystemExit(7)\n"
        "library.impl('leave', leave, 'CPU')\n"
        "print('before', flush=True)\n"
        "torch.ops.marey_tests.leave(torch.ones(1))\n"
    )
    plain = run_command(sys.executable, script)
    done = marey_command("run", "--operators", "-o", "out.hatchet", script)
    assert (done.exit_code, done.stdout) == (plain.exit_code, plain.stdout)
    tree = shape(json.loads(Path("out.hatchet").read_text())[0])
    assert "marey_tests::leave" in tree
