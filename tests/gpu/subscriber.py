"""Another CUPTI subscriber, made with ctypes; and the installed libcuptis."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HELD = 39
"""CUPTI's code for: there is a subscriber, and there can be only one."""

PACKAGED = ("nvidia/cu*/lib", "nvidia/cuda_cupti/lib", "triton/backends/nvidia/lib/cupti*")
"""Where packages have their libraries, below a folder of packages."""

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p)


# A subscriber needs one.
_ignore = _CALLBACK(lambda _data, _domain, _call, _about: None)


def installed() -> list[Path]:
    """Returns the libraries of installed packages, and the one that the user named."""
    found: list[Path] = []
    if named := os.environ.get("MAREY_CUPTI_LIB"):
        path = Path(named)
        found += sorted(path.glob("libcupti.so*"))[:1] if path.is_dir() else [path]
    for packages in map(Path, sys.path):
        for below in PACKAGED:
            for folder in sorted(packages.glob(below)):
                found += sorted(folder.glob("libcupti.so*"))[:1]  # others are the same, or links
    return list({path.resolve(): path for path in found if path.is_file()}.values())


def short(path: Path) -> str:
    """Returns the part of a path that is the same on every machine."""
    packages = (str(path).removeprefix(f"{folder}/") for folder in sys.path if folder)
    return min((*packages, str(path)), key=len) if path.is_absolute() else str(path)


@contextlib.contextmanager
def holding(path: str | Path) -> Iterator[int]:
    """Subscribes during the block; yields the result code, 0 for success."""
    library = ctypes.CDLL(str(path))
    subscriber = ctypes.c_void_p()
    code = int(library.cuptiSubscribe(ctypes.byref(subscriber), _ignore, None))
    try:
        yield code
    finally:
        if code == 0:
            library.cuptiUnsubscribe(subscriber)


def try_together(paths: list[Path]) -> list[dict[str, Any]]:
    """Returns the results of a process that subscribes to all libraries in turn."""
    command = [sys.executable, __file__, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    lost = {"subscribe": f"the process ended with {done.returncode}"}
    return lines + [lost] * (len(paths) - len(lines))


def main() -> None:
    from cuda_driver import CudaDriver

    CudaDriver()
    with contextlib.ExitStack() as stack:
        for path in map(Path, sys.argv[1:]):
            version = ctypes.c_uint()
            ctypes.CDLL(str(path)).cuptiGetVersion(ctypes.byref(version))
            code = stack.enter_context(holding(path))
            print(json.dumps({"version": version.value, "subscribe": code}), flush=True)


if __name__ == "__main__":
    main()
