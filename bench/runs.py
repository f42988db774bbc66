"""Measures runs, from collection to SQL: `python bench/runs.py`.

Three tables: the cost of collection for growing runs, queries compared with DuckDB on the same
Parquet files, and the wall time of a query. `--update` writes them to `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from process import run
from table import duration, grid, measured_with, update

DEMO = Path(__file__).parent.parent / "examples" / "train_gpt.py"
DEV_NULL = Path(os.devnull)
ROUNDS = 31
MILLION = 1_000_000
SIZES = (MILLION, 10 * MILLION, 50 * MILLION)
QUERIED_SPANS = 10 * MILLION
"""Spans of the run that is queried."""

# marey's query and DuckDB's. `start` and `end` of the window are filled in.
QUERIES = {
    "`GROUP BY name` with a sum, the first 20": (
        "SELECT name, count(*), sum(duration_nanos) AS total FROM spans"
        " GROUP BY name ORDER BY total DESC, name LIMIT 20",
        "SELECT text, n, total FROM (SELECT name_id, count(*) AS n, sum(duration_nanos) AS total"
        " FROM spans GROUP BY name_id) JOIN strings ON id = name_id"
        " ORDER BY total DESC, text LIMIT 20",
    ),
    "the 100 longest spans": (
        "SELECT name, start_nanos, duration_nanos FROM spans"
        " ORDER BY duration_nanos DESC, start_nanos LIMIT 100",
        "SELECT text, start_nanos, duration_nanos FROM (SELECT * FROM spans"
        " ORDER BY duration_nanos DESC, start_nanos LIMIT 100) JOIN strings ON id = name_id"
        " ORDER BY duration_nanos DESC, start_nanos",
    ),
    "count and sum in 1 % of the time": (
        "SELECT count(*), sum(duration_nanos) FROM spans"
        " WHERE start_nanos BETWEEN {start} AND {end}",
        "SELECT count(*), sum(duration_nanos) FROM spans"
        " WHERE start_nanos BETWEEN {start} AND {end}",
    ),
}
TOP = "`SELECT * FROM top`, the first 20"
LATENCY_QUERIES = {
    "`SELECT * FROM flame`": "SELECT * FROM flame",
    TOP: "SELECT * FROM top ORDER BY self_nanos DESC LIMIT 20",
}
QUERY_BAR_NANOS = 20e6
FIRST_BAR_NANOS = 100e6
BYTES_BAR = 16.0


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures runs.")
    parser.add_argument("--update", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="marey-bench-") as folder:
        tables = [collection(Path(folder)), queries(Path(folder)), answers(Path(folder))]
    texts = ["\n".join(grid(table)) for table in tables]
    print("\n\n".join(texts))
    if options.update:
        update("\n\n".join([measured_with("bench/runs.py --update"), *texts]), "bench/runs.py")
    return 0


def run_of(folder: Path, spans: int) -> Path:
    return folder / f"run_{spans}.marey"


def collection(folder: Path) -> list[tuple[str, ...]]:
    """Records and collects a run of each size."""
    lines: list[tuple[str, ...]] = [
        (
            "collecting",
            "CPU time a span",
            "memory",
            "bytes a span in the spool",
            "at rest",
            "bar",
            "",
        )
    ]
    demo = folder / "demo.marey"
    record_demo = ["-m", "marey", "run", "-d", "trace", "-o", str(demo), str(DEMO)]
    lines.append(collected("the demo", demo, record_demo))
    record = str(Path(__file__).with_name("record_run.py"))
    for spans in SIZES:
        path = run_of(folder, spans)
        arguments = [record, str(path.with_suffix("")), str(spans)]
        lines.append(collected(f"{spans / MILLION:.0f} M spans", path, arguments))
    return lines


def collected(what: str, path: Path, record: list[str]) -> tuple[str, ...]:
    """Records a run with a program, collects it, and returns the row of its cost."""
    environment = {**os.environ, "MAREY_COLLECT": "0"}
    command = [sys.executable, *record]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    spool_bytes = size(path)
    cost = run(["marey", "collect", "--quiet", str(path)], DEV_NULL)
    count = stored_spans(path)
    at_rest = size(path) / count
    line = (
        what,
        duration(cost.cpu_nanos / count),
        f"{cost.memory_bytes / 2**20:,.0f} MiB",
        f"{spool_bytes / count:.2f}",
        f"{at_rest:.2f}",
        f"≤ {BYTES_BAR:.0f}",
        verdict(at_rest <= BYTES_BAR),
    )
    print("  ".join(line), flush=True)
    return line


def stored_spans(path: Path) -> int:
    """Returns the number of spans of a run without losses.

    Raises:
        RuntimeError: The run has losses.
    """
    import marey

    with marey.open(path) as opened:
        lost = opened.sql("SELECT cause, count FROM losses").rows()
        if lost:
            raise RuntimeError(f"the recorder lost {lost}; the figures would be wrong")
        count: int = opened.sql("SELECT count(*) FROM spans").rows()[0][0]
        return count


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def queries(folder: Path) -> list[tuple[str, ...]]:
    """Measures CPU time of the same queries in marey and DuckDB, in turn, both warm."""
    import duckdb
    import marey

    path = run_of(folder, QUERIED_SPANS)
    lines: list[tuple[str, ...]] = [("question", "DuckDB", "marey", "ratio", "bar", "")]
    with marey.open(path) as opened, duckdb.connect() as connection:
        for table in ("spans", "strings"):
            connection.execute(
                f"CREATE VIEW {table} AS SELECT * FROM '{path}/tables/{table}/*.parquet'"
            )
        first, last = opened.sql("SELECT min(start_nanos), max(start_nanos) FROM spans").rows()[0]
        middle, width = (first + last) // 2, (last - first) // 100

        def ask_duckdb(query: str) -> list[Any]:
            return connection.execute(query).fetchall()

        for what, texts in QUERIES.items():
            ours, theirs = (text.format(start=middle, end=middle + width) for text in texts)
            answers = opened.sql(ours).rows(), ask_duckdb(theirs)
            if answers[0] != answers[1]:
                raise RuntimeError(f"different answers to {what}")
            peer, us = in_turn(
                functools.partial(ask_duckdb, theirs), functools.partial(opened.sql, ours)
            )
            ratio = us / peer
            lines.append(
                (what, duration(peer), duration(us), f"{ratio:.2f}", "≤ 1", verdict(ratio <= 1))
            )
            print("  ".join(lines[-1]), flush=True)
    return lines


def in_turn(peer: Callable[[], Any], ours: Callable[[], Any]) -> tuple[float, float]:
    """Returns the median CPU time of each in nanoseconds, over all threads."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for taken, ask in zip(times, (peer, ours), strict=True):
            before = time.process_time_ns()
            ask()
            taken.append(time.process_time_ns() - before)
    return statistics.median(times[0]), statistics.median(times[1])


