"""The cost of recording, beside Proton and torch.profiler, in turn; and what it leaves behind."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from case import Figures, MakeWorld, Skipped, check, require

WORKER = Path(__file__).parent.parent / "cost_worker.py"

ROUNDS = 9
AMOUNTS = {"launch": 2000, "step": 10}
MOST_BY_PROTON_RATIO = 1.1
"""Noise of a shared machine; what marey adds is far less than what Proton adds."""


class _Worker:
    """A process that works under one profiler, and stays warm."""

    def __init__(self, profiler: str, world: str, name: str = "") -> None:
        self._profiler = profiler
        folder = Path(name or profiler)
        folder.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER), profiler, world],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )

    def ask(self, work: str, count: int) -> dict[str, float]:
        """Figures of so many items; none if the worker cannot do them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(work, count, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        require(line != "", f"the worker under {self._profiler} ended")
        answer: dict[str, float] = json.loads(line)
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _world_name(make_world: MakeWorld) -> str:
    return "torch" if make_world.__name__ == "TorchWorld" else "triton"


@check("triton", "torch", limit_secs=240, timed=True)
def overhead(make_world: MakeWorld) -> Figures:
    """Launches under marey, tree and trace, take no more CPU time than under Proton."""
    world = _world_name(make_world)
    is_torch = world == "torch"
    names = ["nothing", "marey-tree", "marey-trace"]
    has_proton = importlib.util.find_spec("triton") is not None
    if has_proton:
        names += ["proton-tree", "proton-trace"]
    if is_torch:
        names.append("torch.profiler")
    workers: dict[str, _Worker] = {}
    try:
        for name in names:
            workers[name] = _Worker(name, world)
        figures = _measure(workers)
    finally:
        for worker in workers.values():
            worker.close()
    figures["trace_bytes"] = {name: _size_bytes(Path(name)) for name in names if name != "nothing"}
    launch = figures["launch"]
    for data in ("tree", "trace") if has_proton else ():
        ours, theirs = (launch[f"{tool}-{data}"]["cpu_nanos"] for tool in ("marey", "proton"))
        holds = ours <= MOST_BY_PROTON_RATIO * theirs
        require(holds, f"{data}: {ours} ns a launch, Proton {theirs} ns")
    return figures


def _measure(workers: dict[str, _Worker]) -> Figures:
    """Medians of rounds, in which each worker has its turn."""
    figures: Figures = {}
    for work, count in AMOUNTS.items():
        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
        for _ in range(ROUNDS):
            for name, worker in workers.items():
                rounds[name].append(worker.ask(work, count))
        if all(rounds["nothing"]):
            figures[work] = {name: _medians(found) for name, found in rounds.items()}
    figures["end"] = {name: worker.ask("end", 0) for name, worker in workers.items()}
    return figures


def _medians(rounds: list[dict[str, float]]) -> dict[str, Any]:
    return {key: round(median(found[key] for found in rounds)) for key in rounds[0]}


def _size_bytes(folder: Path) -> int:
    paths = (Path(root, name) for root, _, names in os.walk(folder) for name in names)
    return sum(path.stat().st_size for path in paths)


MOST_AFTER_RATIO = 1.01
WANTED_ERROR = 0.01
PAIRS = (4, 12)
"""Pairs of processes: so many at least, since two processes differ by where they lie in memory."""

TURNS = 60
LAUNCHES = 500
LONGEST_SECS = 100


class _Ratio(NamedTuple):
    """A ratio that was measured, and its standard error."""

    value: float
    error: float


@check("triton", "torch", limit_secs=150, timed=True)
def stop_leaves_nothing(make_world: MakeWorld) -> Figures:
    """When the session has ended, launches cost what they cost without one, to one per cent."""
    world = _world_name(make_world)
    end_secs = time.monotonic() + LONGEST_SECS
    ratios: list[float] = []
    while len(ratios) < PAIRS[1] and time.monotonic() < end_secs:
        if len(ratios) >= PAIRS[0] and _summed_up(ratios).error <= WANTED_ERROR / 2:
            break
        ratios.append(_after_by_never(world, len(ratios)))
    return judge(ratios)


def judge(ratios: list[float]) -> Figures:
    """Returns the figures if launches cost no more, as far as the ratios are certain.

    Raises:
        AssertionError: They cost more.
        Skipped: The ratios differ too much to say.
    """
    ratio = _summed_up(ratios) if ratios else _Ratio(math.nan, math.inf)
    figures = {"after_by_never_ratio": ratio.value, "error": ratio.error, "pairs": len(ratios)}
    if len(ratios) >= PAIRS[0]:
        least = ratio.value - 2 * ratio.error
        holds = least <= MOST_AFTER_RATIO
        require(holds, f"launches take longer than without a session: {figures}")
    if len(ratios) < PAIRS[0] or ratio.error > WANTED_ERROR:
        raise Skipped(f"times on this machine vary too much to measure one per cent: {figures}")
    return figures


def _after_by_never(world: str, number: int) -> float:
    """Returns the cost of a launch where a session was by that where none was, in turn."""
    after = _Worker("marey-trace", world, f"after-{number}")
    never = _Worker("nothing", world, f"never-{number}")
    try:
        after.ask("launch", LAUNCHES)
        after.ask("end", 0)
        turns = []
        for turn in range(TURNS):
            workers = (after, never) if turn % 2 else (never, after)
            nanos = {worker: worker.ask("launch", LAUNCHES)["cpu_nanos"] for worker in workers}
            turns.append(nanos[after] / nanos[never])
    finally:
        after.close()
        never.close()
    return median(turns)


def _summed_up(ratios: list[float]) -> _Ratio:
    """The median, and its standard error by how far the ratios lie from it."""
    middle = median(ratios)
    spread = 1.4826 * median(abs(ratio - middle) for ratio in ratios)
    return _Ratio(middle, 1.2533 * spread / math.sqrt(len(ratios)))
