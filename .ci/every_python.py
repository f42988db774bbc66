"""Tests a wheel on every supported CPython on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MINORS = (10, 11, 12, 13, 14)
# Not supported yet; tested if MAREY_PYTHONS is the folder that `.ci/newer_pythons` has created.
NEWER_MINORS = (15,)
TESTS = Path(__file__).resolve().parent.parent / "tests"
# Test files that need no other packages than these, or skip tests that do.
REQUIREMENTS = ("pytest", "greenlet")
TEST_FILES = (
    "cli/test_run.py",
    "cli/test_run_commands.py",
    "cli/test_run_profiles.py",
    "gpu/test_gpu_tasks.py",
    "python/test_api.py",
    "python/test_async.py",
    "python/test_context_launch.py",
    "python/test_context_python.py",
    "python/test_metrics.py",
    "python/test_scope.py",
    "live/test_dump.py",
    "live/test_record.py",
    "query/test_sql.py",
    "recording/test_c.py",
    "recording/test_children.py",
    "recording/test_collect.py",
    "recording/test_files.py",
    "recording/test_live.py",
    "traces/test_trace.py",
    "traces/test_trace_ends.py",
    "traces/test_trace_runs.py",
)


def main(arguments: list[str]) -> None:
    """Installs the wheel into a venv of each interpreter and runs the tests there."""
    (wheel,) = arguments
    minors = MINORS + (NEWER_MINORS if "MAREY_PYTHONS" in os.environ else ())
    found = {minor: python for minor in minors if (python := find_interpreter(minor)) is not None}
    for minor in sorted(set(MINORS) - set(found)):
        print(
            f"CPython 3.{minor} is not on this machine: the wheel is not tested on it", flush=True
        )
    interpreters = list(found.values())
    if not interpreters:
        sys.exit("error: no CPython 3.10 to 3.14 is installed")
    with ThreadPoolExecutor(os.cpu_count()) as executor:
        # Reads the results, so that a failure is raised.
        list(executor.map(lambda python: test_wheel(Path(wheel), python), interpreters))


def find_interpreter(minor: int) -> Path | None:
    """Returns the path of a working CPython 3.`minor`: from PATH, pyenv or `.ci/newer_pythons`."""
    name = f"python3.{minor}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(name)
    candidates = [Path(on_path)] if on_path else []
    if newer_pythons := os.environ.get("MAREY_PYTHONS"):
        candidates.append(Path(newer_pythons) / "root/usr/bin" / name)
    candidates += sorted(pyenv.glob(f"3.{minor}.*/bin/{name}"), reverse=True)
    return next((candidate for candidate in candidates if is_usable(candidate)), None)


def is_usable(python: Path) -> bool:
    """Whether `python` starts and can create virtual environments."""
    command = [str(python), "-c", "import ensurepip, venv"]
    return (
        python.exists()
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


def test_wheel(wheel: Path, python: Path) -> None:
    """Installs `wheel` for `python` in a new folder, then tests the package and the command."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", f"{folder}/venv"], check=True)
        venv_python = Path(folder, "venv/bin/python")
        pip = [str(venv_python), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--no-index", "--no-deps", str(wheel.resolve())], check=True)
        subprocess.run([*pip, *REQUIREMENTS], check=True)
        run_tests(python.name, venv_python)
        run_and_view(venv_python.with_name("marey"), Path(folder))
    print(f"{python.name}: the wheel works", flush=True)


def run_tests(name: str, python: Path) -> None:
    """Runs the test files; prints their output at once, as other interpreters run theirs."""
    files = [str(TESTS / name) for name in TEST_FILES]
    pytest = [str(python), "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *files]
    done = subprocess.run(
        pytest, cwd=TESTS.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    print(f"{name}:\n{done.stdout}", end="", flush=True)
    done.check_returncode()


def run_and_view(marey: Path, folder: Path) -> None:
    """Profiles a script with `marey run` and prints the profile with `marey view`."""
    script = folder / "script.py"
    script.write_text("import marey\nwith marey.scope('scripted'):\n    print('from the script')\n")
    recorded = subprocess.run([marey, "run", script], cwd=folder, capture_output=True, check=True)
    assert recorded.stdout == b"from the script\n", recorded.stdout
    viewed = subprocess.run(
        [marey, "view", "script.hatchet"], cwd=folder, capture_output=True, check=True
    )
    assert b"scripted" in viewed.stdout, viewed.stdout


if __name__ == "__main__":
    main(sys.argv[1:])
