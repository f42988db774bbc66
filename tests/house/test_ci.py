"""The scripts of `.ci`, with fast stand-ins for the programs that they start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

PROGRAMS = {
    "make": "mkdir -p target/stamps; echo 'test result: ok' > target/stamps/cargo-test.log\n"
    "touch target/stamps/pytest.log\n"
    'echo "make $1: $MAREY_PYTHONS"',
    "apt-get": "exit 1",
    "python3.14": "exit 127",
}


def write_script(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)


def commit(checkout: Path) -> None:
    subprocess.run(["git", "init", "--quiet", checkout], check=True)
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    git = ["git", *author, "-C", str(checkout)]
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "a change"], check=True)


def run_ci(checkout: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Runs `.ci/run` of `checkout` with the cache in `home`, and with stand-ins of the programs."""
    for name, text in PROGRAMS.items():
        write_script(home / "bin" / name, text)
    environment = {name: value for name, value in os.environ.items() if name != "MAREY_PYTHONS"}
    environment |= {"HOME": str(home), "PATH": f"{home}/bin:{environment['PATH']}"}
    return subprocess.run(
        [checkout / ".ci/run"], env=environment, capture_output=True, text=True, check=False
    )


def modified_nanos(path: Path) -> int:
    return path.stat().st_mtime_ns


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Returns a repository with the script, which finds CPython 3.14."""
    folder = tmp_path / "repository"
    folder.mkdir()
    write_script(folder / ".ci/newer_pythons", "exit 0")
    shutil.copy(ROOT / ".ci/run", folder / ".ci/run")
    return folder


@pytest.mark.parametrize("status", [0, 75, 1])
def test_ci_tests_on_a_version_that_it_downloads(
    checkout: Path, tmp_path: Path, status: int
) -> None:
    write_script(checkout / ".ci/newer_pythons", f"exit {status}")
    commit(checkout)
    done = run_ci(checkout, tmp_path)
    pythons = f"{tmp_path}/.cache/marey/pythons" if status == 0 else ""
    runs_tests = f"make lint: {pythons}\nmake test: {pythons}\n" in done.stdout
    left_out = "CPython 3.14 cannot be downloaded: the tests leave it out\n"
    assert (left_out in done.stdout) == (status == 75)
    # Only a download may fail: any other fault of the script is one of the change.
    assert runs_tests == (status != 1)
    assert done.returncode == (1 if status == 1 else 0)


def test_ci_tests_the_commit_where_unchanged_files_keep_their_times(
    checkout: Path, tmp_path: Path
) -> None:
    cached = tmp_path / ".cache/marey/checkout"
    for name in ("kept", "changed", "removed"):
        (checkout / name).write_text("first")
    commit(checkout)
    assert run_ci(checkout, tmp_path).returncode == 0
    kept_nanos, changed_nanos = (modified_nanos(cached / name) for name in ("kept", "changed"))
    (cached / "left").touch()

    # Another clone, as each run of a CI system has.
    clone = tmp_path / "clone"
    shutil.copytree(checkout, clone)
    (clone / "changed").write_text("second")
    (clone / "removed").unlink()
    commit(clone)
    (clone / "uncommitted").touch()
    done = run_ci(clone, tmp_path)
    assert done.stdout.startswith("changes that are not committed are not tested\n")
    assert done.returncode == 0
    assert modified_nanos(cached / "kept") == kept_nanos
    assert modified_nanos(cached / "changed") > changed_nanos
    assert (cached / "changed").read_text() == "second"
    names = {path.name for path in cached.iterdir()}
    assert names == {".ci", ".git", "changed", "kept", "target"}


def test_versions_that_the_wheel_is_not_tested_on_are_named(tmp_path: Path) -> None:
    environment = {"PATH": "/nonexistent", "HOME": str(tmp_path)}
    command = [sys.executable, str(ROOT / ".ci/every_python.py"), "none.whl"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        f"CPython 3.{minor} is not on this machine: the wheel is not tested on it"
        for minor in range(10, 15)
    ]
    assert done.stderr == "error: no CPython 3.10 to 3.14 is installed\n"
