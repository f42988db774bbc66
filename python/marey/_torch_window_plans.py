"""Plans of windows: between which training steps torch.profiler runs.

A plan counts steps (`Schedule`) or waits for an event (`Trigger`).
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
import signal
import statistics
from abc import ABC, abstractmethod
from time import perf_counter
from types import FrameType
from typing import Any, NamedTuple

from ._warning import warn


class Plan(ABC):
    """Which steps a window has."""

    def arm(self) -> None:  # noqa: B027 - optional to override
        """Begins to wait."""

    def disarm(self) -> None:  # noqa: B027 - optional to override
        """Undoes `arm`."""

    @abstractmethod
    def after_step(self, step: int) -> Action:
        """Returns what to do before a step; steps are numbered from 0 since `arm`."""


class Action(NamedTuple):
    """An action between two steps."""

    prepares: bool = False
    starts: bool = False
    stops: bool = False
    is_done: bool = False


class Schedule(Plan):
    """A cycle of steps, as `torch.profiler.schedule` has it.

    In each cycle `wait` steps are not recorded, in `warmup` steps the profiler is set up, and
    `steps` steps are the window. After `repeat` cycles the windows end; 0 means never.
    """

    def __init__(self, *, steps: int, wait: int, warmup: int, repeat: int) -> None:
        for name, value, least in (
            ("steps", steps, 1),
            ("wait", wait, 0),
            ("warmup", warmup, 0),
            ("repeat", repeat, 0),
        ):
            if value < least:
                raise ValueError(f"{name}={value} must be at least {least}")
        self._steps, self._wait, self._warmup, self._repeat = steps, wait, warmup, repeat

    def after_step(self, step: int) -> Action:
        cycle, position = divmod(step, self._wait + self._warmup + self._steps)
        begins_cycle = position == 0 and cycle > 0
        is_done = begins_cycle and cycle == self._repeat
        return Action(
            prepares=not is_done and self._warmup > 0 and position == self._wait,
            starts=not is_done and position == self._wait + self._warmup,
            stops=begins_cycle,
            is_done=is_done,
        )


class Event(ABC):
    """A trigger of windows."""

    def arm(self) -> None:  # noqa: B027 - optional to override
        """Begins to watch."""

    def disarm(self) -> None:  # noqa: B027 - optional to override
        """Undoes `arm`."""

    @abstractmethod
    def has_happened(self, *, in_window: bool) -> bool:
        """Whether it has happened since the last call.

        Called after each step; `in_window` if the profiler ran in the step, which slows it down.
        """


class Trigger(Plan):
    """A window of `steps` steps after each event, up to `MAX_WINDOWS`."""

    def __init__(self, event: Event, steps: int) -> None:
        if steps < 1:
            raise ValueError(f"steps={steps} must be at least 1")
        self._event, self._steps = event, steps
        self._end: int | None = None
        self._windows = 0

    def arm(self) -> None:
        self._event.arm()

    def disarm(self) -> None:
        self._event.disarm()

    def after_step(self, step: int) -> Action:
        if step == 0:
            return Action()
        happened = self._event.has_happened(in_window=self._end is not None)
        if self._end is not None:
            if step < self._end:
                return Action()
            self._end = None
            return Action(stops=True, is_done=self._windows == MAX_WINDOWS)
        if not happened:
            return Action()
        self._end = step + self._steps
        self._windows += 1
        return Action(starts=True)


MAX_WINDOWS = 10
"""Windows that a trigger begins, at most: an event that keeps happening must not fill the disk."""


class FileAppears(Event):
    """A file that appears, or is written again."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = self._stamp()

    def has_happened(self, *, in_window: bool) -> bool:
        stamp = self._stamp()
        happened = stamp is not None and stamp != self._seen
        self._seen = stamp
        return happened

    def _stamp(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns


class SignalArrives(Event):
    """SIGUSR2. A handler that the program has set before is called too."""

    def __init__(self) -> None:
        self._arrived = False
        self._earlier: Any = None
        self._is_armed = False

    def arm(self) -> None:
        earlier = signal.getsignal(signal.SIGUSR2)
        if earlier is None:
            warn("SIGUSR2 triggers no window: the program handles it outside of Python")
            return
        try:
            signal.signal(signal.SIGUSR2, self._handle)
        except ValueError:
            warn("SIGUSR2 triggers no window: only the main thread can set its handler")
            return
        signal.siginterrupt(signal.SIGUSR2, False)
        self._earlier, self._is_armed = earlier, True

    def disarm(self) -> None:
        # The program's own handler, set since, stays.
        if self._is_armed and signal.getsignal(signal.SIGUSR2) == self._handle:
            with contextlib.suppress(ValueError):  # not the main thread
                signal.signal(signal.SIGUSR2, self._earlier)
        self._is_armed = False

    def has_happened(self, *, in_window: bool) -> bool:
        if self._is_armed and signal.getsignal(signal.SIGUSR2) != self._handle:
            self._is_armed = False
            with contextlib.suppress(UserWarning):  # the program makes errors of warnings
                warn("SIGUSR2 triggers no more windows: the program has set a handler of its own")
        happened, self._arrived = self._arrived, False
        return happened

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._arrived = True
        if callable(self._earlier):
            self._earlier(number, frame)


class SlowStep(Event):
    """A step that takes longer than a factor times the median of the steps before it."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._last_end: float | None = None
        self._durations: collections.deque[float] = collections.deque(maxlen=50)

    def has_happened(self, *, in_window: bool) -> bool:
        if in_window:
            self._last_end = None  # the next step waits until the trace is written
            return False
        now = perf_counter()
        last_end, self._last_end = self._last_end, now
        if last_end is None:
            return False
        duration = now - last_end
        is_slow = len(self._durations) >= MIN_STEPS and duration > self._factor * statistics.median(
            self._durations
        )
        self._durations.append(duration)
        return is_slow


MIN_STEPS = 5
"""Steps whose median is known well enough to call another one slow."""


def parse(when: str) -> Plan:
    """Returns the plan that a text describes.

    Args:
        when: ``"10"`` or ``"10:12"`` for these steps, the first and the last one, numbered from 0;
            ``"file:PATH"``, ``"SIGUSR2"`` or ``"slow:1.5x"`` for one step after that event.

    Raises:
        ValueError: The text is none of these.
    """
    if steps := re.fullmatch(r"(\d+)(?::(\d+))?", when):
        first, last = int(steps[1]), int(steps[2] or steps[1])
        if last < first:
            raise ValueError(f"the window {when} ends before it begins")
        warmup = min(first, 1)
        return Schedule(steps=last - first + 1, wait=first - warmup, warmup=warmup, repeat=1)
    return Trigger(_event(when), 1)


def _event(on: str) -> Event:
    kind, _, value = on.partition(":")
    if kind == "file" and value:
        return FileAppears(os.path.abspath(value))
    if on == "SIGUSR2":
        return SignalArrives()
    if kind == "slow" and (factor := re.fullmatch(r"(\d+(?:\.\d+)?)x?", value)):
        if float(factor[1]) > 1:
            return SlowStep(float(factor[1]))
        raise ValueError(f"{on}: the factor must be greater than 1")
    raise ValueError(
        f"{on!r} is no window; known: 10, 10:12 (steps), file:PATH, SIGUSR2, slow:1.5x"
    )


def trigger(on: str, steps: int) -> Trigger:
    """Returns a plan for windows of `steps` steps after an event. Raises `ValueError`."""
    return Trigger(_event(on), steps)
