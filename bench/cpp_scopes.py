"""Measures the scopes of `marey.hpp`: compiles `cpp_scopes.cpp`, runs it, prints nanoseconds.

    python bench/cpp_scopes.py

The installed package provides headers and library. MAREY_LIB names another `libmarey.so`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import marey

HERE = Path(__file__).resolve().parent
BARS = {"record_function_idle": 2.0, "plain_scope_tree": 25.0}
"""Nanoseconds that are aimed at; those of an enabled scope on top of two readings of the clock."""


def main() -> int:
    package = Path(marey.__file__).parent
    library = os.environ.get("MAREY_LIB", str(package / "lib" / "libmarey.so"))
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/cpp_scopes"
        command = ["c++", "-std=c++17", "-O2", f"-I{package / 'include'}"]
        command += [str(HERE / "cpp_scopes.cpp"), "-o", program, "-pthread", "-ldl"]
        subprocess.run(command, check=True)
        environment = {**os.environ, "MAREY_LIB": library}
        done = subprocess.run(
            [program], cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
    for line in done.stdout.splitlines():
        name, nanos = line.split()
        bar = f"  (aim: {BARS[name]:g})" if name in BARS else ""
        print(f"{name:32} {float(nanos):8.2f} ns{bar}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
