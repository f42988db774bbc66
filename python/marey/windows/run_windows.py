"""The windows of `marey run --window 5m`."""

from __future__ import annotations

import os
import shlex
from typing import Any

from marey import _session
from marey._ranks import with_rank

from . import retention
from .metric_names import NAMES
from .rolling import load_engine, read_metrics
from .rotation import Names, Rotation
from .watch import Watch
from .window import Window

__all__ = ["RunWindows", "parse_conditions"]


def parse_conditions(texts: list[str]) -> None:
    """Raises `ValueError` if a text is no condition on a metric of a profile."""
    Watch(texts, NAMES)


class RunWindows:
    """The windows of a program under `marey run`: ``<path>.window_<number>.<format>``.

    Args:
        seconds: The option ``--window``.
        path: Path of the profile without its suffix.
        suffix: Suffix of the profiles.
        session: The session of the program, which writes each phase when it is closed.
        keep: The option ``--keep``.
        alerts: The option ``--alert``.
    """

    def __init__(
        self,
        seconds: float,
        path: str,
        suffix: str,
        session: int,
        *,
        keep: str | None,
        alerts: list[str],
    ) -> None:
        stem = with_rank(path)
        folder, prefix = os.path.split(stem)
        self._watch = Watch(alerts, NAMES) if alerts else None
        self._compared: set[str] = set()
        self._windows = Rotation(
            seconds,
            Names(folder, prefix, "{prefix}.window_{number}", suffix),
            lambda _: session,
            stem=stem,
            keep=retention.parse(keep),
            caller="marey run",
            after_end=self._compare,
        )
        if self._watch is not None:
            load_engine()
        self._windows.begin()

    def finish(self, folder: str | None) -> None:
        """Ends the last window; with the working directory `folder`, prints which were written."""
        if self._windows.open is not None:
            try:
                self._windows.end()
            except (OSError, RuntimeError) as error:  # or the program has ended the session
                _session.say(f"could not write the last window: {error}")
        if folder is None:
            return
        paths = [window.path for window in self._windows.ended if window.path is not None]
        if paths:
            _session.say(_written(paths, folder))
        for metric in self._watch.metrics if self._watch else ():
            if metric not in self._compared:
                _session.say(f"the alert on {metric} was never checked: no window has this metric")

    def _compare(self, window: Window) -> None:
        if self._watch is None:
            return
        metrics = read_metrics(window, self._watch.metrics) or {}
        for alert in self._watch.judge(metrics):
            _session.say(f"window {window.number}: {alert}; see {window.path}")
        self._compared |= metrics.keys()


def _written(paths: list[Any], folder: str) -> str:
    from marey._recording import shown_path

    first, last = (shown_path(path, folder) for path in (paths[0], paths[-1]))
    files = last if len(paths) == 1 else f"{len(paths)} windows, {first} to {last}"
    return f"wrote {files}; see one with: marey view {shlex.quote(last)}"
