"""The results as a table, in a terminal and in `docs/benchmarks.md`."""

from __future__ import annotations

import argparse
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

NO_VALUE = "-"
HEADINGS = ("what", "beside", "it takes", "marey takes", "ratio", "bar", "")
LIBRARIES = ("_native.abi3.so", "lib/libmarey.so", "_engine.abi3.so")


def result_cells(result: Result) -> tuple[str, ...]:
    """Returns a row of the table."""
    row, peer_nanos = result.row, result.peer_nanos
    return (
        row.description,
        NO_VALUE if row.peer is None else row.peer.label,
        NO_VALUE if peer_nanos is None else duration(peer_nanos),
        duration(result.ours_nanos),
        NO_VALUE if result.ratio is None else ratio_text(result),
        NO_VALUE if row.bar is None else bar_text(row.bar),
        "" if result.passes is None else verdict(result.passes),
    )


def ratio_text(result: Result) -> str:
    assert result.ratio is not None
    if result.row.bar is not None and result.row.bar.quantity == "speedup":
        return f"{1 / result.ratio:.2f}x"
    if result.row.bar is not None and result.row.bar.quantity == "difference":
        assert result.difference_nanos is not None
        return f"{duration(result.difference_nanos)} above"
    return f"{result.ratio:.3f}"


def bar_text(bar: Bar) -> str:
    if bar.quantity == "speedup":
        return f"≥ {bar.limit}x"
    if bar.quantity == "difference":
        return f"≤ {duration(bar.limit)} above"
    return f"≤ {duration(bar.limit) if bar.quantity == 'nanos' else bar.limit}"


def verdict(holds: bool) -> str:
    return "holds" if holds else "**missed**"


def duration(nanos: float) -> str:
    """Formats nanoseconds with three digits and a unit."""
    for unit, unit_nanos in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanos >= unit_nanos:
            return f"{nanos / unit_nanos:.3g} {unit}"
    return f"{nanos:.3g} ns"


def markdown_tables(results: Sequence[Result]) -> list[str]:
    """Returns the table of the results and that of the libraries."""
    sizes = [(f"`{name}`", f"{count / 1024:,.0f} KiB") for name, count in library_sizes()]
    tables = [HEADINGS, *map(result_cells, results)], [("library", "size"), *sizes]
    return [markdown_table(rows) for rows in tables]


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table; the first row has the headings."""
    heading, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([heading, "|" + "---|" * len(rows[0]), *body])


def versions() -> list[str]:
    """Returns the versions of Python, the packages and the compiler, and the processor."""
    packages = [f"{name} {metadata.version(name)}" for name in ("marey", "triton", "torch")]
    compiler = " ".join(subprocess.check_output(["rustc", "--version"], text=True).split()[:2])
    return [f"CPython {platform.python_version()}", *packages, compiler, f"on {processor_model()}"]


def processor_model() -> str:
    """Returns model and number of cores."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return f"{value.strip()} ({core_count()} cores)"
    return f"{platform.machine()} ({core_count()} cores)"


def core_count() -> int:
    return len(os.sched_getaffinity(0))


def library_sizes() -> list[tuple[str, int]]:
    """Returns names and bytes of the wheel's libraries."""
    return [(name, (PACKAGE / name).stat().st_size) for name in LIBRARIES]


def document_parser(description: str | None) -> argparse.ArgumentParser:
    """Returns the parser of a script whose tables are in the document."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--update", action="store_true", help="write docs/benchmarks.md")
    return parser


def publish(script: str, texts: Sequence[str], *, is_update: bool) -> None:
    """Prints texts and, for `--update`, writes them to the document."""
    print("\n\n".join(texts))
    if is_update:
        update_document(script, texts)


def update_document(script: str, texts: Sequence[str]) -> None:
    """Writes date, versions and texts between a script's markers in the document.

    Raises:
        ValueError: A marker is missing in the document.
    """
    begin = f"<!-- The lines below are written by `{script} --update`. -->"
    end = f"<!-- The lines above are written by `{script} --update`. -->"
    before, has_begin, remainder = DOCUMENT.read_text(encoding="utf-8").partition(begin)
    _, has_end, after = remainder.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"{DOCUMENT} lacks the marker {end if has_begin else begin!r}")
    command = f"python {script} --update"
    note = f"Measured on {datetime.date.today()} by `{command}` with {', '.join(versions())}."
    text = "\n\n".join([begin, note, *texts, end])
    DOCUMENT.write_text(f"{before}{text}{after}", encoding="utf-8")
