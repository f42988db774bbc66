"""Helpers for windows of time: short periods, and waiting for windows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from marey.windows import Window, rotation
from marey.windows.background import Timer
from profiles import tree
from programs import until


def shorten(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Divides the periods of all windows, so that five minutes need not be waited for."""

    class ShortTimer(Timer):
        def __init__(self, period_seconds: float, action: Callable[[int], None]) -> None:
            super().__init__(period_seconds / factor, action)

    monkeypatch.setattr(rotation, "Timer", ShortTimer)


def call_on_threads(work: Callable[[], object], is_reached: Callable[[], object]) -> int:
    """Calls a function on three threads until the condition holds; returns how often."""
    is_over = threading.Event()

    def call() -> int:
        calls = 0
        while not is_over.is_set():
            work()
            calls += 1
        return calls

    with ThreadPoolExecutor(3) as pool:
        counts = [pool.submit(call) for _ in range(3)]
        try:
            until(is_reached)
        finally:
            is_over.set()
    return sum(count.result() for count in counts)


def total(paths: Iterable[str | Path | None], node: str, metric: str = "wall_count") -> int:
    """Returns the sum of a metric over the children of the roots of profiles with this name."""
    return sum(
        int(child["metrics"].get(metric, 0))
        for path in paths
        if path is not None
        for child in tree(path)["children"]
        if child["frame"]["name"] == node
    )


def paths(windows: Iterable[Window]) -> list[str]:
    """Returns the paths of the profiles of windows."""
    return [window.path for window in windows if window.path is not None]


def node(path: str | Path | None, name: str) -> dict[str, Any]:
    """Returns the metrics of a child of the root."""
    assert path is not None
    found = [child for child in tree(path)["children"] if child["frame"]["name"] == name]
    assert len(found) == 1
    metrics: dict[str, Any] = found[0]["metrics"]
    return metrics
