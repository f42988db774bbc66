"""The doubles of NVIDIA's libraries: building, installing, and controlling them from Python.

Tests create the environment of a program with `environment`. The program controls the `Double` in
it, and calls `use_driver` before a profiler asks Triton for the device.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

SUPPORT = Path(__file__).resolve().parent
ROOT = SUPPORT.parents[1]
LIBRARY_NAMES = ("libcupti.so", "libcuda.so.1")


def library() -> Path | None:
    """Returns the path of the double: from the environment, else built; `None` without cargo."""
    return _find_or_build("marey-replay", "MAREY_REPLAY_LIB")


def nvml_library() -> Path | None:
    """Returns the path of the NVML double, found in the same way."""
    return _find_or_build("marey-replay-nvml", "MAREY_REPLAY_NVML_LIB")


@functools.cache
def _find_or_build(package: str, variable: str) -> Path | None:
    if path := os.environ.get(variable):
        return Path(path).absolute()
    if shutil.which("cargo") is None:
        return None
    command = ["cargo", "build", "--profile", "double", "--package", package]
    process = subprocess.run(
        [*command, "--message-format", "json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    messages = [json.loads(line) for line in process.stdout.splitlines()]
    paths = [
        Path(path)
        for message in messages
        if message.get("target", {}).get("name") == package.replace("-", "_")
        for path in message.get("filenames", [])
    ]
    return next(path for path in paths if path.suffix == ".so")


def build_library(path: str, source: str, *linked: str) -> Path:
    """Builds a library that exports the symbols of the libraries it is linked with."""
    if shutil.which("cc") is None:
        pytest.skip("there is no cc here")
    output = Path(path).absolute()
    output.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", *linked, "-o", str(output)]
    subprocess.run(command, input=source, text=True, check=True)
    return output


def environment(folder: Path, script: str = "") -> dict[str, str]:
    """Returns the variables of a program that loads the double with this script."""
    path = library()
    if path is None:
        pytest.skip("there is no cargo to build the double, and MAREY_REPLAY_LIB names none")
    folder.mkdir(parents=True, exist_ok=True)
    for name in LIBRARY_NAMES:
        (folder / name).symlink_to(path)
    (folder / "script").write_text(script)
    folder_text = str(folder.absolute())
    return {
        "LD_LIBRARY_PATH": folder_text,
        "TRITON_CUPTI_LIB_PATH": folder_text,
        "MAREY_CUPTI_LIB": folder_text,
        "MAREY_REPLAY": f"{folder_text}/script",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(SUPPORT), os.environ.get("PYTHONPATH")])),
        "TRITON_CACHE_DIR": f"{folder_text}/cache",
    }


def nvml_environment(readings: Mapping[str, int]) -> dict[str, str]:
    """Returns the variables of a program with two devices by NVML, the first with readings.

    `readings` has the values by their names in `marey-replay-nvml`. The library is written to the
    working directory.
    """
    path = nvml_library()
    if path is None:
        pytest.skip("there is no cargo to build the double, and MAREY_REPLAY_NVML_LIB names none")
    calls = "".join(f'replay_nvml_set(0, "{name}", {value});' for name, value in readings.items())
    source = f"""
        void replay_nvml_set(unsigned device, const char *field, double value);
        __attribute__((constructor)) static void load(void) {{ {calls} }}
    """
    library = build_library("libnvidia-ml.so.1", source, str(path), f"-Wl,-rpath,{path.parent}")
    return {"MAREY_NVML_LIB": str(library), "REPLAY_NVML_DEVICES": "2"}


class Stats(ctypes.Structure):
    """The double's counters since its script was loaded."""

    callbacks: int
    written: int
    dropped: int
    buffers_requested: int
    buffers_completed: int
    next_correlation: int
    now_nanos: int
    buffers_dirty: int

    _fields_ = (
        ("callbacks", ctypes.c_uint64),
        ("written", ctypes.c_uint64),
        ("dropped", ctypes.c_uint64),
        ("buffers_requested", ctypes.c_uint64),
        ("buffers_completed", ctypes.c_uint64),
        ("next_correlation", ctypes.c_uint64),
        ("now_nanos", ctypes.c_uint64),
        ("buffers_dirty", ctypes.c_uint64),
    )


class Double:
    """The double that this process has loaded or, under NVIDIA's name, can load."""

    def __init__(self) -> None:
        self._lib = ctypes.CDLL("libcuda.so.1")
        launch: list[Any] = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64]
        self._lib.replay_launch.argtypes = launch
        self._lib.replay_launch_many.argtypes = [*launch, ctypes.c_uint64]
        self._lib.replay_load.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        self._lib.replay_error.restype = ctypes.c_char_p
        self._lib.replay_name.restype = ctypes.c_void_p
        self._lib.replay_calls.restype = ctypes.c_uint64

    def load(self, script: str) -> None:
        """Loads a script."""
        text = script.encode()
        if self._lib.replay_load(text, len(text)) != 0:
            raise ValueError(self._lib.replay_error().decode())

    def run(self) -> None:
        """Plays the whole script on this thread."""
        self._lib.replay_run()

    def play(self, part: str) -> None:
        """Plays one part of the script."""
        if self._lib.replay_play(part.encode()) != 0:
            raise KeyError(part)

    def name(self, kernel: str) -> int:
        """Returns the permanent address of a kernel name."""
        return int(self._lib.replay_name(kernel.encode()))

    def launch(self, kernel: str, nanos: int, *, stream: int = 7, times: int = 1) -> None:
        """Launches a kernel on device 0."""
        self._lib.replay_launch_many(self.name(kernel), stream, nanos, times)

    def flush(self, *, forced: bool = False) -> None:
        self._lib.replay_flush(int(forced))

    def stats(self) -> Stats:
        stats = Stats()
        self._lib.replay_stats(ctypes.byref(stats))
        return stats

    def calls(self, function: str) -> int:
        """Returns how often a function of libcupti or libcuda was called."""
        return int(self._lib.replay_calls(function.encode()))


class _Driver:
    """The part of Triton's driver that profilers use."""

    def __init__(self, arch: int) -> None:
        self._arch = arch

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self._arch, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0


def use_driver(arch: int = 90) -> None:
    """Makes Triton believe that a device exists, without the compiled part of its driver."""
    import triton

    triton.runtime.driver.set_active(_Driver(arch))
