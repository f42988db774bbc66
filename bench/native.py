"""Builds the programs in C and C++ of this folder against the installed wheel."""

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
    return compile_c(folder / "native", "cc", "-std=gnu11", "native.c")


def build_cpp(folder: Path) -> Path:
    """Compiles the scopes of C++, without Tracy, as `build` does."""
    return compile_c(folder / "cpp_scopes", "c++", "-std=c++17", "cpp_scopes.cpp")


def build_torch_callbacks(folder: Path) -> Path:
    """Compiles the functions that marey's callbacks observe, and the double of libtorch."""
    double = folder / "libtorch_cpu.so"
    compile_c(double, "cc", "-std=gnu11", "torch_double.c", "-shared", "-fPIC", SONAME)
    links = (str(double), f"-Wl,-rpath,{folder}")
    return compile_c(folder / "torch_callbacks", "cc", "-std=gnu11", "torch_callbacks.c", *links)


SONAME = "-Wl,-soname,libtorch_cpu.so"


def compile_c(program: Path, compiler: str, standard: str, source: str, *links: str) -> Path:
    flags = [standard, "-O2", "-Wall", "-Wextra", "-Werror", f"-I{PACKAGE / 'include'}"]
    path = Path(__file__).with_name(source)
    command = [compiler, *flags, str(path), *links, "-o", str(program), "-pthread", "-ldl"]
    subprocess.run(command, check=True)
    return program
