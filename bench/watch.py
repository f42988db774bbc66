"""Cost of a watch of variables, where it is on and elsewhere: `python bench/watch.py`.

Each loop runs in turn without the watch, with it, and after it. The watched line is in a loop of
`--work` microseconds per turn, and in one that does nothing else; another function has a loop of
its own. All times are CPU times of the thread. From CPython 3.12 on the bars are 1.10 where the
watch is on and 1.02 elsewhere; before, they cannot be held by a trace function.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import marey

ROUNDS = 7
# Several intervals between two records; before 3.12 a tenth, because a trace function is slow.
TURNS = 10_000_000 if sys.version_info >= (3, 12) else 300_000
MAX_RATIOS = {"a line of a step": 1.10, "a line alone": 1.10, "another function": 1.02}


def work(turns: int) -> int:
    total = 0
    for number in range(turns):
        total += number
    return total


def steps(turns: int, work_turns: int) -> int:
    total = 0
    for _ in range(turns):
        result = work(work_turns)
        total += result  # the watched line of a step
    return total


def alone(turns: int) -> int:
    total = 0
    for number in range(turns):
        total += number  # the watched line alone
    return total


def line_of(text: str) -> int:
    """Returns the number of the line that ends in a comment."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=float, default=100.0, help="microseconds of a step")
    options = parser.parse_args()
    start = time.thread_time_ns()
    work(TURNS)
    work_turns = int(options.work * 1000 / ((time.thread_time_ns() - start) / TURNS))
    loops: dict[str, tuple[str, Callable[[], int]]] = {
        "a line of a step": (
            "the watched line of a step:result, total",
            lambda: steps(TURNS // work_turns, work_turns),
        ),
        "a line alone": ("the watched line alone:number, total", lambda: alone(TURNS)),
        "another function": ("the watched line alone:number, total", lambda: work(TURNS)),
    }
    is_within = True
    with tempfile.TemporaryDirectory() as folder:
        session = marey.start(str(Path(folder) / "run"), data="trace")
        for name, (watched, loop) in loops.items():
            place, names = watched.split(":")
            spec = f"{Path(__file__).name}:{line_of(place)}:{names}"
            phases: dict[str, list[int]] = {"before": [], "during": [], "after": []}
            for _ in range(ROUNDS):
                phases["before"].append(cpu_nanos(loop))
                watch = marey.watch(spec)
                phases["during"].append(cpu_nanos(loop))
                watch.end()
                phases["after"].append(cpu_nanos(loop))
            before, during, after = (statistics.median(nanos) for nanos in phases.values())
            is_within &= during / before <= MAX_RATIOS[name]
            print(
                f"{name}: {before / 1e6:.2f} ms, watched {during / before:.3f} of that "
                f"(bar {MAX_RATIOS[name]}), afterwards {after / before:.3f}; "
                f"last watch: {watch.recorded} recorded, {watch.skipped} skipped"
            )
        marey.finalize(session, "marey")
    return 0 if is_within or sys.version_info < (3, 12) else 1


def cpu_nanos(loop: Callable[[], int]) -> int:
    start = time.thread_time_ns()
    loop()
    return time.thread_time_ns() - start


if __name__ == "__main__":
    sys.exit(main())
