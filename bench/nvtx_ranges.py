"""Measures the cost of an NVTX range: `python bench/nvtx_ranges.py`, in the test environment.

No tool, marey without a session, tree and trace run in turn, each in its own processes. The figures
are medians of the rounds' CPU times.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

LISTENERS = ("no tool", "no session", "tree", "trace")
PROCESSES = 3
ROUNDS = 9
RANGES = 20_000


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="marey-bench-") as folder:
        build_library(Path(folder))
        rounds: dict[str, dict[str, list[float]]] = {}
        for _ in range(PROCESSES):
            for listener in LISTENERS:
                for kind, nanos in measure_in_child(listener, folder).items():
                    rounds.setdefault(kind, {}).setdefault(listener, []).extend(nanos)
    print(f"{'ns a range':28}" + "".join(f"{listener:>12}" for listener in LISTENERS))
    for kind, by_listener in rounds.items():
        medians = [statistics.median(by_listener[listener]) for listener in LISTENERS]
        print(f"{kind:28}" + "".join(f"{nanos:12.0f}" for nanos in medians))


def build_library(folder: Path) -> None:
    files = importlib.metadata.files("nvidia-nvtx") or []
    header = next(file for file in files if file.match("nvtx3/nvToolsExt.h"))
    include = Path(str(header.locate())).parent.parent
    source = Path(__file__).with_name("nvtx.c")
    flags = ["-std=gnu11", "-O2", "-shared", "-fPIC", f"-I{include}"]
    subprocess.run(["cc", *flags, str(source), "-o", str(folder / "nvtx.so"), "-ldl"], check=True)


def measure_in_child(listener: str, folder: str) -> dict[str, list[float]]:
    env = {name: text for name, text in os.environ.items() if name != "NVTX_INJECTION64_PATH"}
    command = [sys.executable, __file__, listener, folder]
    process = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    rounds: dict[str, list[float]] = json.loads(process.stdout)
    return rounds


def measure(listener: str, folder: str) -> dict[str, list[float]]:
    """Measures, in a child process, the rounds of each kind of annotation."""
    if listener != "no tool":
        import marey

        marey.start(f"{folder}/p", data="trace" if listener == "trace" else "tree")
    # Not installed where types are checked.
    nvtx = importlib.import_module("nvtx")
    library = ctypes.CDLL(f"{folder}/nvtx.so")
    annotation = nvtx.annotate("range", domain="bench")
    domain = nvtx.get_domain("bench")
    attributes = domain.get_event_attributes(message="range")

    def annotate(count: int) -> None:
        for _ in range(count):
            with annotation:
                pass

    def push_in_domain(count: int) -> None:
        for _ in range(count):
            domain.push_range(attributes)
            domain.pop_range()

    def push(count: int) -> None:
        for _ in range(count):
            nvtx.push_range("range")
            nvtx.pop_range()

    annotators: dict[str, Callable[[int], None]] = {
        "C, a string": library.annotate_with_texts,
        "C, a registered string": library.annotate_with_registered_string,
        "Python, annotate": annotate,
        "Python, push_range": push,
        "Python, Domain.push_range": push_in_domain,
    }
    if listener == "no session":
        annotate(1)  # the first annotation loads marey
        library.annotate_with_registered_string(1)
        marey.finalize()
    return {kind: [nanos_per_range(run) for _ in range(ROUNDS)] for kind, run in annotators.items()}


def nanos_per_range(run: Callable[[int], None]) -> float:
    start = time.process_time_ns()
    run(RANGES)
    return (time.process_time_ns() - start) / RANGES


if __name__ == "__main__":
    if len(sys.argv) > 1:
        json.dump(measure(*sys.argv[1:]), sys.stdout)
    else:
        main()
