"""Interpreters of CPython on this machine, for tests of processes that run another one."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MINORS = range(10, 15)
"""Minor versions of CPython 3 that marey supports."""
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
VERSIONS = sorted({OWN, *(f"3.{minor}" for minor in MINORS)})
"""The supported versions and this one, as parameters of tests that begin with :func:`require`."""


@functools.cache
def interpreters() -> dict[str, str]:
    """Returns paths of interpreters by version, such as ``3.11``: this one and what is found."""
    found = {f"3.{minor}": path for minor in MINORS if (path := find(minor)) is not None}
    return {**found, OWN: sys.executable}


def require(version: str) -> str:
    """Returns the path of an interpreter; skips the test if it is not on this machine."""
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"CPython {version} is not on this machine")
    return python


def find(minor: int) -> str | None:
    """Returns CPython 3.`minor` from PATH, from pyenv, or from the folder ``MAREY_PYTHONS``."""
    name = f"python3.{minor}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(name), *sorted(map(str, pyenv.glob(f"3.{minor}.*/bin/{name}")))]
    if folder := os.environ.get("MAREY_PYTHONS"):
        candidates.append(str(Path(folder) / "root/usr/bin" / name))
    return next((path for path in candidates if path is not None and _starts(path)), None)


def _starts(path: str) -> bool:
    try:
        done = subprocess.run([path, "-c", "import threading"], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0
