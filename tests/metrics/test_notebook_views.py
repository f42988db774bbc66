"""Each object of `marey.metrics` as a notebook shows it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from marey.metrics import (
    CUDATimer,
    MemoryTracker,
    MetricsCollector,
    Reporter,
    StreamProfiler,
    compare_runs,
)

NAME = "<b>forward</b> & 'backward'"


def collector() -> MetricsCollector:
    made = MetricsCollector()
    made.record(NAME, 0.5)
    with made.measure_time(NAME):
        pass
    return made


def timer() -> CUDATimer:
    made = CUDATimer()
    with made.measure(NAME):
        pass
    return made


def tracker() -> MemoryTracker:
    made = MemoryTracker()
    with made:
        pass
    return made


OBJECTS: dict[str, tuple[Callable[[], Any], str]] = {
    "collector": (collector, NAME),
    "report": (lambda: collector().generate_report(), NAME),
    "reporter": (lambda: Reporter(collector()), NAME),
    "comparison": (lambda: compare_runs(collector(), collector()), NAME),
    "timer": (timer, NAME),
    "tracker": (tracker, "peak_allocated"),
    "streams": (StreamProfiler, "nothing was profiled yet"),
    "empty timer": (CUDATimer, "count"),
    "empty tracker": (MemoryTracker, ""),
    "empty collector": (MetricsCollector, "count"),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_is_a_table_without_scripts(name: str) -> None:
    make, expected = OBJECTS[name]
    shown = make()._repr_html_()
    assert "<table" in shown
    assert "<b>" not in shown
    assert "<script" not in shown
    assert expected in html.unescape(re.sub(r"<[^>]+>", "", shown))
