"""Measures large runs: `python bench/scale.py`.

Each row is a command of the installed `marey` as a whole process: its time and its peak of resident
memory. `--baseline PATH` measures another `marey` in turn, such as the last release. Runs are
recorded once and stored in `--folder`. `--sizes 1,8,100,600` sets the sizes of the runs in million
host spans; runs of 100 and more are measured once, and not with the other `marey`, which would need
hours or more memory than there is. `--update` writes the table to `docs/benchmarks.md`.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import kineto_trace
from process import Cost, measure, median
from reports import LARGE_SIZE, MILLION, Row, analyze_rows
from spans import RunStore
from table import document_parser, duration, markdown_table, publish, verdict

ROUNDS = 3
SIZES = (1, 8)
RANKS = 1_000
SPANS_PER_RANK = 10_000
TRACE_EVENTS = (MILLION, 10 * MILLION)
MAX_OPEN_FILES = 500
CSV_MAX_SECONDS = 6.0
"""The longest time for the run of :data:`CSV_SIZE` million spans."""
CSV_SIZE = 8
CSV_MAX_SIZE = 100
"""The largest run that is exported, in million spans: its file has 10 GB."""
CSV_MAX_RATIO = 1.3
"""The highest ratio of the cost a span in runs of other sizes to the cost in this run."""
RANKS_MAX_SECONDS = 60.0

Measured = dict[tuple[str, str], Cost]
"""The costs so far of the rows, by what they measure and its size."""


def main() -> None:
    parser = document_parser("Measures large runs.")
    parser.add_argument("--baseline", type=Path, metavar="MAREY", help="another marey to compare")
    parser.add_argument("--folder", type=Path, help="where runs are kept, instead of nowhere")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each is measured")
    parser.add_argument("--only", metavar="WORD", help="only rows that have this word")
    parser.add_argument(
        "--sizes",
        type=lambda text: tuple(int(size) for size in text.split(",")),
        default=SIZES,
        help="million host spans of the runs, with commas between them",
    )
    options = parser.parse_args()
    marey = Path(sys.executable).with_name("marey")
    with tempfile.TemporaryDirectory(prefix="marey-bench-") as scratch:
        folder = (options.folder or Path(scratch)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        store = RunStore(folder, marey)
        programs = [marey, *([options.baseline.absolute()] if options.baseline else [])]
        lines: list[tuple[str, ...]] = [headings(len(programs) > 1)]
        measured: Measured = {}
        for row in rows(store, options.sizes, measured):
            if options.only is None or options.only in row.what:
                costs = measure_in_turn(row, programs, Path(scratch), options.rounds)
                measured[row.what, row.size] = costs[0]
                lines.append(table_row(row, costs, len(programs) > 1))
                print("  ".join(lines[-1]), flush=True)
    publish("bench/scale.py", [markdown_table(lines)], is_update=options.update)


def rows(store: RunStore, sizes: tuple[int, ...], measured: Measured) -> Iterator[Row]:
    """Yields the rows; the input of a command is recorded before the command runs."""
    yield from csv_rows(store, sizes, measured)
    yield from analyze_rows(store, sizes)
    ranks_size = f"{RANKS:,} ranks of {SPANS_PER_RANK:,} spans"
    ranks_bars = (RANKS_MAX_SECONDS, None, MAX_OPEN_FILES)
    yield Row("`marey collect`", ranks_size, partial(collect_arguments, store), *ranks_bars)
    yield Row("`marey merge`", ranks_size, partial(merge_arguments, store), *ranks_bars)
    for events in TRACE_EVENTS:
        command = partial(import_arguments, store.folder, events)
        yield Row("`marey import`", f"{events // MILLION} M events", command)


def csv_rows(store: RunStore, sizes: tuple[int, ...], measured: Measured) -> Iterator[Row]:
    """Yields first the export whose bar is in seconds: the bars of the others come of its cost."""
    what = "`marey export -f csv`"
    exported_sizes = (size for size in sizes if size <= CSV_MAX_SIZE)
    for size in sorted(exported_sizes, key=lambda size: size != CSV_SIZE):
        compared = measured.get((what, f"{CSV_SIZE} M spans"))
        bar = CSV_MAX_SECONDS if size == CSV_SIZE else None
        if bar is None and compared is not None:
            bar = CSV_MAX_RATIO * compared.seconds / CSV_SIZE * size
        command = partial(export_arguments, store, size * MILLION)
        is_large = size >= LARGE_SIZE
        yield Row(what, f"{size} M spans", command, bar_seconds=bar, is_large=is_large)


def export_arguments(store: RunStore, spans: int, output: Path) -> list[str | Path]:
    return ["export", store.run(spans), "-f", "csv", "-o", output]


def import_arguments(folder: Path, events: int, output: Path) -> list[str | Path]:
    return ["import", generated_trace(folder, events), "-o", output]


def collect_arguments(store: RunStore, output: Path) -> list[str | Path]:
    shutil.copytree(store.uncollected_run(RANKS, SPANS_PER_RANK), output)
    return ["collect", "--quiet", output]


def merge_arguments(store: RunStore, output: Path) -> list[str | Path]:
    return ["merge", *store.runs_of_ranks(RANKS, SPANS_PER_RANK), "-o", output]


def generated_trace(folder: Path, events: int) -> Path:
    """Returns a trace of torch.profiler with this many events."""
    path = folder / f"trace_{events}.json"
    if not path.is_file():
        unfinished = path.with_suffix(".part")
        kineto_trace.write(unfinished, events)
        unfinished.rename(path)
    return path


def measure_in_turn(row: Row, programs: list[Path], scratch: Path, rounds: int) -> list[Cost]:
    """Returns the medians of each program, or the first failure; of a large run marey's alone."""
    if row.is_large:
        return [measure_row(programs[0], row, scratch / "out")]
    costs: list[list[Cost]] = [[] for _ in programs]
    for _ in range(rounds):
        for program, program_costs in zip(programs, costs, strict=True):
            program_costs.append(measure_row(program, row, scratch / "out"))
    return [
        next((cost for cost in program_costs if cost.status != 0), median(program_costs))
        for program_costs in costs
    ]


