"""A program that records a run, and the expected values."""

from __future__ import annotations

from pathlib import Path

from programs import inside, run_well

# Enters each path as often as in `COUNTS`; the metrics are sums over `STEPS` steps.
PROGRAM = """
    import marey, threading, time
    print(time.time_ns())
    marey.start("train", data="trace")
    for step in range(20):
        with marey.scope("step", {"tokens": 10, "loss (exc)": step / 4}):
            with marey.scope("forward"):
                for _ in range(3):
                    with marey.scope("layer"):
                        pass
            with marey.scope("backward"):
                pass
    @marey.scope("load")
    def load():
        pass
    thread = threading.Thread(target=lambda: [load() for _ in range(7)], name="loader")
    thread.start(); thread.join()
    marey.finalize()
    print(time.time_ns())
"""

STEPS = 20
COUNTS = {
    "load": 7,
    "step": STEPS,
    "step/backward": STEPS,
    "step/forward": STEPS,
    "step/forward/layer": 3 * STEPS,
}


def record(**env: str) -> tuple[int, int]:
    """Records `train.marey` in the working directory; returns timestamps before and after."""
    before, after = map(int, run_well(PROGRAM, **env).split())
    return before, after


def record_in(folder: Path) -> Path:
    """Records the run in a folder, and returns its path."""
    with inside(folder):
        record()
    return folder / "train.marey"
