"""Warnings that point at the user's code."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

_PACKAGE = os.path.join(os.path.dirname(__file__), "")


def warn(note: str, *, via: str | None = None) -> None:
    """Warns of `note` at the line outside this package that led here.

    Args:
        note: What to say.
        via: A package through which it led here, and whose lines are passed over too.
    """
    passed = (_PACKAGE, *_folders(via))
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(passed):
        level += 1
        frame = frame.f_back
    warnings.warn(note, stacklevel=level)


def _folders(package: str | None) -> list[str]:
    spec = getattr(sys.modules.get(package or ""), "__spec__", None)
    return [
        os.path.join(folder, "")
        for folder in getattr(spec, "submodule_search_locations", None) or ()
    ]
