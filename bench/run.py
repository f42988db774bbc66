"""Measures marey and its peers: `python bench/run.py`, after `make install`.

Peer and marey run in turn, in separate processes, in many short rounds; the result is the ratio of
the medians. `--row` measures one row, `--update` writes all rows to `docs/benchmarks.md`. The exit
code is 0 even if a bar is missed, because a single run on a shared machine proves nothing.
`bench/instructions.py` is the check that fails.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from measure import Result, Workers, measure
from rows import ROWS
from table import (
    HEADINGS,
    document_parser,
    library_sizes,
    markdown_tables,
    result_cells,
    update_document,
    versions,
)


def main() -> None:
    options = parse_options()
    rows = [row for row in ROWS if options.row is None or row.name in options.row]
    results = []
    if not options.json:
        print_cells("name", HEADINGS)
    with Workers() as workers:
        for row in rows:
            result = measure(row, workers)
            results.append(result)
            if not options.json:
                print_cells(row.name, result_cells(result))
    if options.json:
        json.dump(as_json(results), sys.stdout, indent=2)
        print()
    else:
        for name, size in library_sizes():
            print(f"{name}: {size / 1024:,.0f} KiB")
    if options.update:
        update_document("bench/run.py", markdown_tables(results))


def print_cells(name: str, texts: tuple[str, ...]) -> None:
    description, beside, peer, ours, ratio, bar, verdict = texts
    columns = f"{peer:>10} {ours:>12} {ratio:>14} {bar:>10}"
    print(f"{name:20} {columns} {verdict:11} {description} ({beside})", flush=True)


def as_json(results: list[Result]) -> dict[str, Any]:
    return {
        "versions": versions(),
        "rows": [
            {
                "name": result.row.name,
                "peer": result.row.peer and result.row.peer.label,
                "peer_nanos": result.peer_nanos,
                "ours_nanos": result.ours_nanos,
                "ours_quartiles_nanos": result.ours_quartiles,
                "ratio": result.ratio,
                "above_nanos": result.difference_nanos,
                "statistic": result.row.statistic,
                "processes": result.row.processes,
                "rounds": result.row.rounds,
                "passes": result.passes,
            }
            for result in results
        ],
        "library_bytes": dict(library_sizes()),
    }


def parse_options() -> argparse.Namespace:
    parser = document_parser("Measures marey beside its peers.")
    names = [row.name for row in ROWS]
    parser.add_argument("--row", action="append", choices=names, help="only this one; repeatable")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.update and options.row:
        parser.error("--update measures every row")
    return options


if __name__ == "__main__":
    main()
