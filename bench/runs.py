"""Measures runs, from collection to SQL: `python bench/runs.py`.

Three tables: the cost of collection for growing runs, queries compared with DuckDB on the same
Parquet files, and the wall time of a query. `--update` writes them to `docs/benchmarks.md`.
"""

from __future__ import annotations

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

from process import run as run_process
from table import document_parser, duration, markdown_table, publish, verdict

DEMO_SCRIPT = Path(__file__).parent.parent / "examples" / "train_gpt.py"
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
TOP_QUERY = "`SELECT * FROM top`, the first 20"
LATENCY_QUERIES = {
    "`SELECT * FROM flame`": "SELECT * FROM flame",
    TOP_QUERY: "SELECT * FROM top ORDER BY self_nanos DESC LIMIT 20",
}
MAX_QUERY_NANOS = 20e6
MAX_FIRST_QUERY_NANOS = 100e6
MAX_SPAN_BYTES = 16.0


def main() -> None:
    parser = document_parser("Measures runs.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="marey-bench-") as name:
        folder = Path(name)
        tables = [measure_collection(folder), measure_cpu_times(folder), measure_wall_times(folder)]
    texts = [markdown_table(table) for table in tables]
    publish("bench/runs.py", texts, is_update=options.update)


def run_path(folder: Path, spans: int) -> Path:
    return folder / f"run_{spans}.marey"


def measure_collection(folder: Path) -> list[tuple[str, ...]]:
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
    record_demo = ["-m", "marey", "run", "-d", "trace", "-o", str(demo), str(DEMO_SCRIPT)]
    lines.append(measure_collection_of("the demo", demo, record_demo))
    record = str(Path(__file__).with_name("record_run.py"))
    for spans in SIZES:
        path = run_path(folder, spans)
        arguments = [record, str(path.with_suffix("")), str(spans)]
        lines.append(measure_collection_of(f"{spans / MILLION:.0f} M spans", path, arguments))
    return lines


def measure_collection_of(what: str, path: Path, record: list[str]) -> tuple[str, ...]:
    """Records a run with a program, collects it, and returns the row of its cost."""
    environment = {**os.environ, "MAREY_COLLECT": "0"}
    command = [sys.executable, *record]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    spool_bytes = folder_bytes(path)
    cost = run_process(["marey", "collect", "--quiet", str(path)], DEV_NULL)
    count = count_spans(path)
    span_bytes = folder_bytes(path) / count
    line = (
        what,
        duration(cost.cpu_nanos / count),
        f"{cost.memory_bytes / 2**20:,.0f} MiB",
        f"{spool_bytes / count:.2f}",
        f"{span_bytes:.2f}",
        f"≤ {MAX_SPAN_BYTES:.0f}",
        verdict(span_bytes <= MAX_SPAN_BYTES),
    )
    print("  ".join(line), flush=True)
    return line


def count_spans(path: Path) -> int:
    """Returns the number of spans of a run without losses.

    Raises:
        RuntimeError: The run has losses.
    """
    import marey

    with marey.open(path) as run:
        lost = run.sql("SELECT cause, count FROM losses").rows()
        if lost:
            raise RuntimeError(f"the recorder lost {lost}; the figures would be wrong")
        count: int = run.sql("SELECT count(*) FROM spans").rows()[0][0]
        return count


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure_cpu_times(folder: Path) -> list[tuple[str, ...]]:
    """Measures CPU time of the same queries in marey and DuckDB, in turn, both warm."""
    import duckdb
    import marey

    path = run_path(folder, QUERIED_SPANS)
    lines: list[tuple[str, ...]] = [("question", "DuckDB", "marey", "ratio", "bar", "")]
    with marey.open(path) as run, duckdb.connect() as connection:
        for table in ("spans", "strings"):
            connection.execute(
                f"CREATE VIEW {table} AS SELECT * FROM '{path}/tables/{table}/*.parquet'"
            )
        first, last = run.sql("SELECT min(start_nanos), max(start_nanos) FROM spans").rows()[0]
        start = (first + last) // 2
        end = start + (last - first) // 100

        def ask_duckdb(query: str) -> list[Any]:
            return connection.execute(query).fetchall()

        for what, texts in QUERIES.items():
            marey_query, duckdb_query = (text.format(start=start, end=end) for text in texts)
            answers = run.sql(marey_query).rows(), ask_duckdb(duckdb_query)
            if answers[0] != answers[1]:
                raise RuntimeError(f"different answers to {what}")
            peer_nanos, marey_nanos = median_cpu_nanos(
                functools.partial(ask_duckdb, duckdb_query), functools.partial(run.sql, marey_query)
            )
            ratio = marey_nanos / peer_nanos
            figures = duration(peer_nanos), duration(marey_nanos), f"{ratio:.2f}"
            lines.append((what, *figures, "≤ 1", verdict(ratio <= 1)))
            print("  ".join(lines[-1]), flush=True)
    return lines


def median_cpu_nanos(peer: Callable[[], Any], ours: Callable[[], Any]) -> tuple[float, float]:
    """Returns the median CPU time of each in nanoseconds, over all threads."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for nanos, ask in zip(times, (peer, ours), strict=True):
            before = time.process_time_ns()
            ask()
            nanos.append(time.process_time_ns() - before)
    return statistics.median(times[0]), statistics.median(times[1])


def measure_wall_times(folder: Path) -> list[tuple[str, ...]]:
    """Measures the wall time of queries."""
    import marey

    path = run_path(folder, QUERIED_SPANS)
    lines: list[tuple[str, ...]] = [("answer", "wall time", "bar", "")]

    def add_line(what: str, nanos: float, max_nanos: float) -> None:
        bar = f"≤ {duration(max_nanos)}"
        lines.append((what, duration(nanos), bar, verdict(nanos <= max_nanos)))
        print("  ".join(lines[-1]), flush=True)

    with marey.open(path) as run:
        for what, query in LATENCY_QUERIES.items():
            add_line(what, median_wall_nanos(functools.partial(run.sql, query)), MAX_QUERY_NANOS)

    def open_and_ask() -> None:
        with marey.open(path) as run:
            run.sql(LATENCY_QUERIES[TOP_QUERY])

    add_line("opening the run, and `top`", median_wall_nanos(open_and_ask), MAX_FIRST_QUERY_NANOS)
    command = ["marey", "query", str(path), LATENCY_QUERIES[TOP_QUERY]]
    nanos = median_wall_nanos(functools.partial(run_process, command, DEV_NULL))
    add_line("`marey query` of the same, a whole process", nanos, MAX_FIRST_QUERY_NANOS)
    return lines


def median_wall_nanos(ask: Callable[[], Any]) -> float:
    """Returns the median of the rounds, without the first one."""
    times = []
    for _ in range(ROUNDS + 1):
        before = time.perf_counter_ns()
        ask()
        times.append(time.perf_counter_ns() - before)
    return statistics.median(times[1:])


if __name__ == "__main__":
    main()
