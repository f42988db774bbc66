"""`marey run X` behaves like `python X`: this interpreter runs each program both ways."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from marey import _run_parser

MAREY = [sys.executable, "-m", "marey"]
RUN = [*MAREY, "run"]


class Outcome(NamedTuple):
    """The visible behaviour of a program; its own stderr is separated from marey's lines."""

    exit_code: int
    stdout: str
    stderr: str
    marey: str


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")


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


# The program behaves as under plain Python

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


@pytest.mark.parametrize("source", SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_behaves_as_under_plain_python(source: str) -> None:
    write("broken.py", "def f(:\n")
    write("script.py", source)
    assert_same("./script.py", "a", "-n", "--", "-b", stdin="one\ntwo\n")


@pytest.mark.parametrize(
    "flags", [("-u",), ("-W", "error"), ("-X", "dev"), ("-O",), ("-B", "-v", "-q")]
)
def test_interpreter_flags_reach_the_script(flags: tuple[str, ...]) -> None:
    write("script.py", SCRIPTS["interpreter"] + "\nassert not __debug__, 'debug'\n")
    plain, profiled = run_both("script.py", flags=flags)
    assert profiled[:2] == plain[:2]


def test_warnings_as_errors_do_not_break_the_start() -> None:
    write("script.py", "print('x')")
    assert assert_same("script.py", PYTHONWARNINGS="error").stdout == "x\n"


def test_the_source_may_have_a_coding_cookie() -> None:
    Path("script.py").write_bytes(b"# coding: latin-1\nprint(ascii('\xe9'))\n1/0 # \xe9\n")
    assert_same("script.py")
    Path("script.py").write_bytes(b"print('\xe9')\n")
    assert "Non-UTF-8 code" in assert_same("script.py").stderr


def test_a_script_may_be_compiled() -> None:
    write("script.py", "print(__file__, __loader__)")
    compile_it = "import py_compile; py_compile.compile('script.py', 'compiled.pyc')"
    assert run(sys.executable, "-c", compile_it).exit_code == 0
    assert_same("compiled.pyc")


def test_a_script_may_be_a_link_to_another_directory() -> None:
    write("real/helper.py", "print('helper')")
    write("real/script.py", "import helper, sys; print(sys.path[0], __file__)")
    os.symlink("real/script.py", "link.py")
    assert_same("link.py")


def test_a_script_may_be_a_directory_or_a_zip_file() -> None:
    source = "import sys, helper; print(sys.argv, sys.path[0], __file__, __spec__); 1/0"
    write("program/__main__.py", source)
    write("program/helper.py", "")
    assert_same("program", "a", "-b")
    assert_same("./program/")
    with zipfile.ZipFile("program.pyz", "w") as archive:
        archive.writestr("__main__.py", source)
        archive.writestr("helper.py", "")
    assert_same("program.pyz", "a")


def test_a_script_may_come_through_a_pipe() -> None:
    def piped(command: list[str], source: str) -> Outcome:
        return run("bash", "-c", f"exec {' '.join(command)} <(echo '{source}')")

    source = "print(__file__[:5], 1)"
    assert piped(RUN, source)[:3] == piped([sys.executable], source)[:3] == (0, "/dev/ 1\n", "")
    broken = piped(RUN, "x = = 1")
    assert broken[:2] == (1, "")
    assert broken.stderr.startswith('  File "/dev/fd/')


@pytest.mark.parametrize("target", ["missing.py", "no_main", "unreadable"])
def test_a_script_that_is_not_there_is_reported_as_python_does(target: str) -> None:
    Path("no_main").mkdir()
    Path("unreadable").symlink_to("unreadable")
    assert assert_same(target).exit_code != 0


def test_a_module_behaves_as_under_python_m() -> None:
    facts = "print(sys.argv, sys.path[0], __name__, __file__, __package__, __spec__.name)"
    write("package/__init__.py", "")
    write("package/helper.py", "value = 5")
    write("package/__main__.py", f"import sys\nfrom .helper import value\n{facts}\n1/0")
    write("package/tool.py", f"import sys\nfrom .helper import value\n{facts}\nsys.exit(value)")
    write("single.py", f"import sys\n{facts}\nprint(list(globals()), sys.orig_argv)")
    assert "ZeroDivisionError" in assert_same("-m", "package", "a", "-n").stderr
    assert assert_same("-m", "package.tool", "-c", "x").exit_code == 5
    assert_same("-m", "single", "--", "--help")


@pytest.mark.parametrize("name", ["missing", "package.missing", "package", "json.tool.deeper"])
def test_a_module_that_cannot_run_is_reported_as_python_does(name: str) -> None:
    write("package/__init__.py", "")
    assert assert_same("-m", name).exit_code == 1


def test_pytest_is_a_target() -> None:
    write("helper.py", "")
    write("tests_of_it/test_it.py", "import helper\ndef test_good(): pass\ndef test_bad(): 1/0\n")
    arguments = ("-p", "no:cacheprovider", "tests_of_it", "-v")
    plain = run(sys.executable, "-m", "pytest", *arguments)
    profiled = run(*RUN, "pytest", *arguments)

    def untimed(text: str) -> str:
        return re.sub(r"=* (.*) in [\d.]+s =*", r"\1", text)

    assert profiled.exit_code == plain.exit_code == 1
    assert untimed(profiled.stdout) == untimed(plain.stdout)
    assert profiles() == ["pytest.hatchet"]


def interrupted(command: list[str], number: signal.Signals) -> Outcome:
    """Sends the signal to the ready program, which continues once the signal is pending."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    stdout, stderr = process.communicate("go on\n", timeout=60)
    return outcome(process.returncode, stdout, stderr)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_program_as_it_ends_the_plain_one(number: signal.Signals) -> None:
    write(
        "script.py",
        """
        import atexit, signal, sys
        atexit.register(print, "exit handler")
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        print("ready", flush=True)
        input()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
        """,
    )
    plain = interrupted([sys.executable, "script.py"], number)
    profiled = interrupted([*RUN, "script.py"], number)
    assert profiled[:3] == plain[:3]
    assert profiled.exit_code == -number


def test_a_signal_handler_of_the_script_runs() -> None:
    write(
        "script.py",
        """
        import signal, sys
        def handle(number, frame):
            print("handled", number)
            sys.exit(6)
        signal.signal(signal.SIGTERM, handle)
        print("ready", flush=True)
        input()
        """,
    )
    assert interrupted([*RUN, "script.py"], signal.SIGTERM)[:2] == (6, "handled 15\n")


# The profile

SCOPED = """
    import marey
    with marey.scope("outer"):
        pass
    """


def test_the_profile_is_named_after_the_script() -> None:
    write("code/train_gpt.py", SCOPED)
    seen = run(*RUN, "code/train_gpt.py")
    assert profiles() == ["train_gpt.hatchet"]
    assert "outer" in names_in("train_gpt.hatchet")
    note, rest = seen.marey.split("\n", 1)
    assert "GPU" in note
    assert (seen.exit_code, seen.stdout, seen.stderr, rest) == (
        0,
        "",
        "",
        "marey: wrote train_gpt.hatchet\nmarey: see it with: marey view train_gpt.hatchet\n",
    )


@pytest.mark.parametrize(
    ("options", "path"),
    [
        (["-n", "named"], "named.hatchet"),
        (["--name=v1.5"], "v1.5.hatchet"),
        (["-o", "out/full.hatchet"], "out/full.hatchet"),
        (["-o", "full"], "full.hatchet"),
        (["-o", "out/"], "out/script.hatchet"),
        (["-o", "exists", "-n", "named"], "exists/named.hatchet"),
    ],
)
def test_the_options_name_the_file(options: list[str], path: str) -> None:
    Path("exists").mkdir()
    write("script.py", SCOPED + "\n    import os; os.chdir('/')\n")
    assert f"marey: wrote {path}\n" in run(*RUN, *options, "script.py").marey
    assert "outer" in names_in(path)


def test_the_suffix_picks_the_format() -> None:
    write("script.py", SCOPED)
    seen = run(*RUN, "-o", "packed.hatchet_msgpack", "script.py")
    assert "marey: wrote packed.hatchet_msgpack\n" in seen.marey
    assert profiles() == ["packed.hatchet_msgpack"]


def test_what_a_failing_script_recorded_is_kept() -> None:
    write("script.py", SCOPED + "\n    raise ValueError\n")
    assert run(*RUN, "script.py").exit_code == 1
    assert "outer" in names_in("script.hatchet")


def test_exit_handlers_of_the_script_are_still_recorded() -> None:
    write(
        "script.py",
        """
        import atexit, marey
        @atexit.register
        def last():
            with marey.scope("late"):
                print("handler")
        """,
    )
    assert run(*RUN, "script.py").stdout == "handler\n"
    assert "late" in names_in("script.hatchet")


def test_a_start_in_the_script_is_ignored() -> None:
    write("script.py", "import marey\nprint(marey.start('other'))\n" + textwrap.dedent(SCOPED))
    assert run(*RUN, "script.py").stdout == "None\n"
    assert profiles() == ["script.hatchet"]


def test_a_forked_child_does_not_announce_the_file() -> None:
    write("script.py", SCRIPTS["fork"])
    assert run(*RUN, "script.py").marey.count("marey: wrote script.hatchet\n") == 1


def test_a_failure_to_write_leaves_the_exit_code_alone() -> None:
    write(
        "script.py",
        SCOPED + "\n    import shutil, sys; shutil.rmtree('out'); open('out', 'w'); sys.exit(3)\n",
    )
    seen = run(*RUN, "-o", "out/", "script.py")
    assert (seen.exit_code, seen.stderr) == (3, "")
    assert seen.marey.startswith("marey: could not write the profile: ")


def test_a_disabled_marey_only_runs_the_script() -> None:
    write("script.py", "import os, sys; print('MAREY_RUN' in os.environ, sys.argv)")
    seen = run(*RUN, "script.py", "a", MAREY_DISABLE="1")
    assert seen == Outcome(0, "False ['script.py', 'a']\n", "", "")
    assert profiles() == []


# The children


def in_child(source: str, options: str = "") -> str:
    """Returns a script that runs `source` in a Python child process."""
    arguments = f"[sys.executable, {options} '-c', {textwrap.dedent(source)!r}]"
    return f"import subprocess, sys\nsys.exit(subprocess.run({arguments}).returncode)\n"


def child_profiles() -> list[str]:
    return [name for name in profiles() if re.search(r"\.\d+\.hatchet$", name)]


def test_a_child_process_writes_its_own_profile() -> None:
    write("script.py", in_child(SCOPED))
    seen = assert_same("script.py")
    (name,) = child_profiles()
    assert "outer" in names_in(name)
    assert "outer" not in names_in("script.hatchet")
    assert seen.marey.count("marey: wrote ") == 1


def test_grandchildren_are_profiled_and_empty_profiles_are_not_written() -> None:
    write("script.py", in_child(in_child(SCOPED)))
    assert run(*RUN, "script.py").exit_code == 0
    (name,) = child_profiles()
    assert "outer" in names_in(name)


def test_spawned_workers_are_profiled() -> None:
    write(
        "script.py",
        """
        import marey, multiprocessing
        def work():
            with marey.scope("worker"):
                pass
        if __name__ == "__main__":
            process = multiprocessing.get_context("spawn").Process(target=work)
            process.start()
            process.join()
        """,
    )
    assert run(*RUN, "script.py").exit_code == 0
    assert [names_in(name) & {"worker"} for name in child_profiles()] == [{"worker"}]


def test_no_children_disables_profiling_of_children() -> None:
    write("script.py", in_child("import os; print('MAREY_RUN' in os.environ)\n"))
    assert run(*RUN, "--no-children", "script.py").stdout == "False\n"


def test_children_have_the_sys_path_of_plain_python() -> None:
    write("script.py", in_child("import sys; print(sys.path, sys.argv, sys.orig_argv)"))
    assert_same("script.py")


def test_the_next_sitecustomize_still_runs() -> None:
    write("site/sitecustomize.py", "import sys\nsys.path.append('/added')\nprint('theirs')\n")
    write("script.py", in_child("import sitecustomize as s, sys; print(s.__file__, sys.path)"))
    paths = os.pathsep.join(filter(None, [os.path.abspath("site"), os.getenv("PYTHONPATH")]))
    assert assert_same("script.py", PYTHONPATH=paths).stdout.count("theirs\n") == 2


def test_a_broken_sitecustomize_is_reported_as_python_does() -> None:
    write("site/sitecustomize.py", "import not_to_be_found\n")
    write("script.py", in_child("print('x')"))
    paths = os.pathsep.join(filter(None, [os.path.abspath("site"), os.getenv("PYTHONPATH")]))
    assert assert_same("script.py", PYTHONPATH=paths).stdout == "x\n"


def test_a_child_that_cannot_be_profiled_runs_on() -> None:
    write("script.py", "import os; os.environ['MAREY_RUN'] = 'no'\n" + in_child("print('x')"))
    seen = run(*RUN, "script.py")
    assert (seen.exit_code, seen.stdout, seen.stderr) == (0, "x\n", "")
    assert re.search(r"^marey: process \d+ is not profiled: ", seen.marey, re.MULTILINE)


def test_an_environment_without_marey_runs_unprofiled() -> None:
    assert run(sys.executable, "-m", "venv", "--without-pip", "bare").exit_code == 0
    write(
        "script.py",
        """
        import os, subprocess, sys
        startup = os.environ["PYTHONPATH"].split(os.pathsep)[0]
        code = "import importlib.util as u; print(u.find_spec('marey'))"
        env = {**os.environ, "PYTHONPATH": startup}
        sys.exit(subprocess.run(["bare/bin/python", "-c", code], env=env).returncode)
        """,
    )
    seen = run(*RUN, "script.py")
    assert seen[:3] == (0, "None\n", "")
    assert "not profiled" not in seen.marey


def test_a_run_inside_a_run_writes_its_own_profile() -> None:
    write("inner.py", SCOPED)
    write("script.py", f"import subprocess; subprocess.run({[*RUN, 'inner.py']!r}, check=True)")
    assert "marey: wrote inner.hatchet\n" in run(*RUN, "script.py").marey
    assert "outer" in names_in("inner.hatchet")


# Commands


def test_a_command_replaces_the_process() -> None:
    seen = run(*RUN, "--", "sh", "-c", "cat; echo got $0 $1; exit 5", "-n", "--", stdin="in\n")
    assert seen[:3] == (5, "in\ngot -n --\n", "")


def test_the_signal_that_kills_a_command_is_reported() -> None:
    assert run(*RUN, "--", "sh", "-c", "kill -9 $$").exit_code == -signal.SIGKILL


def test_python_processes_of_a_command_are_profiled() -> None:
    write("script.py", SCOPED)
    seen = run(*RUN, "-n", "job", "--", "sh", "-c", f"{sys.executable} script.py")
    (name,) = child_profiles()
    assert name.startswith("job.")
    assert "outer" in names_in(name)
    assert seen.marey == "marey: each Python process writes job.<pid>.hatchet\n"


def test_a_missing_command_is_reported() -> None:
    seen = run(*RUN, "--", "no-such-command")
    assert (seen.exit_code, seen.stderr) == (127, "error: command not found: no-such-command\n")
    write("not_executable", "")
    seen = run(*RUN, "--", "./not_executable")
    assert (seen.exit_code, seen.stderr) == (
        126,
        "error: cannot run ./not_executable: Permission denied\n",
    )


# The command line


@pytest.mark.parametrize("before", [[], ["-n", "script"], ["--context=shadow"]])
def test_run_may_be_left_out(before: list[str]) -> None:
    write("script.py", SCOPED + "\n    import sys; print(sys.argv)\n")
    seen = run(*MAREY, *before, "script.py", "-x", "view")
    assert seen.stdout == "['script.py', '-x', 'view']\n"
    assert profiles() == ["script.hatchet"]


def test_the_installed_command_does_the_same() -> None:
    write("bin/marey", "import sys\nfrom marey._cli import main\nsys.exit(main())\n")
    write("script.py", SCRIPTS["main module"] + "\n        raise KeyboardInterrupt\n")
    plain = run(sys.executable, "-B", "script.py", "a")
    profiled = run(sys.executable, "-B", "bin/marey", "run", "script.py", "a")
    assert without_addresses(profiled)[:3] == without_addresses(plain)[:3]
    assert profiled.exit_code == -signal.SIGINT


def test_options_after_the_script_belong_to_the_script() -> None:
    write("script.py", "import sys; print(sys.argv[1:])")
    arguments = ["-n", "x", "--help", "-m", "--", "--no-torch"]
    assert run(*RUN, "-n", "mine", "script.py", *arguments).stdout == f"{arguments}\n"
    assert profiles() == ["mine.hatchet"]


def test_help_and_version() -> None:
    helped = run(*MAREY, "--help")
    assert helped.exit_code == 0
    assert "marey run train.py" in helped.stdout
    assert run(*MAREY).stdout == run(*MAREY, "-h").stdout == helped.stdout
    assert run(*MAREY, "help").stdout == helped.stdout
    assert re.fullmatch(r"marey \d+\.\d+\.\d+\S*\n", run(*MAREY, "--version").stdout)


def test_the_help_of_run_lists_exactly_its_options() -> None:
    helped = run(*RUN, "-n", "x", "--help")
    assert helped.exit_code == 0
    assert helped.stdout == run(*MAREY, "help", "run").stdout
    described = set(re.findall(r"^ +(?:-\w, )?(?:-m\b|--[a-z-]+)", helped.stdout, re.MULTILINE))
    taken = _run_parser._parser()._actions
    assert {words for line in described for words in line.replace(",", " ").split()} == {
        word for action in taken for word in action.option_strings
    }
    for action in taken:
        if action.choices:
            assert f"[possible values: {', '.join(action.choices)}]" in " ".join(
                helped.stdout.split()
            )


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-"],
        ["--"],
        ["-m"],
        ["--no-such-option", "script.py"],
        ["-c", "nonsense", "script.py"],
        ["-d", "trace", "-o", "x.hatchet", "script.py"],
        ["-o", "x.chrome_trace", "script.py"],
        ["-b", "nonsense", "script.py"],
        ["-i", "nonsense", "script.py"],
        ["-o", "/dev/null/x/y", "script.py"],
    ],
)
def test_usage_errors_are_reported_before_the_script_runs(arguments: list[str]) -> None:
    write("script.py", "print('ran')")
    seen = run(*RUN, *arguments)
    assert (seen.exit_code, seen.stdout) == (2, "")
    assert re.fullmatch(r"error: .+\n(hint: .+\n)?", seen.stderr)
    assert profiles() == []
