"""Training loops of the tests of `marey.training`, with and without PyTorch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from marey.training import ProfileAnalyzer, ProfilerConfig, TrainingProfiler
from trace_files import run_rows

FILE = "profile.pt"


def spin(millis: float) -> None:
    """Computes for a time."""
    end = time.perf_counter() + millis / 1e3
    while time.perf_counter() < end:
        pass


def run_epochs(profiler: TrainingProfiler, epochs: int, *, millis: float = 0.0) -> None:
    """Runs epochs of two regions, of which ``forward`` takes three times as long."""
    for epoch in range(epochs):
        profiler.callback.on_epoch_begin(epoch)
        with profiler.profile_region("forward"):
            spin(3 * millis)
        with profiler.profile_region("backward_pass"):
            spin(millis)
        profiler.callback.on_epoch_end(epoch, loss=1.0)


def analysed(profiler: TrainingProfiler) -> ProfileAnalyzer:
    """Saves a profile and returns its analysis."""
    path = profiler.save(FILE)
    assert path is not None
    return ProfileAnalyzer(path)


def saved(config: ProfilerConfig, epochs: int = 12, *, millis: float = 0.0) -> ProfileAnalyzer:
    """Returns the analysis of a loop without PyTorch."""
    profiler = TrainingProfiler(config)
    run_epochs(profiler, epochs, millis=millis)
    return analysed(profiler)


class Trainer:
    """A net with two layers, and its optimizer."""

    def __init__(self) -> None:
        import torch

        torch.manual_seed(0)
        self.torch = torch
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 1))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01)
        self.inputs = torch.ones(4, 8)

    def step(self) -> Any:
        self.optimizer.zero_grad()
        loss = self.net(self.inputs).sum()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def trained(config: ProfilerConfig, epochs: int = 8, *, batches: int = 1) -> Path:
    """Returns the profile of a loop with PyTorch."""
    profiler, trainer = TrainingProfiler(config), Trainer()
    for epoch in range(epochs):
        profiler.callback.on_epoch_begin(epoch)
        for _ in range(batches):
            trainer.step()
        profiler.callback.on_epoch_end(epoch)
    path = profiler.save(FILE)
    assert path is not None
    return Path(path)


def kinds(path: str | Path) -> dict[str, int]:
    """Returns the number of spans of each kind."""
    return dict(run_rows(path, "SELECT kind, count(*) FROM spans GROUP BY kind"))


def walk_files(folder: str | Path = ".") -> Iterator[str]:
    """Yields the names of the files and folders in a folder, sorted."""
    yield from sorted(path.name for path in Path(folder).iterdir())
