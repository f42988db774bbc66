"""C++ programs that tests compile against the installed headers, and run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import marey
import pytest
from paths import ROOT, TESTS

PACKAGE = Path(marey.__file__).parent
# The package that is tested has its own headers, those of the checkout if they are linked.
HEADERS = PACKAGE / "include"
LIBRARY = os.environ.get("MAREY_LIB") or str(PACKAGE / "lib" / "libmarey.so")
SOURCES = TESTS / "cpp"
EXAMPLES = ROOT / "examples" / "cpp"
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")
DEADLINE_SECS = 120


def compile_program(
    output: Path, *sources: Path, options: tuple[str, ...] = (), compiler: str = "c++"
) -> Path:
    """Compiles C++ sources without a warning; `options` come last. Returns `output`."""
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler} here")
    command = [compiler, "-std=c++17", *STRICT, f"-I{HEADERS}", *map(str, sources)]
    done = subprocess.run(
        [*command, "-o", str(output), "-pthread", *options, "-ldl"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return output


def run(*command: str | Path, exit_code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in the working directory, with `libmarey.so` unless `env` names another."""
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE_SECS,
        env={**os.environ, "MAREY_LIB": LIBRARY, **env},
    )
    assert done.returncode == exit_code, (done.returncode, done.stderr)
    return done