def answers(folder: Path) -> list[tuple[str, ...]]:
    """Measures the wall time of queries."""
    import marey

    path = run_of(folder, QUERIED_SPANS)
    lines: list[tuple[str, ...]] = [("answer", "wall time", "bar", "")]

    def add(what: str, nanos: float, bar_nanos: float) -> None:
        bar = f"≤ {duration(bar_nanos)}"
        lines.append((what, duration(nanos), bar, verdict(nanos <= bar_nanos)))
        print("  ".join(lines[-1]), flush=True)

    with marey.open(path) as opened:
        for what, query in LATENCY_QUERIES.items():
            add(what, wall_nanos(functools.partial(opened.sql, query)), QUERY_BAR_NANOS)

    def open_and_ask() -> None:
        with marey.open(path) as opened:
            opened.sql(LATENCY_QUERIES[TOP])

    add("opening the run, and `top`", wall_nanos(open_and_ask), FIRST_BAR_NANOS)
    ask = functools.partial(run, ["marey", "query", str(path), LATENCY_QUERIES[TOP]], DEV_NULL)
    add("`marey query` of the same, a whole process", wall_nanos(ask), FIRST_BAR_NANOS)
    return lines


def wall_nanos(ask: Callable[[], Any]) -> float:
    """Returns the median of the rounds, without the first one."""
    times = []
    for _ in range(ROUNDS + 1):
        before = time.perf_counter_ns()
        ask()
        times.append(time.perf_counter_ns() - before)
    return statistics.median(times[1:])


def verdict(holds: bool) -> str:
    return "holds" if holds else "**missed**"


if __name__ == "__main__":
    sys.exit(main())
