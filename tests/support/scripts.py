"""Scripts that tests run with plain Python and with `marey run`, and the results of both."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

MAREY = [sys.executable, "-m", "marey"]
RUN = [*MAREY, "run"]


class Outcome(NamedTuple):
    """The visible behaviour of a program; its own stderr is separated from marey's lines."""

    exit_code: int
    stdout: str
    stderr: str
    marey: str


def write(path: str, source: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(textwrap.dedent(source))
    return path


def run(*command: str, stdin: str = "", **env: str) -> Outcome:
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        env={**os.environ, **env},
        timeout=120,
    )
    return outcome(done.returncode, done.stdout, done.stderr)


def outcome(exit_code: int, stdout: str, stderr: str) -> Outcome:
    lines = stderr.splitlines(keepends=True)
    ours = [line for line in lines if line.startswith("marey: ")]
    own = [line for line in lines if not line.startswith("marey: ")]
    return Outcome(exit_code, stdout, "".join(own), "".join(ours))


def run_both(
    *target: str, flags: tuple[str, ...] = (), stdin: str = "", **env: str
) -> tuple[Outcome, Outcome]:
    """Runs the target plain and profiled; addresses in the output are made equal."""
    plain = run(sys.executable, *flags, *target, stdin=stdin, **env)
    profiled = run(sys.executable, *flags, "-m", "marey", "run", *target, stdin=stdin, **env)
    return without_addresses(plain), without_addresses(profiled)


def without_addresses(seen: Outcome) -> Outcome:
    def clean(text: str) -> str:
        return re.sub(r"0x[0-9a-f]+", "0x", text)

    return seen._replace(stdout=clean(seen.stdout), stderr=clean(seen.stderr))


def assert_same(*target: str, **how: Any) -> Outcome:
    plain, profiled = run_both(*target, **how)
    assert profiled[:3] == plain[:3]
    return profiled


def names_in(path: str | Path) -> set[str]:
    """Returns the names of the nodes of a profile."""

    def walk(node: dict[str, Any]) -> Iterator[str]:
        yield node["frame"]["name"]
        for child in node["children"]:
            yield from walk(child)

    return set(walk(json.loads(Path(path).read_text())[0]))


def profiles(directory: str = ".") -> list[str]:
    return sorted(path.name for path in Path(directory).glob("*.hatchet*"))


# By the ids of their tests.
SCRIPTS = {
    "main module": """
        import sys
        print(list(globals()))
        print(__name__, __file__, __cached__, __spec__, __loader__, __package__, __builtins__)
        print(__loader__.name, __loader__.path, vars(sys.modules["__main__"]) is globals())
        print(sys.argv, sys.path[0], sys.orig_argv, sys.exc_info())
        """,
    "interpreter": """
        import signal, sys, threading
        print(sys.flags, sys.warnoptions, sys._xoptions, sys.getrecursionlimit())
        print(sys.excepthook is sys.__excepthook__, sys.stdout.line_buffering)
        print(threading.current_thread().name, threading.active_count())
        print([(each.name, signal.getsignal(each)) for each in signal.valid_signals()
               if isinstance(each, signal.Signals)])
        """,
    "annotations": """
        def f(x: int) -> None: ...
        print(f.__annotations__)
        """,
    "own source": """
        import inspect
        class Thing:
            pass
        print(inspect.getsource(Thing), inspect.getsourcefile(Thing))
        """,
    "pickle": """
        import pickle
        class Thing:
            pass
        print(pickle.loads(pickle.dumps(Thing())).__class__ is Thing, Thing.__module__)
        """,
    "spawn": """
        import multiprocessing, sys
        class Thing:
            def __init__(self, value):
                self.value = value
        def work(thing):
            print(__name__, thing.value, sys.argv, sys.path[0], flush=True)
            return Thing(thing.value + 1)
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(work, [Thing(1)])[0].value)
        """,
    "stdin": """
        import sys
        print(input(), sys.stdin.read())
        """,
    "main guard": """
        import __main__
        if __name__ == "__main__":
            print("main", __main__.__file__)
        """,
    "nothing": "",
    "exception": """
        def inner():
            {}["missing"]
        try:
            inner()
        except KeyError as error:
            raise RuntimeError("outer") from error
        """,
    "exception group of threads": """
        import threading
        thread = threading.Thread(target=lambda: 1 / 0, name="worker")
        thread.start()
        thread.join()
        raise ValueError
        """,
    "syntax error": "x = = 1\n",
    "null byte": "x = '\0'\n",
    "bad indentation": "if True:\nprint(1)\n",
    "invalid escape": r"print('\d')",
    "import of a broken module": "import broken\n",
    "exit none": "import sys; sys.exit(None)\n",
    "exit 0": "import sys; sys.exit(0)\n",
    "exit 3": "import sys; sys.exit(3)\n",
    "exit text": "import sys; sys.exit('a reason')\n",
    "exit tuple": "raise SystemExit(1, 2)\n",
    "exit subclass": """
        class Leave(SystemExit):
            pass
        raise Leave(9)
        """,
    "os._exit": "import os; print('x', flush=True); os._exit(7)\n",
    "abort": "import os; os.abort()\n",
    "keyboard interrupt": "raise KeyboardInterrupt\n",
    "exit handlers": """
        import atexit
        atexit.register(print, "first registered")
        atexit.register(print, "last registered")
        print("body")
        raise ValueError("then the handlers")
        """,
    "thread outlives the script": """
        import atexit, threading
        go = threading.Event()
        def work():
            go.wait()
            print("thread", threading.main_thread().is_alive())
        threading.Thread(target=work).start()
        atexit.register(print, "exit handler")
        print("script")
        go.set()
        """,
    "own excepthook": """
        import sys, traceback
        def hook(kind, value, tb):
            print(kind, value, [each.name for each in traceback.extract_tb(tb)])
            print(sys.last_traceback is tb, sys.last_value is value, sys.excepthook is hook)
        sys.excepthook = hook
        raise ValueError("x")
        """,
    "own excepthook fails": """
        import sys
        def hook(kind, value, tb):
            raise RuntimeError("hook")
        sys.excepthook = hook
        raise ValueError("x")
        """,
    "own excepthook exits": """
        import sys
        sys.excepthook = lambda *_: sys.exit(4)
        raise ValueError("x")
        """,
    "stderr replaced": """
        import io, sys
        sys.stdout = sys.stderr = io.StringIO()
        print("lost")
        """,
    "stderr closed": "import sys; sys.stderr.close(); print('x')\n",
    "working directory changed": "import os; os.chdir('/')\n",
    "object outlives the script": """
        class Thing:
            def __del__(self):
                print("deleted", flush=True)
        thing = Thing()
        """,
    "fork": """
        import os, sys
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            sys.exit(5)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """,
}

SCOPED = """
    import marey
    with marey.scope("outer"):
        pass
    """


def child_profiles() -> list[str]:
    return [name for name in profiles() if re.search(r"\.\d+\.hatchet$", name)]
