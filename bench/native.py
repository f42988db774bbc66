"""Builds `native.c` against the installed wheel."""

from __future__ import annotations

import subprocess
from pathlib import Path

import marey

PACKAGE = Path(marey.__file__).parent
LIBRARY = PACKAGE / "lib" / "libmarey.so"


def build(folder: Path) -> Path:
    """Compiles the program into a folder; returns its path. It loads the library in `MAREY_LIB`.

    Raises:
        subprocess.CalledProcessError: The compilation fails.
        FileNotFoundError: `cc` is not installed.
    """
    program = folder / "native"
    source = Path(__file__).with_name("native.c")
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{PACKAGE / 'include'}"]
    subprocess.run(["cc", *flags, str(source), "-o", str(program), "-pthread", "-ldl"], check=True)
    return program
