"""`marey doctor`: what can be recorded on this machine, and remedies for what cannot.

Vendor libraries are started, and packages imported, in child processes (`_probe`). So a crash is
reported as a line of the page, and the state of this process does not change.
"""

from __future__ import annotations

import argparse
import os
import sys

from ._page import is_colourful, to_json, to_text
from ._report import Report, examine

__all__ = ["Report", "examine", "main"]


def main(arguments: list[str]) -> int:
    """Writes the page and returns the exit code."""
    parser = argparse.ArgumentParser(prog="marey doctor", allow_abbrev=False, add_help=False)
    parser.add_argument("--json", action="store_true")
    wants_json = parser.parse_args(arguments).json
    report = examine()
    text = to_json(report) if wants_json else to_text(report, colour=is_colourful(sys.stdout))
    _print_page(f"{text}\n".encode())
    return int(report.is_broken)


def _print_page(page: bytes) -> None:
    try:
        sys.stdout.buffer.write(page)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe. Discard the rest, so that Python reports no error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
