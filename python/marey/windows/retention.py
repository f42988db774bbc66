"""Limits of the windows that are kept: by number, age or bytes."""

from __future__ import annotations

import contextlib
import os
import re
from typing import NamedTuple

from marey import _checks

from .window import Window

_BYTES = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class Retention(NamedTuple):
    """Limits of the windows that are kept; `None` for no limit. The latest is always kept."""

    windows: int | None = None
    seconds: float | None = None
    size_bytes: float | None = None

    def expired(self, windows: list[Window], now_seconds: float) -> list[Window]:
        """Returns the windows that exceed a limit.

        Args:
            windows: The windows, in order of time.
            now_seconds: Reading of `time.monotonic`.
        """
        first = 0
        if self.windows is not None:
            first = len(windows) - self.windows
        if self.seconds is not None:
            oldest = now_seconds - self.seconds
            first = max(first, sum(window.end_seconds < oldest for window in windows))
        if self.size_bytes is not None:
            sizes = [_size_bytes(window) for window in windows]
            while first < len(windows) and sum(sizes[max(first, 0) :]) > self.size_bytes:
                first = max(first, 0) + 1
        return windows[: max(0, min(first, len(windows) - 1))]


def parse(keep: str | int | Retention | None) -> Retention:
    """Returns the limits that `keep` describes.

    Args:
        keep: A number of windows (``12``), an age (``"24h"``), a size (``"2GB"``); several with
            commas between them; `None` for all windows.

    Raises:
        TypeError: `keep` is none of these types.
        ValueError: The text is none of these, or a limit is 0.
    """
    if isinstance(keep, Retention):
        return keep
    if keep is None:
        return Retention()
    if not isinstance(keep, str):
        return Retention(windows=_checks.count("keep", keep, least=1))
    limits = Retention()
    for part in keep.split(","):
        limits = _limited(limits, part.strip())
    return limits


def _limited(limits: Retention, text: str) -> Retention:
    if text.isdecimal():
        return limits._replace(windows=_checks.count("keep", int(text), least=1))
    if (seconds := _checks.duration_seconds(text)) is not None:
        return limits._replace(seconds=seconds)
    if size := re.fullmatch(r"(\d+(?:\.\d+)?) ?([kMG]B|[KMG]iB)", text):
        size_bytes = _checks.positive(f"keep {text!r}", float(size[1]) * _BYTES[size[2]])
        return limits._replace(size_bytes=size_bytes)
    raise ValueError(f"keep {text!r} is no limit; known: 12 (windows), 24h (age), 2GB (size)")


def _size_bytes(window: Window) -> int:
    sizes = 0
    for path in window.files():
        with contextlib.suppress(OSError):  # another process has deleted it
            sizes += os.path.getsize(path)
    return sizes