def measure_row(program: Path, row: Row, output: Path) -> Cost:
    """Runs a command as a whole process, and removes what it wrote."""
    command = [program, *row.command(output)]
    os.sync()  # so that earlier writes do not disturb the measurement
    cost = measure(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=partial(limit_open_files, row.max_open_files),
    )
    if output.is_dir():
        shutil.rmtree(output)
    output.unlink(missing_ok=True)
    return cost


def limit_open_files(limit: int | None) -> None:
    if limit is not None:
        _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard_limit))


def headings(has_baseline: bool) -> tuple[str, ...]:
    before = ("before", "memory") if has_baseline else ()
    return ("what", "of", *before, "it takes", "memory", "bar", "")


def table_row(row: Row, costs: list[Cost], has_baseline: bool) -> tuple[str, ...]:
    """Returns a row of the table."""
    ours, *baseline = costs
    before = [text for cost in baseline for text in cost_texts(cost)]
    if has_baseline and not baseline:
        before = ["not measured", "-"]
    bars = []
    if row.bar_seconds is not None:
        bars.append(f"≤ {row.bar_seconds:.3g} s")
    if row.bar_bytes is not None:
        bars.append(f"≤ {row.bar_bytes / 1e6:,.0f} MB")
    if row.max_open_files is not None:
        bars.append(f"≤ {row.max_open_files} open files")
    return (
        row.what,
        row.size,
        *before,
        *cost_texts(ours),
        ", ".join(bars),
        row_verdict(row, ours),
    )


def cost_texts(cost: Cost) -> tuple[str, str]:
    if cost.status != 0:
        return (f"ends with {cost.status}", "-")
    return (duration(cost.seconds * 1e9), f"{cost.memory_bytes / 1e6:,.0f} MB")


def row_verdict(row: Row, cost: Cost) -> str:
    limits = (row.bar_seconds, row.bar_bytes, row.max_open_files)
    if all(limit is None for limit in limits):
        return ""
    holds = (
        cost.status == 0
        and (row.bar_seconds is None or cost.seconds <= row.bar_seconds)
        and (row.bar_bytes is None or cost.memory_bytes <= row.bar_bytes)
    )
    return verdict(holds)


if __name__ == "__main__":
    main()
