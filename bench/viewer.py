"""Measures `marey view` and `proton-viewer`: `python bench/viewer.py`.

Each run is a whole process, whose CPU time and peak of resident memory the system measures. Peer
and marey run in turn. `--update` writes the table to `docs/benchmarks.md`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from process import Cost, median, run
from table import NO_VALUE, document_parser, duration, markdown_table, update_document, verdict

FAN_OUT = 10
LEVELS = 6
METRICS = "time/ms"
DEVICES = """\
    {
        "CUDA": {
            "0": {
                "arch": "90",
                "bus_width": 6144,
                "clock_rate": 1980000,
                "memory_clock_rate": 2619000,
                "num_sms": 132
            }
        }
    }"""
HEADINGS = ("what", "proton-viewer", "memory", "marey view", "memory", "faster", "less memory", "")


@dataclass(frozen=True)
class Row:
    """A profile and the printed part."""

    what: str
    nodes: int
    depth: int | None
    rounds: int
    has_peer: bool = True
    bars: tuple[float, float] | None = None
    """Least speedup and least memory ratio."""


ROWS = (
    Row("20,000 nodes, the whole tree", 20_000, None, 3),
    Row("1,000,000 nodes, three levels", 1_000_000, 3, 1, bars=(10, 5)),
    # Proton's viewer compares each node with all printed nodes, which takes hours.
    Row("1,000,000 nodes, the whole tree", 1_000_000, None, 3, has_peer=False),
)


def main() -> None:
    parser = document_parser("Measures the viewers.")
    options = parser.parse_args()
    lines: list[tuple[str, ...]] = [HEADINGS]
    with tempfile.TemporaryDirectory(prefix="marey-bench-") as folder:
        for row in ROWS:
            line = measure(row, Path(folder))
            print("  ".join(line), flush=True)
            lines.append(line)
    if options.update:
        update_document("bench/viewer.py", [markdown_table(lines)])


def measure(row: Row, folder: Path) -> tuple[str, ...]:
    """Returns a row of the table."""
    profile = folder / f"{row.nodes}.hatchet"
    if not profile.exists():
        write_profile(profile, row.nodes)
    arguments = [
        "-m",
        METRICS,
        *([] if row.depth is None else ["-d", str(row.depth)]),
        str(profile),
    ]
    programs = {"marey": ["marey", "view"]}
    if row.has_peer:
        programs = {"peer": ["proton-viewer"], **programs}
    costs: dict[str, list[Cost]] = {name: [] for name in programs}
    for _ in range(row.rounds):
        for name, program in programs.items():
            costs[name].append(run([*program, *arguments], folder / name))
    if row.has_peer:
        assert (folder / "peer").read_bytes() == (folder / "marey").read_bytes(), row.what
    ours, peer = median(costs["marey"]), median(costs["peer"]) if row.has_peer else None
    return (row.what, *cost_cells(peer), *cost_cells(ours), *comparison_cells(ours, peer, row.bars))


def cost_cells(cost: Cost | None) -> tuple[str, str]:
    if cost is None:
        return NO_VALUE, NO_VALUE
    return duration(cost.cpu_nanos), f"{cost.memory_bytes / 2**20:,.0f} MiB"


def comparison_cells(
    ours: Cost, peer: Cost | None, bars: tuple[float, float] | None
) -> tuple[str, str, str]:
    """Returns speedup, memory ratio, and whether the bars hold."""
    if peer is None:
        return NO_VALUE, NO_VALUE, ""
    gains = peer.cpu_nanos / ours.cpu_nanos, peer.memory_bytes / ours.memory_bytes
    speedup, memory_ratio = (f"{gain:.3g}x" for gain in gains)
    if bars is None:
        return speedup, memory_ratio, ""
    holds = all(gain >= bar for gain, bar in zip(gains, bars, strict=True))
    speedup, memory_ratio = f"{speedup} (≥ {bars[0]:g}x)", f"{memory_ratio} (≥ {bars[1]:g}x)"
    return speedup, memory_ratio, verdict(holds)


def write_profile(path: Path, nodes: int) -> None:
    """Writes a profile in Proton's format: scopes of ten children each, kernels as leaves."""
    with path.open("w") as file:
        file.write("\n[\n")
        file.writelines(node_lines(iter(range(1, nodes)), 0, 0, " " * 4))
        file.write(f",\n{DEVICES}\n]\n")


def node_lines(remaining: Iterator[int], level: int, rank: int, indent: str) -> Iterator[str]:
    """Yields the text of a node; each further node consumes a number of `remaining`."""
    inner = indent + " " * 4
    yield f'{indent}{{\n{inner}"children": ['
    has_children = False
    for child in range(FAN_OUT if level < LEVELS else 0):
        if next(remaining, None) is None:
            break
        yield ",\n" if has_children else "\n"
        yield from node_lines(remaining, level + 1, child, inner + " " * 4)
        has_children = True
    if level == 0:
        name = "ROOT"
        metrics: dict[str, str] = dict.fromkeys(("bytes", "count", "flops16", "time (ns)"), "0")
    elif has_children:
        name, metrics = f"scope_{level}_{rank}", {}
    else:
        name = f"kernel_{level}_{rank}"
        metrics = {
            "bytes": f"{4096 * (rank + 1)}",
            "count": f"{rank + 1}",
            "device_id": '"0"',
            "device_type": '"CUDA"',
            "flops16": f"{1e9 + rank}",
            "time (ns)": f"{1000 + 37 * rank}",
        }
    if has_children:
        yield f"\n{inner}"
    entries = [f'\n{inner}    "{key}": {value}' for key, value in metrics.items()]
    yield f'],\n{inner}"frame": {{\n{inner}    "name": "{name}",\n'
    yield f'{inner}    "type": "function"\n{inner}}},\n'
    yield f'{inner}"metrics": {{{",".join(entries)}' + (f"\n{inner}" if entries else "")
    yield f"}}\n{indent}}}"


if __name__ == "__main__":
    main()
