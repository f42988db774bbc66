"""Measures the cost of GPU kernels: `python bench/gpu.py`, in the environment of the tests.

The double of libcupti plays the kernels, so the figures contain neither a device nor CUPTI: they
are the cost of each profiler, and of the double, which is also measured alone. marey and Proton run
in turn, each in its own processes. `--baseline PYTHON` measures the marey that is installed for
another interpreter in turn, such as the last release. `--update` writes `docs/benchmarks.md`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import replay
from table import document_parser, duration, markdown_table, publish, verdict

WORKER = Path(__file__).with_name("gpu_worker.py")
KERNELS = 200_000
LONG_TRACE_KERNELS = 8_000_000
PEER_LONG_TRACE_KERNELS = 800_000
ROUNDS = 7
MIB = 1 << 20

LONG_TRACES = (
    ("proton", "trace", PEER_LONG_TRACE_KERNELS),
    ("marey", "trace", PEER_LONG_TRACE_KERNELS),
    ("marey", "run", LONG_TRACE_KERNELS),
)
KIND_LABELS = {"trace": "Chrome trace", "run": "run"}

Figures = dict[str, float]


def run_worker(
    profiler: str, kind: str, kernels: int, interpreter: str | Path = sys.executable
) -> Figures:
    """Runs one worker process in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="marey-bench-") as folder:
        variables = replay.environment(Path(folder) / "double")
        command = [interpreter, WORKER, profiler, kind, str(kernels)]
        process = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **variables, "MAREY_COLLECT": "0"},
            stdout=subprocess.PIPE,
            check=True,
        )
        figures: Figures = json.loads(process.stdout.splitlines()[-1])
        return figures


def median_figures(data: str, baseline: Path | None) -> dict[str, Figures]:
    """Returns the medians of each profiler, from several processes that run in turn."""
    sides: dict[str, tuple[str, str | Path]] = {
        side: (side, sys.executable) for side in ("nothing", "proton", "marey")
    }
    if baseline is not None:
        sides["before"] = ("marey", baseline)
    all_figures: dict[str, list[Figures]] = {side: [] for side in sides}
    for _ in range(ROUNDS):
        for side, (profiler, interpreter) in sides.items():
            figures = run_worker(profiler, data, KERNELS, interpreter)
            if figures["dropped"]:
                sys.exit(f"{side} had no room for all records: it cannot be measured")
            all_figures[side].append(figures)
    return {
        side: {key: statistics.median(values[key] for values in figures) for key in figures[0]}
        for side, figures in all_figures.items()
    }


def cost_lines(data: str, baseline: Path | None) -> list[tuple[str, ...]]:
    """Returns the rows of a launch and of the end of a session, compared with Proton."""
    sides = median_figures(data, baseline)
    double_nanos = sides.pop("nothing")["launch_nanos"]
    launches = {side: figures["launch_nanos"] - double_nanos for side, figures in sides.items()}
    ends = {side: figures["end_nanos"] for side, figures in sides.items()}
    lines = [
        cost_line(f"a launch and its record, {data}", launches, 0.2),
        cost_line(f"the end of the session, a kernel, {data}", ends, 0.1),
    ]
    if data == "tree":
        # Records that the decoder has not processed are read at the end.
        rates = {
            side: 1e3 / (figures["decoder_nanos"] + figures["end_nanos"])
            for side, figures in sides.items()
            if side != "proton"
        }
        texts = {side: f"{rate:.1f} M/s" for side, rate in rates.items()}
        bar = ("-", "≥ 10 M/s", verdict(rates["marey"] >= 10))
        lines.append(
            ("records decoded on one core", *cells(texts, has_before="before" in sides), *bar)
        )
    return lines


def cost_line(what: str, nanos: Figures, max_ratio: float) -> tuple[str, ...]:
    """Returns a row with the costs of all sides, and marey's as a ratio to Proton's."""
    ratio = nanos["marey"] / nanos["proton"]
    texts = {side: duration(cost) for side, cost in nanos.items()}
    bar = (f"{ratio:.3f}", f"≤ {max_ratio:g}", verdict(ratio <= max_ratio))
    return (what, *cells(texts, has_before="before" in nanos), *bar)


def cells(texts: dict[str, str], *, has_before: bool) -> tuple[str, ...]:
    """Returns the cells of Proton, of the earlier marey if it is measured, and of marey."""
    sides = ("proton", *(("before",) if has_before else ()), "marey")
    return tuple(texts.get(side, "-") for side in sides)


def memory_lines() -> list[tuple[str, ...]]:
    """Returns the rows of the peak memory of long traces."""
    lines: list[tuple[str, ...]] = []
    for profiler, kind, kernels in LONG_TRACES:
        figures = run_worker(profiler, kind, kernels)
        peak_bytes, lost = figures["peak_bytes"], figures["dropped"] / kernels
        has_bar = profiler == "marey" and kernels == LONG_TRACE_KERNELS
        lines.append(
            (
                f"{profiler}, {KIND_LABELS[kind]} of {kernels:,} kernels",
                f"{peak_bytes / MIB:,.0f} MiB" + (f", {lost:.1%} had no room" if lost else ""),
                "< 300 MiB" if has_bar else "-",
                verdict(peak_bytes < 300 * MIB) if has_bar else "",
            )
        )
    return lines


def main() -> None:
    parser = document_parser(__doc__)
    parser.add_argument(
        "--baseline", type=Path, metavar="PYTHON", help="an interpreter with another marey"
    )
    arguments = parser.parse_args()
    costs = [line for data in ("tree", "trace") for line in cost_lines(data, arguments.baseline)]
    double_nanos = run_worker("nothing", "tree", KERNELS)["launch_nanos"]
    before = () if arguments.baseline is None else ("before",)
    headings = ("what", "Proton takes", *before, "marey takes", "ratio", "bar", "")
    texts = [
        f"The double itself takes {duration(double_nanos)} a launch; the rows leave that out.",
        markdown_table([headings, *costs]),
        markdown_table([("most memory of", "it takes", "bar", ""), *memory_lines()]),
    ]
    publish("bench/gpu.py", texts, is_update=arguments.update)


if __name__ == "__main__":
    main()
