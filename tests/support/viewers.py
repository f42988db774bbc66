"""Runs Proton's viewer and marey's on the same arguments, and compares their output."""

from __future__ import annotations

import contextlib
import difflib
import io
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple
from unittest import mock

import pytest
from marey import _engine

viewer = pytest.importorskip("triton.profiler.viewer")

SORTED_HEADING = "Sorted kernels by metric "
ROOTS = ("ROOT", "ROOT@ROOT")
NAME_WIDTH = 105


class Answer(NamedTuple):
    """The output of a viewer; `failure` is the peer's exception as `Type: text`, else empty."""

    stdout: str
    stderr: str = ""
    exit_code: int = 0
    failure: str = ""


def run_proton(argv: Sequence[str]) -> Answer:
    """Runs Proton's viewer."""
    stdout, stderr, failure = io.StringIO(), io.StringIO(), ""
    limit = sys.getrecursionlimit()
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(mock.patch.object(sys, "argv", ["proton-viewer", *argv]))
        stack.enter_context(contextlib.redirect_stdout(stdout))
        stack.enter_context(contextlib.redirect_stderr(stderr))
        try:
            viewer.main()
        except (Exception, SystemExit) as error:
            failure = f"{type(error).__name__}: {error}"
    sys.setrecursionlimit(limit)  # its filters set another
    return Answer(stdout.getvalue(), stderr.getvalue(), 1 if failure else 0, failure)


def run_proton_with_reals(argv: Sequence[str]) -> Answer:
    """Runs Proton's viewer with a float first column, because it cannot sort integers."""
    print_tree = viewer.print_tree

    def print_reals(frame: Any, metrics: list[str], *options: Any) -> None:
        frame.dataframe[metrics[0]] = frame.dataframe[metrics[0]].astype(float)
        print_tree(frame, metrics, *options)

    with mock.patch.object(viewer, "print_tree", print_reals):
        return run_proton(argv)


def run_marey(argv: Sequence[str], capfd: pytest.CaptureFixture[str]) -> Answer:
    """Runs `marey view`."""
    capfd.readouterr()
    exit_code = _engine.cli_main(["marey", "view", *argv])
    return Answer(*capfd.readouterr(), exit_code)


def is_refusal(answer: Answer) -> bool:
    """Whether a viewer failed with one line of error; hints may follow."""
    error, *more_lines = answer.stderr.splitlines() or [""]
    only_hints = all(line.startswith("hint: ") for line in more_lines)
    says_why = error.startswith("error: ") and only_hints
    return answer.exit_code == 2 and answer.stdout == "" and says_why


def difference(shown: str, wanted: str) -> str:
    """Returns the difference of two outputs; empty if they are equal.

    They must be equal byte for byte, except the list after `--print-sorted`. The peer sorts it
    unstably, so rows of equal value have no order, and drops the first row, which it takes for
    ROOT.
    """
    shown_tree, shown_list = split_list(shown)
    wanted_tree, wanted_list = split_list(wanted)
    differences = [*diff_lines(shown_tree, wanted_tree)]
    if not differences and shown_list != wanted_list:
        repaired = repair_rows(wanted_list, shown_list)
        differences = [*diff_lines(sort_ties(shown_list), sort_ties(repaired))]
    return "\n".join(differences)


def diff_lines(shown: list[str], wanted: list[str]) -> Iterator[str]:
    return difflib.unified_diff(wanted, shown, "proton-viewer", "marey view", lineterm="", n=1)


def split_list(text: str) -> tuple[list[str], list[str]]:
    """Returns the lines around the list, with its heading, and the lines of the list."""
    lines = text.split("\n")
    heading, warning = index_of_prefix(lines, SORTED_HEADING), index_of_prefix(lines, "Warning: ")
    return lines[: heading + 1] + lines[warning:], lines[heading + 1 : warning]


def index_of_prefix(lines: list[str], prefix: str) -> int:
    """Returns the index of the first line with this prefix, or the number of lines."""
    return next((index for index, line in enumerate(lines) if line.startswith(prefix)), len(lines))


def repair_rows(rows: list[str], complete: list[str]) -> list[str]:
    """Returns the peer's rows without ROOT, and with the row that it dropped."""
    kept = [row for row in rows if row[:NAME_WIDTH].rstrip() not in ROOTS]
    if len(kept) == len(rows):
        return rows  # ROOT was the one that it left out
    missing = (Counter(complete) - Counter(kept)).elements()
    return [row for row in missing if value_text(row) == value_text(complete[0])][:1] + kept


def sort_ties(rows: list[str]) -> list[str]:
    """Sorts rows of equal value by name."""
    return [row for _, tied in groupby(rows, key=value_text) for row in sorted(tied)]


def value_text(row: str) -> str:
    return row[NAME_WIDTH:]
