"""The Triton releases whose hooks marey supports, each as a folder for `PYTHONPATH`."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

OLDEST = "3.6.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "marey"


@pytest.fixture(scope="session")
def triton_36() -> str:
    """The oldest release, downloaded once for all test runs of this machine."""
    folder = CACHE / f"triton-{OLDEST}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"triton-{OLDEST}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _install(folder)
    return str(folder)


@pytest.fixture(params=["installed", "3.6"])
def triton_path(request: pytest.FixtureRequest) -> str:
    """Each release in turn; the installed one needs no path."""
    if request.param == "installed":
        if importlib.util.find_spec("triton") is None:
            pytest.skip("triton is not installed")
        return ""
    folder: str = request.getfixturevalue("triton_36")
    return folder


def _install(folder: Path) -> None:
    """Downloads and unpacks the wheel, so that the folder is complete when it appears."""
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}."))
    try:
        options = ["--no-deps", "--target", str(unfinished), f"triton=={OLDEST}"]
        command = [sys.executable, "-m", "pip", "install", "--quiet", *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"pip gives no triton {OLDEST} here: {done.stderr.strip()[-200:]}")
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
