"""Live programs: the profile is complete however a process ends, forks or is killed."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from profiles import Node, counts, find, losses, metrics, profile_names, tree
from programs import Live, run_program, run_well, until

NO_CHECKPOINTS = {"MAREY_CHECKPOINT_SECS": "0"}


def complete(path: str) -> Node:
    """Returns the root of a file that was written at the end."""
    root = tree(path)
    assert root["marey"]["process"]["complete"] is True
    return root


# The end of a process


@pytest.mark.parametrize(
    ("ending", "exit_code", "says"),
    [
        ("pass", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("raise ValueError('mine')", 1, "ValueError: mine"),
        ("threading.Thread(target=sys.exit).start()", 0, ""),
        ("os.kill(os.getpid(), signal.SIGINT)", -2, "KeyboardInterrupt"),
        ("sys.stderr = None", 0, ""),
        ("sys.stdout.close(), sys.stderr.close(), os.close(1), os.close(2)", 0, ""),
        ("os.closerange(3, 1000)", 0, ""),
        ("sys.stderr = object()", 120, ""),  # as without us: it cannot be flushed
        ("os.chdir('/')", 0, ""),
        ("atexit.register(late)", 0, ""),
    ],
)
def test_a_program_without_finalize_writes_its_profile(
    ending: str, exit_code: int, says: str
) -> None:
    source = f"""
        import atexit, os, signal, sys, threading
        import marey
        def late():
            with marey.scope("late"):
                pass
        marey.start("x")
        with marey.scope("done"):
            pass
        with marey.scope("in scope"):
            {ending}
        """
    done = run_program(source, **NO_CHECKPOINTS)
    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr or says
    late = {"late": 1} if "late" in ending else {}
    assert counts(complete("x.hatchet")) == {"done": 1, "in scope": 1, **late}


def test_a_short_program_writes_its_profile() -> None:
    begin = time.perf_counter_ns()
    run_well("import marey; marey.start('x')\nwith marey.scope('s'): pass")
    root = complete("x.hatchet")
    assert counts(root) == {"s": 1}
    assert root["marey"]["process"]["duration_nanos"] < time.perf_counter_ns() - begin


def test_daemon_threads_in_scopes_at_exit() -> None:
    source = """
        import marey, threading
        marey.start("x")
        entered = threading.Barrier(4)
        def work():
            with marey.scope("daemon"):
                entered.wait()
                while True:
                    with marey.scope("again"):
                        pass
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        entered.wait()
        """
    for _ in range(5):
        run_well(source)
        root = complete("x.hatchet")
        assert find(root, "daemon")["metrics"]["wall_open"] == 3


def test_no_thread_of_the_library_outlives_the_exit_handlers_of_python() -> None:
    # CPython 3.10 crashes in daemon threads if the process waits after the interpreter has ended.
    output = run_well("""
        import atexit, glob, os

        def is_of_the_library(thread):
            try:
                return open(thread + "/comm").read().startswith("marey")
            except OSError:  # has ended since it was listed
                return False

        def await_threads(expected):
            # A new thread names itself; the kernel forgets a thread a moment after it was joined.
            while any(map(is_of_the_library, glob.glob("/proc/self/task/*"))) != expected:
                os.sched_yield()

        @atexit.register
        def print_last():  # registered before marey's, so called after it
            await_threads(False)
            print("none")

        import marey
        marey.start("x")
        await_threads(True)
        print("some")
        """)
    assert output == "some\nnone\n"


TERMINATED = """
    import marey, os, signal, sys
    {prelude}
    marey.start("x")
    with marey.scope("in scope", {{"m": 1}}):
        with marey.scope("done"):
            pass
        print("ready")
        sys.stdin.read()
    """


@pytest.mark.parametrize("waiting", ["sys.stdin.read()", "while True: pass"])
def test_sigterm_writes_the_file_and_ends_the_process(waiting: str) -> None:
    source = TERMINATED.format(prelude="").replace("sys.stdin.read()", waiting)
    with Live(source, **NO_CHECKPOINTS) as program:
        assert program.read_line() == "ready"
        program.process.send_signal(signal.SIGTERM)
        done = program.end()
    assert (done.exit_code, done.stderr) == (-signal.SIGTERM, "")
    root = complete("x.hatchet")
    assert find(root, "in scope")["metrics"]["wall_open"] == 1
    assert counts(root)["in scope/done"] == 1


def test_a_program_keeps_its_own_sigterm_handler() -> None:
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))"
    for source in (
        TERMINATED.format(prelude=handler),
        TERMINATED.format(prelude="").replace("print(", handler + "\n        print("),
    ):
        with Live(source, **NO_CHECKPOINTS) as program:
            assert program.read_line() == "ready"
            program.process.send_signal(signal.SIGTERM)
            assert program.end().exit_code == 7
        assert counts(complete("x.hatchet")) == {"in scope": 1, "in scope/done": 1}


def test_a_program_that_ignores_sigterm_keeps_running() -> None:
    source = TERMINATED.format(prelude="signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    with Live(source) as program:
        assert program.read_line() == "ready"
        program.process.send_signal(signal.SIGTERM)
        assert program.end().exit_code == 0
    assert counts(complete("x.hatchet")) == {"in scope": 1, "in scope/done": 1}


def test_sigkill_leaves_the_last_checkpoint() -> None:
    source = """
        import marey, sys
        marey.start("x")
        with marey.scope("open"):
            for number in range(1000):
                with marey.scope("done", {"m": number}):
                    pass
            print("ready")
            sys.stdin.read()
        """
    with Live(source, MAREY_CHECKPOINT_SECS="0.05") as program:
        assert program.read_line() == "ready"
        until(Path("x.hatchet").exists)
        until(lambda: len(counts(tree("x.hatchet"))) >= 2)
        # The next checkpoint began after "ready" was heard, and so has everything.
        seen = os.stat("x.hatchet").st_ino
        until(lambda: os.stat("x.hatchet").st_ino != seen)
        program.process.kill()
        assert program.end().exit_code == -signal.SIGKILL
    root = tree("x.hatchet")
    assert root["marey"]["process"]["complete"] is False
    assert find(root, "open")["metrics"]["wall_open"] == 1
    assert counts(root)["open/done"] == 1000
    assert metrics(find(root, "open/done")) == {"m": 499_500}


# Threads


def test_ten_thousand_short_threads_are_recorded() -> None:
    source = """
        import marey, resource, threading
        marey.start("x")
        def work():
            with marey.scope("thread", {"m": 1}):
                with marey.scope("inner"):
                    pass
        def memory():
            pages = int(open("/proc/self/statm").read().split()[1])
            return pages * resource.getpagesize()
        def churn(threads):
            for _ in range(threads // 20):
                batch = [threading.Thread(target=work) for _ in range(20)]
                for thread in batch: thread.start()
                for thread in batch: thread.join()
        churn(1000)
        before = memory()
        churn(9000)
        print(memory() - before)
        """
    grown_bytes = int(run_well(source))
    root = complete("x.hatchet")
    assert counts(root) == {"thread": 10_000, "thread/inner": 10_000}
    assert metrics(find(root, "thread")) == {"m": 10_000}
    # What a thread leaves is folded into one tree: 16 MiB is far below 9,000 trees.
    assert grown_bytes < 16 << 20


def test_a_new_thread_inherits_the_main_threads_scopes() -> None:
    source = """
        import marey, threading
        marey.start("x")
        def work(name):
            with marey.scope(name, {"m": 1}):
                pass
        def run(name, target=work):
            thread = threading.Thread(target=target, args=(name,))
            thread.start(); thread.join()
        def twice(name):
            work(name)
            entered.set(); go.wait()
            work(name + " later")
        entered, go = threading.Event(), threading.Event()
        run("before")
        with marey.scope("outer"):
            with marey.scope("middle"):
                run("inside")
                late = threading.Thread(target=twice, args=("first",))
                late.start(); entered.wait()
            go.set(); late.join()
            run("nested", lambda name: run(name))
        run("after")
        """
    run_well(source)
    assert counts(complete("x.hatchet")) == {
        "before": 1,
        "outer": 1,
        "outer/middle": 1,
        "outer/middle/inside": 1,
        "outer/middle/first": 1,
        "outer/middle/first later": 1,  # it stays where it began
        "outer/nested": 1,
        "after": 1,
    }


def test_the_backward_pass_is_below_the_scope_that_called_it() -> None:
    pytest.importorskip("torch")
    source = """
        import torch, marey
        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                with marey.scope("forward"):
                    return x * 2
            @staticmethod
            def backward(ctx, gradient):
                with marey.scope("backward"):
                    return gradient * 2
        marey.start("x")
        for step in ("one", "two", "two"):
            with marey.scope(step):
                x = torch.ones(3, requires_grad=True)
                Twice.apply(x).sum().backward()
        """
    run_well(source)
    expected = {"one": 1, "two": 2}
    for way in ("forward", "backward"):
        expected |= {f"one/{way}": 1, f"two/{way}": 2}
    assert counts(complete("x.hatchet")) == expected


def test_an_autograd_thread_follows_the_main_thread_again_and_again() -> None:
    source = """
        import ctypes, marey, queue, threading
        marey.start("x")
        work, done = queue.Queue(), queue.Queue()
        def engine():
            ctypes.CDLL(None).prctl(15, b"pt_autograd_0", 0, 0, 0)
            for name in iter(work.get, None):
                with marey.scope(name):
                    with marey.scope("inner"):
                        pass
                done.put(name)
        thread = threading.Thread(target=engine)
        thread.start()
        def backward():
            work.put("backward"); done.get()
        for step in ("one", "two", "one"):
            with marey.scope(step):
                backward()
                with marey.scope("deeper"):
                    backward()
        backward()
        work.put(None); thread.join()
        """
    run_well(source)
    expected = {"backward": 1, "backward/inner": 1}
    for step, calls in (("one", 2), ("two", 1)):
        for path in ("", "/backward", "/backward/inner", "/deeper", "/deeper/backward"):
            expected[step + path] = calls
        expected[step + "/deeper/backward/inner"] = calls
    assert counts(complete("x.hatchet")) == expected


# Odd ways to run code


def test_scopes_in_greenlets_are_recorded() -> None:
    pytest.importorskip("greenlet")
    source = """
        import marey
        from greenlet import greenlet
        marey.start("x")
        def work(number):
            for _ in range(50):
                with marey.scope(f"g{number}"):
                    hub.switch()
                    with marey.scope("inner"):
                        hub.switch()
        hub = greenlet.getcurrent()
        with marey.scope("hub"):
            waiting = [greenlet(work) for _ in range(4)]
            for number, each in enumerate(waiting):
                each.switch(number)
            while waiting := [each for each in waiting if not each.dead]:
                for each in waiting:
                    each.switch()
        with marey.scope("after"):
            pass
        """
    run_well(source)
    found = counts(complete("x.hatchet"))
    # Greenlets share the thread's stack, so paths may be mixed up; the ends may not.
    assert found["hub"] == found["after"] == 1
    assert any(path.endswith("inner") for path in found)


def test_scopes_nest_five_thousand_deep() -> None:
    source = """
        import marey, sys
        marey.start("x")
        sys.setrecursionlimit(20_000)
        def recurse(depth):
            with marey.scope("deep"):
                if depth:
                    recurse(depth - 1)
        recurse(4999)
        """
    run_well(source)
    # Deeper than Python's JSON parser supports.
    text = Path("x.hatchet").read_text()
    assert text.count('"name": "deep"') == text.count('"wall_count": 1,') == 5000
    assert text.count("{") == text.count("}")


def test_scopes_in_generators_destructors_and_signal_handlers() -> None:
    source = """
        import gc, marey, signal, sys
        marey.start("x")

        def recurse(depth):
            with marey.scope("deep"):
                if depth:
                    recurse(depth - 1)
        recurse(400)

        class Cycle:
            def __init__(self):
                self.me = self
            def __del__(self):
                with marey.scope("__del__"):
                    pass
        with marey.scope("garbage"):
            for _ in range(5000):
                Cycle()
            gc.collect()

        handled = 0
        def handler(*_):
            global handled
            with marey.scope("handler"):
                handled += 1
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        while handled < 200:
            with marey.scope("interrupted"):
                with marey.scope("inner"):
                    pass
        signal.setitimer(signal.ITIMER_REAL, 0)

        def generate():
            with marey.scope("generator"):
                yield 1
        next(generate())
        with marey.scope("after"):
            pass
        print(handled)
        """
    handled = int(run_well(source))
    root = complete("x.hatchet")
    found = counts_by_name(root)
    assert found["deep"] == 401
    assert found["__del__"] == 5000
    assert found["handler"] == handled
    assert found["interrupted"] == found["inner"] > 0
    assert (found["generator"], found["after"]) == (1, 1)
    assert losses(root) == {}


def counts_by_name(root: Node) -> dict[str, int]:
    """Returns how often each name was entered, in all paths."""
    found: dict[str, int] = {}
    below = [root]
    while below:
        node = below.pop()
        below += node["children"]
        name = node["frame"]["name"]
        found[name] = found.get(name, 0) + node["metrics"].get("wall_count", 0)
    return found


def test_two_interpreters_in_one_process_do_not_crash() -> None:
    pytest.importorskip("_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters")
    name = "_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters"
    source = f"""
        import marey, {name} as interpreters
        marey.start("x")
        with marey.scope("main"):
            other = interpreters.create()
            interpreters.run_string(other, "x = 1 + 1")
            interpreters.destroy(other)
        """
    run_well(source)
    assert counts(complete("x.hatchet")) == {"main": 1}


def test_marey_is_refused_in_a_second_interpreter_and_records_the_first() -> None:
    name = "_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters"
    pytest.importorskip(name)
    kind = "isolated=False" if sys.version_info < (3, 13) else "'legacy'"
    source = f"""
        import marey, {name} as interpreters
        refused = '''
        try:
            import marey
        except ImportError as error:
            print(error, flush=True)
        '''
        marey.start("x")
        with marey.scope("main"):
            other = interpreters.create({kind})
            interpreters.run_string(other, refused)
            interpreters.destroy(other)
        with marey.scope("after"):
            pass
        """
    assert run_well(source) == (
        "another interpreter of this process has imported marey, which records one of them\n"
    )
    assert counts(complete("x.hatchet")) == {"main": 1, "after": 1}


def test_no_temporary_files_are_left() -> None:
    run_well("import marey; marey.start('x')", MAREY_CHECKPOINT_SECS="0.001")
    assert sorted(os.listdir()) == ["program.py", "x.hatchet"]
    assert profile_names() == ["x.hatchet"]
