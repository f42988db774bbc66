"""Cost of a watch of variables, where it is on and elsewhere: `python bench/watch.py`.

Each loop runs in turn without the watch, with it, and after it. The watched line is in a loop of
`--work` microseconds per turn, and in one that does nothing else; another function has a loop of
its own. All times are CPU times of the thread. From CPython 3.12 on the bars are 1.10 where the
watch is on and 1.02 elsewhere; before, they cannot be held by a trace function.
`bench/live.py` writes the figures to `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import marey

ROUNDS = 7
# Several intervals between two records; before 3.12 a tenth, because a trace function is slow.
TURNS = 10_000_000 if sys.version_info >= (3, 12) else 300_000
STEP_MICROS = 100.0
STEP, ALONE, ELSEWHERE = "a line of a step", "a line alone", "another function"
MAX_RATIOS = {STEP: 1.10, ALONE: 1.10, ELSEWHERE: 1.02}


@dataclass(frozen=True)
class Loop:
    """A loop, with its time without the watch, while it is on, and after it."""

    name: str
    before_nanos: float
    during_nanos: float
    after_nanos: float
    recorded: int
    """Number of records of the last watch."""
    skipped: int
    """Number of times that it recorded nothing because of its rate."""

    @property
    def is_within(self) -> bool:
        """Whether the bar holds."""
        return self.during_nanos / self.before_nanos <= MAX_RATIOS[self.name]


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


def measure(step_micros: float = STEP_MICROS) -> Iterator[Loop]:
    """Runs each loop in turn without the watch, with it, and after it."""
    start = time.thread_time_ns()
    work(TURNS)
    work_turns = int(step_micros * 1000 / ((time.thread_time_ns() - start) / TURNS))
    loops: dict[str, tuple[str, Callable[[], int]]] = {
        STEP: (
            "the watched line of a step:result, total",
            lambda: steps(TURNS // work_turns, work_turns),
        ),
        ALONE: ("the watched line alone:number, total", lambda: alone(TURNS)),
        ELSEWHERE: ("the watched line alone:number, total", lambda: work(TURNS)),
    }
    with tempfile.TemporaryDirectory() as folder:
        session = marey.start(str(Path(folder) / "run"), data="trace")
        for name, (watched, loop) in loops.items():
            place, names = watched.split(":")
            spec = f"{Path(__file__).name}:{line_of(place)}:{names}"
            before, during, after = [], [], []
            for _ in range(ROUNDS):
                before.append(cpu_nanos(loop))
                watch = marey.watch(spec)
                during.append(cpu_nanos(loop))
                watch.end()
                after.append(cpu_nanos(loop))
            yield Loop(
                name,
                before_nanos=statistics.median(before),
                during_nanos=statistics.median(during),
                after_nanos=statistics.median(after),
                recorded=watch.recorded,
                skipped=watch.skipped,
            )
        marey.finalize(session, "marey")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=float, default=STEP_MICROS, help="microseconds of a step")
    options = parser.parse_args()
    is_within = True
    for loop in measure(options.work):
        is_within &= loop.is_within
        before = loop.before_nanos
        print(
            f"{loop.name}: {before / 1e6:.2f} ms, watched {loop.during_nanos / before:.3f} of that "
            f"(bar {MAX_RATIOS[loop.name]}), afterwards {loop.after_nanos / before:.3f}; "
            f"last watch: {loop.recorded} recorded, {loop.skipped} skipped"
        )
    return 0 if is_within or sys.version_info < (3, 12) else 1


def cpu_nanos(loop: Callable[[], int]) -> int:
    start = time.thread_time_ns()
    loop()
    return time.thread_time_ns() - start


if __name__ == "__main__":
    sys.exit(main())
