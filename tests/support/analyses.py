"""Helpers of the analysis tests: recorded traces, made traces, and HTA's analysis of both."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import warnings
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any

import marey
import pyarrow
import pytest
from marey.run import Result
from paths import DATA, FORMATS_DATA, ROOT

# HTA rounds to whole microseconds unless it is told not to.
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"

# What HTA does with pandas makes these.
HTA_WARNINGS = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

Event = dict[str, Any]
Row = dict[str, Any]

TRACE_FOLDERS = (
    DATA / "kineto",
    FORMATS_DATA / "trace_event",
)


def recorded_trace(name: str) -> Path:
    """Returns the path of a recorded trace."""
    paths = [folder / f"{name}.json.gz" for folder in TRACE_FOLDERS]
    return next(path for path in paths if path.exists())


def open_run(path: Path) -> marey.run.Run:
    """Opens a run, ignoring warnings of losses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return marey.open(path)


@functools.cache
def recorded_run(name: str) -> marey.run.Run:
    """Returns the run of a recorded trace, which is opened once."""
    return open_run(recorded_trace(name))


def rows(run: marey.run.Run, view: str, query: str = "SELECT * FROM {}") -> list[Row]:
    """Returns the rows of a view, or of a query over it, as dicts."""
    return by_column(run.sql(query.format(view)))


def by_column(result: Result) -> list[Row]:
    """Returns the rows of a result as dicts."""
    return [dict(zip(result.columns, row, strict=True)) for row in result]


def types(result: Result) -> dict[str, str]:
    """Returns the types of columns in Arrow by their names."""
    schema = pyarrow.table(result).schema
    return {field.name: str(field.type) for field in schema}


def compare_query(name: str) -> str:
    """Returns a query of the comparison."""
    return (ROOT / "crates" / "marey-analysis" / "compare" / f"{name}.sql").read_text()


def documented_rows(run: marey.run.Run, view: str, query: str = "SELECT * FROM {}") -> list[Row]:
    """Returns whole rows: columns must be as declared, in that order, and null only if nullable."""
    declared = run.sql(
        "SELECT column_name, is_nullable FROM information_schema.columns "
        f"WHERE table_schema = 'main' AND table_name = '{view}' ORDER BY ordinal_position"
    ).rows()
    found = rows(run, view, query)
    assert declared
    assert found
    for row in found:
        assert list(row) == [name for name, _ in declared]
        assert [name for name, nullable in declared if not nullable and row[name] is None] == []
    return found


def values(rows: list[Row], *columns: str) -> list[Any]:
    """Returns the value of a column in each row, or the values of several as a tuple."""
    return list(map(itemgetter(*columns), rows))


def values_by(keys: str | tuple[str, ...], rows: list[Row], *columns: str) -> dict[Any, Any]:
    """Returns values as `values` does, by a column or several in which no two rows are alike."""
    names = (keys,) if isinstance(keys, str) else keys
    found = dict(zip(values(rows, *names), values(rows, *columns), strict=True))
    assert len(found) == len(rows)
    return found


def pick_columns(row: Row, other: Row) -> Row:
    """Returns the columns of a row that another row has."""
    return {column: row[column] for column in other}


def write(path: Path, events: list[Event], rank: int | None = None, ranks: int = 1) -> Path:
    """Writes a trace with these events, in microseconds since 1970."""
    trace: dict[str, Any] = {"schemaVersion": 1, "baseTimeNanoseconds": 0, "traceEvents": events}
    if rank is not None:
        trace["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": ranks}
    path.write_text(json.dumps(trace))
    return path


def make_run(*traces: list[Event], folder: Path = Path()) -> marey.run.Run:
    """Makes a run of traces with these events, one for each rank."""
    folder.mkdir(exist_ok=True)
    if len(traces) == 1:
        return open_run(write(folder / "trace.json", traces[0]))
    paths = [
        write(folder / f"rank{rank}.json", events, rank, len(traces))
        for rank, events in enumerate(traces)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        marey.import_files(paths, folder / "job.marey")
    return open_run(folder / "job.marey")


def hta(*paths: Path) -> Any:
    """Returns HTA's analysis of a trace, or of one per rank, with the last step included."""
    analysis = pytest.importorskip("hta.trace_analysis")
    logging.disable(logging.CRITICAL)
    files = {rank: str(path) for rank, path in enumerate(paths)}
    with contextlib.redirect_stdout(None):
        return analysis.TraceAnalysis(
            trace_files=files, trace_dir=str(paths[0].parent), include_last_profiler_step=True
        )


def gpu_span(
    name: str,
    start: float,
    duration: float,
    *,
    category: str = "kernel",
    device: int = 0,
    stream: int = 7,
    correlation: int | None = None,
    **args: Any,
) -> Event:
    """Makes an event of a device, in microseconds."""
    args = {"device": device, "stream": stream, **args}
    if correlation is not None:
        args["correlation"] = correlation
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": device,
        "tid": stream,
        "ts": start,
        "dur": duration,
        "args": args,
    }


def kernel(number: int, start: float, duration: float, **args: Any) -> Event:
    """Makes a kernel, such as `k5`, of the launch with this correlation id."""
    name = args.pop("name", f"k{number}")
    return gpu_span(name, start, duration, correlation=number, **args)


def memory_event(
    time: float, total: int, *, device: int = 0, kind: int = 1, size: int = 8, **args: Any
) -> Event:
    """Makes an allocator event: an allocation, or a release if the size is negative."""
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": 100,
        "tid": 100,
        "ts": time,
        "args": {
            "Device Type": kind,
            "Device Id": device,
            "Addr": 1,
            "Bytes": size,
            "Total Allocated": total,
            "Total Reserved": 2 * total,
            **args,
        },
    }


def host_span(
    name: str,
    start: float,
    duration: float,
    *,
    category: str = "cpu_op",
    pid: int = 100,
    tid: int = 100,
    **args: Any,
) -> Event:
    """Makes an event of a host thread, in microseconds."""
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": start,
        "dur": duration,
        "args": args,
    }


def launch(correlation: int, start: float, duration: float = 1, **args: Any) -> Event:
    """Makes a runtime call with this correlation id."""
    name = args.pop("name", "cudaLaunchKernel")
    return host_span(
        name, start, duration, category="cuda_runtime", correlation=correlation, **args
    )


def step(number: int, start: float, duration: float, **args: Any) -> Event:
    """Makes a training step."""
    name = f"ProfilerStep#{number}"
    return host_span(name, start, duration, category="user_annotation", **args)


def covered_length(intervals: Iterable[tuple[int, int]], start: int, end: int) -> int:
    """Returns the length of [start, end) that intervals cover, by brute force."""
    total, covered_end = 0, start
    for left, right in sorted(intervals):
        left, right = max(left, covered_end), min(right, end)
        if right > left:
            total, covered_end = total + right - left, right
    return total
