"""The page as text and as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
from itertools import groupby
from typing import TextIO

import marey

from ._check import Check
from ._report import Report

_COLOURS = {"ok": "32", "missing": "33", "broken": "31"}
_WIDTH = max(map(len, _COLOURS))


def is_colourful(stream: TextIO) -> bool:
    """Whether the stream shall have colours; see https://no-color.org."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def to_text(report: Report, *, colour: bool) -> str:
    """Returns the page as text: sections of lines, and the conclusion."""
    sections = []
    for section, checks in groupby(report.checks, lambda check: check.section):
        lines = [section, *(line for check in checks for line in _lines(check, colour=colour))]
        sections.append("\n".join(lines))
    return "\n\n".join([*sections, _escape_control(report.conclusion)])


def _lines(check: Check, *, colour: bool) -> list[str]:
    state = f"{check.state:<{_WIDTH}}"
    if colour:
        state = f"\x1b[{_COLOURS[check.state]}m{state}\x1b[0m"
    lines = [f"  {state}  {_escape_control(check.text)}"]
    if check.mend is not None and check.state != "ok":
        lines.append(f"  {'':<{_WIDTH}}  -> {_escape_control(check.mend)}")
    return lines


def _escape_control(text: str) -> str:
    """Escapes control characters, which paths and variables may contain."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def to_json(report: Report) -> str:
    """Returns the page as JSON."""
    document = {
        "marey": marey.__version__,
        "level": report.level,
        "conclusion": report.conclusion,
        "is_broken": report.is_broken,
        "checks": [dataclasses.asdict(check) for check in report.checks],
    }
    return json.dumps(document, indent=2)
