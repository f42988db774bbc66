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


@pytest.mark.parametrize("status", [0, 75, 1])
def test_ci_tests_on_a_version_that_it_downloads(tmp_path: Path, status: int) -> None:
    for name, text in PROGRAMS.items():
        write_script(tmp_path / "bin" / name, text)
    write_script(tmp_path / ".ci/newer_pythons", f"exit {status}")
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    # The script may empty the folder in MAREY_TARGET.
    replaced = ("MAREY_PYTHONS", "MAREY_TARGET")
    environment = {name: value for name, value in os.environ.items() if name not in replaced}
    environment |= {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:{environment['PATH']}"}
    done = subprocess.run(
        [tmp_path / ".ci/run"], env=environment, capture_output=True, text=True, check=False
    )
    pythons = f"{tmp_path}/.cache/marey/pythons" if status == 0 else ""
    runs_tests = f"make lint: {pythons}\nmake test: {pythons}\n" in done.stdout
    left_out = "CPython 3.14 cannot be downloaded: the tests leave it out\n"
    assert (left_out in done.stdout) == (status == 75)
    # Only a download may fail: any other fault of the script is one of the change.
    assert runs_tests == (status != 1)
    assert done.returncode == (1 if status == 1 else 0)


def test_versions_that_the_wheel_is_not_tested_on_are_named(tmp_path: Path) -> None:
    environment = {"PATH": "/nonexistent", "HOME": str(tmp_path)}
    command = [sys.executable, str(ROOT / ".ci/every_python.py"), "none.whl"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        f"CPython 3.{minor} is not on this machine: the wheel is not tested on it"
        for minor in range(10, 15)
    ]
    assert done.stderr == "error: no CPython 3.10 to 3.14 is installed\n"
