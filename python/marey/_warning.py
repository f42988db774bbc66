"""Warnings that are attributed to the user's code."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

_PACKAGE = os.path.join(os.path.dirname(__file__), "")


def warn(note: str, *, via: str | None = None) -> None:
    """Issues a warning at the innermost line of the call stack that is outside this package.

    Args:
        note: Text of the warning.
        via: Name of another package whose lines are skipped too.
    """
    skipped = (_PACKAGE, *_package_folders(via))
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(skipped):
        level += 1
        frame = frame.f_back
    warnings.warn(note, stacklevel=level)


def _package_folders(package: str | None) -> list[str]:
    spec = getattr(sys.modules.get(package or ""), "__spec__", None)
    return [
        os.path.join(folder, "")
        for folder in getattr(spec, "submodule_search_locations", None) or ()
    ]
