"""What recording costs, beside Proton and torch.profiler, in turn."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from case import Figures, MakeWorld, check, require

WORKER = Path(__file__).parent.parent / "cost_worker.py"

ROUNDS = 9
AMOUNTS = {"launch": 2000, "step": 10}
MOST_BY_PROTON_RATIO = 1.1
"""Noise of a shared machine; what marey adds is far less than what Proton adds."""


class _Worker:
    """A process that works under one profiler, and stays warm."""

    def __init__(self, profiler: str, world: str) -> None:
        self._profiler = profiler
        folder = Path(profiler)
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


@check("triton", "torch", limit_secs=240, timed=True)
def overhead(make_world: MakeWorld) -> Figures:
    """Launches under marey, tree and trace, take no more CPU time than under Proton."""
    is_torch = make_world.__name__ == "TorchWorld"
    world = "torch" if is_torch else "triton"
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
