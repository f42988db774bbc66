"""`marey run`: the profiles of the program and of its child processes."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from pathlib import Path

import pytest
from scripts import (
    RUN,
    SCOPED,
    SCRIPTS,
    Outcome,
    assert_same,
    child_profiles,
    names_in,
    profiles,
    run,
    write,
)


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
