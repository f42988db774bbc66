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

SORTED = "Sorted kernels by metric "
ROOTS = ("ROOT", "ROOT@ROOT")
NAME_WIDTH = 105


class Answer(NamedTuple):
    """The output of a viewer; `failure` is the peer's exception as `Type: text`, else empty."""

    stdout: str
    stderr: str = ""
    exit_code: int = 0
    failure: str = ""


def theirs(argv: Sequence[str]) -> Answer:
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


def theirs_as_reals(argv: Sequence[str]) -> Answer:
    """Runs Proton's viewer with a float first column, because it cannot sort integers."""
    print_tree = viewer.print_tree

    def print_reals(frame: Any, metrics: list[str], *options: Any) -> None:
        frame.dataframe[metrics[0]] = frame.dataframe[metrics[0]].astype(float)
        print_tree(frame, metrics, *options)

    with mock.patch.object(viewer, "print_tree", print_reals):
        return theirs(argv)


def ours(argv: Sequence[str], capfd: pytest.CaptureFixture[str]) -> Answer:
    """Runs `marey view`."""
    capfd.readouterr()
    exit_code = _engine.cli_main(["marey", "view", *argv])
    return Answer(*capfd.readouterr(), exit_code)


def refuses(answer: Answer) -> bool:
    """Whether a viewer failed with one line of error; hints may follow."""
    error, *notes = answer.stderr.splitlines() or [""]
    only_hints = all(note.startswith("hint: ") for note in notes)
    says_why = error.startswith("error: ") and only_hints
    return answer.exit_code == 2 and answer.stdout == "" and says_why


def difference(shown: str, wanted: str) -> str:
    """Returns the difference of two outputs; empty if they are equal.

    They must be equal byte for byte, except the list after `--print-sorted`. The peer sorts it
    unstably, so rows of equal value have no order, and drops the first row, which it takes for
    ROOT.
    """
    shown_tree, shown_list = split(shown)
    wanted_tree, wanted_list = split(wanted)
    found = [*compare(shown_tree, wanted_tree)]
    if not found and shown_list != wanted_list:
        found = [*compare(by_value(shown_list), by_value(repaired(wanted_list, shown_list)))]
    return "\n".join(found)


def compare(shown: list[str], wanted: list[str]) -> Iterator[str]:
    return difflib.unified_diff(wanted, shown, "proton-viewer", "marey view", lineterm="", n=1)


def split(text: str) -> tuple[list[str], list[str]]:
    """Returns the lines around the list, with its heading, and the lines of the list."""
    lines = text.split("\n")
    heading, warning = first(lines, SORTED), first(lines, "Warning: ")
    return lines[: heading + 1] + lines[warning:], lines[heading + 1 : warning]


def first(lines: list[str], start: str) -> int:
    """Returns the index of the first line with this prefix, or the number of lines."""
    return next((at for at, line in enumerate(lines) if line.startswith(start)), len(lines))


def repaired(rows: list[str], complete: list[str]) -> list[str]:
    """Returns the peer's rows without ROOT, and with the row that it dropped."""
    kept = [row for row in rows if row[:NAME_WIDTH].rstrip() not in ROOTS]
    if len(kept) == len(rows):
        return rows  # ROOT was the one that it left out
    missing = (Counter(complete) - Counter(kept)).elements()
    return [row for row in missing if value(row) == value(complete[0])][:1] + kept


def by_value(rows: list[str]) -> list[str]:
    """Sorts rows of equal value by name."""
    return [row for _, run in groupby(rows, key=value) for row in sorted(run)]


def value(row: str) -> str:
    return row[NAME_WIDTH:]
