"""Warnings that point at the user's code."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

_PACKAGE = os.path.join(os.path.dirname(__file__), "")


def warn(note: str) -> None:
    """Warns of `note` at the line outside this package that led here."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level += 1
        frame = frame.f_back
    warnings.warn(note, stacklevel=level)
