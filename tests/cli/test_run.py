"""`marey run X` behaves like `python X`: this interpreter runs each program both ways."""

from __future__ import annotations

import os
import re
import signal
import sys
import zipfile
from pathlib import Path

import pytest
from programs import LiveCommand
from scripts import RUN, SCRIPTS, Outcome, assert_same, outcome, profiles, run, run_both, write


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
    with LiveCommand(*command) as program:
        assert program.read_line() == "ready"
        program.process.send_signal(number)
        return outcome(*program.end("go on\n"))


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
