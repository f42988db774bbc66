"""Measures a row: both sides run in turn, each in its own warm process.

The memory layout of a process changes a short scope by up to 15 %, so each side has several
processes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from native import LIBRARY, build
from rows import Row, Side

WORKER = Path(__file__).with_name("worker.py")
NANOS_PER_MILLI = 1e6


@dataclass(frozen=True)
class Result:
    """The result of a row."""

    row: Row
    ours_nanos: float
    peer_nanos: float | None
    ours_quartiles: tuple[float, float]

    @property
    def ratio(self) -> float | None:
        """Our figure divided by the peer's."""
        return None if self.peer_nanos is None else self.ours_nanos / self.peer_nanos

    @property
    def difference_nanos(self) -> float | None:
        """Our figure minus the peer's, in nanoseconds."""
        return None if self.peer_nanos is None else self.ours_nanos - self.peer_nanos

    @property
    def passes(self) -> bool | None:
        """Whether the bar holds; `None` without a bar."""
        bar, ratio = self.row.bar, self.ratio
        if bar is None:
            return None
        if bar.quantity == "nanos":
            return bar.holds(self.ours_nanos)
        assert ratio is not None, f"{self.row.name} has no peer"
        if bar.quantity == "difference":
            assert self.difference_nanos is not None
            return bar.holds(self.difference_nanos)
        return bar.holds(1 / ratio if bar.quantity == "speedup" else ratio)


class Workers:
    """The worker processes, each started on first use."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="marey-bench-")
        self._folder = Path(self._scratch.name)
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._native: Path | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_all()
        self._scratch.cleanup()

    def end_all(self) -> None:
        """Ends all processes. The next use starts them again."""
        for process in self._processes.values():
            process.communicate()
        self._processes.clear()

    def nanos_per_item(self, side: Side, count: int) -> float:
        """Runs `count` items of a side; returns the nanoseconds per item.

        Raises:
            RuntimeError: The worker ended. The message has its standard error.
        """
        process = self._process(side.worker)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{side.workload} {count}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            process.communicate()
            errors = self._errors_path(side.worker).read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"the worker {side.worker!r} ended:\n{errors}")
        return float(answer)

    def _process(self, worker: str) -> subprocess.Popen[str]:
        if worker not in self._processes:
            self._processes[worker] = self._start(worker)
        return self._processes[worker]

    def _worker_folder(self, worker: str) -> Path:
        return self._folder / worker.replace(" ", "-")

    def _errors_path(self, worker: str) -> Path:
        return self._worker_folder(worker) / "errors"

    def _start(self, worker: str) -> subprocess.Popen[str]:
        folder = self._worker_folder(worker)
        folder.mkdir(exist_ok=True)
        environment = {**os.environ, "MAREY_LIB": str(LIBRARY)}
        for name in ("MAREY_DISABLE", "RANK"):
            environment.pop(name, None)
        with self._errors_path(worker).open("w") as errors:
            return subprocess.Popen(
                self._command(worker),
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def _command(self, worker: str) -> list[str]:
        system, _, argument = worker.partition(" ")
        if system != "native":
            return [sys.executable, str(WORKER), worker]
        if self._native is None:
            self._native = build(self._folder)
        return [str(self._native), argument]


def measure(row: Row, workers: Workers) -> Result:
    """Runs the sides of a row in turn, many rounds in each of several pairs of processes."""
    sides = [row.ours] if row.peer is None else [row.peer, row.ours]
    nanos: dict[Side, list[float]] = {side: [] for side in sides}
    for _ in range(row.processes):
        workers.end_all()
        counts = {side: calibrate_count(row, side, workers) for side in sides}
        for _ in range(row.rounds):
            for side in sides:
                nanos[side].append(workers.nanos_per_item(side, counts[side]))
    summarize = statistics.median if row.statistic == "median" else min
    lower, _, upper = statistics.quantiles(nanos[row.ours], n=4)
    return Result(
        row,
        ours_nanos=summarize(nanos[row.ours]),
        peer_nanos=None if row.peer is None else summarize(nanos[row.peer]),
        ours_quartiles=(lower, upper),
    )


def calibrate_count(row: Row, side: Side, workers: Workers) -> int:
    """Returns a number of items that takes at least a round. Also warms the side up."""
    round_nanos = row.round_millis * NANOS_PER_MILLI
    count = 1
    while workers.nanos_per_item(side, count) * count < round_nanos:
        count *= 2
    return count
