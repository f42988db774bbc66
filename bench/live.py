"""Measures looking into running processes: `python bench/live.py --peers FOLDER`.

The folder is a Python environment with probing, py-spy and memray; not that of marey, because
Probing changes every interpreter of its environment. Peers and marey run in turn; a figure is the
median. Valgrind, if it is installed, counts the instructions of calls, because no clock of a shared
machine shows 0.5 %. `--newer` names an interpreter in which watches are measured too. `--only`
makes one table, `--update` writes all to `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import live_commands
import live_costs
from live_process import Peers
from table import document_parser, update_document

TABLES: dict[str, Callable[[Peers], str]] = {
    "prepared": live_costs.prepared_table,
    "commands": live_commands.commands_table,
    "stop": live_commands.stop_table,
    "sampling": live_commands.sampling_table,
    "inside": live_costs.inside_table,
    "watch": live_costs.watch_table,
}


def main() -> None:
    options = parse_options()
    peers = Peers(options.peers.absolute(), options.newer)
    texts = []
    load_before = os.getloadavg()[1]
    for name, make_table in TABLES.items():
        if options.only in (None, name):
            texts.append(make_table(peers))
            print(texts[-1], flush=True)
    texts.append(
        f"With {', '.join(peers.versions())}; load {load_before:.1f} before and"
        f" {os.getloadavg()[1]:.1f} at the end (mean of 5 minutes)."
    )
    print(texts[-1])
    if options.update:
        update_document("bench/live.py", texts)


def parse_options() -> argparse.Namespace:
    parser = document_parser("Measures looking into running processes.")
    parser.add_argument(
        "--peers",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="Python environment with probing, py-spy and memray",
    )
    parser.add_argument(
        "--newer",
        type=Path,
        metavar="PYTHON",
        help="CPython 3.12 or later, for the figures of `marey watch` there",
    )
    parser.add_argument("--only", choices=TABLES, help="make only this table")
    options = parser.parse_args()
    if options.update and options.only:
        parser.error("--update makes every table")
    return options


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
