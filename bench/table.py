"""The results as a table, in a terminal and in `docs/benchmarks.md`."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from measure import Result
from native import PACKAGE
from rows import Bar

DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"

NONE = "-"
HEADINGS = ("what", "beside", "it takes", "marey takes", "ratio", "bar", "")
LIBRARIES = ("_native.abi3.so", "lib/libmarey.so", "_engine.abi3.so")


def cells(result: Result) -> tuple[str, ...]:
    """Returns a row of the table."""
    row, peer_nanos = result.row, result.peer_nanos
    return (
        row.what,
        NONE if row.peer is None else row.peer.label,
        NONE if peer_nanos is None else duration(peer_nanos),
        duration(result.ours_nanos),
        NONE if result.ratio is None else ratio(result),
        NONE if row.bar is None else bar_text(row.bar),
        {True: "holds", False: "**missed**", None: ""}[result.passes],
    )


def ratio(result: Result) -> str:
    assert result.ratio is not None
    if result.row.bar is not None and result.row.bar.of == "speedup":
        return f"{1 / result.ratio:.2f}x"
    if result.row.bar is not None and result.row.bar.of == "above":
        assert result.above_nanos is not None
        return f"{duration(result.above_nanos)} above"
    return f"{result.ratio:.3f}"


def bar_text(bar: Bar) -> str:
    if bar.of == "speedup":
        return f"≥ {bar.limit}x"
    if bar.of == "above":
        return f"≤ {duration(bar.limit)} above"
    return f"≤ {duration(bar.limit) if bar.of == 'nanos' else bar.limit}"


def duration(nanos: float) -> str:
    """Formats nanoseconds with three digits and a unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanos >= size:
            return f"{nanos / size:.3g} {unit}"
    return f"{nanos:.3g} ns"


def markdown(results: Sequence[Result]) -> str:
    """Returns both tables and the line with the versions."""
    lines = [measured_with("bench/run.py --update")]
    lines += ["", *grid([HEADINGS, *map(cells, results)])]
    sizes = [(f"`{name}`", f"{size / 1024:,.0f} KiB") for name, size in library_sizes()]
    lines += ["", *grid([("library", "size"), *sizes])]
    return "\n".join(lines)


def measured_with(command: str) -> str:
    """Returns the line above a table: date, command and versions."""
    return (
        f"Measured on {datetime.date.today()} by `python {command}` with {', '.join(versions())}."
    )


def grid(lines: Sequence[Sequence[str]]) -> list[str]:
    """Returns a Markdown table; the first row has the headings."""
    head, *body = ["| " + " | ".join(line) + " |" for line in lines]
    return [head, "|" + "---|" * len(lines[0]), *body]


def versions() -> list[str]:
    """Returns the versions of Python, the packages and the compiler, and the processor."""
    packages = [f"{name} {metadata.version(name)}" for name in ("marey", "triton", "torch")]
    compiler = " ".join(subprocess.check_output(["rustc", "--version"], text=True).split()[:2])
    return [f"CPython {platform.python_version()}", *packages, compiler, f"on {processor()}"]


def processor() -> str:
    """Returns model and number of cores."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return f"{value.strip()} ({cores()} cores)"
    return f"{platform.machine()} ({cores()} cores)"


def cores() -> int:
    return len(os.sched_getaffinity(0))


def library_sizes() -> list[tuple[str, int]]:
    """Returns names and bytes of the wheel's libraries."""
    return [(name, (PACKAGE / name).stat().st_size) for name in LIBRARIES]


def update(text: str, script: str) -> None:
    """Replaces the text between a script's markers in the document.

    Raises:
        ValueError: A marker is missing in the document.
    """
    begin = f"<!-- The lines below are written by `{script} --update`. -->"
    end = f"<!-- The lines above are written by `{script} --update`. -->"
    before, has_begin, rest = DOCUMENT.read_text(encoding="utf-8").partition(begin)
    _, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"{DOCUMENT} lacks the marker {end if has_begin else begin!r}")
    DOCUMENT.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")
