"""Threads that the program does not see: `threading.enumerate` does not list them.

They are daemons: the process ends without them.
"""

from __future__ import annotations

import _thread
import queue
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from marey import _session
from marey._forks import follow

__all__ = ["Caller", "Timer"]


class Timer:
    """Calls a function again and again, after each period, on a thread of its own.

    The argument of the function is the value of `restarts` at the end of the period: if they differ
    when the function can act, the period was begun again meanwhile.
    """

    def __init__(self, period_seconds: float, action: Callable[[int], None]) -> None:
        self.restarts = 0
        self._period_seconds = period_seconds
        self._action = action
        self._condition = threading.Condition(threading.Lock())
        self._generation = 0
        self._deadline = 0.0
        self._acting_thread: int | None = None

    def start(self) -> None:
        """Begins the first period."""
        with self._condition:
            self._generation += 1
            self._deadline = monotonic() + self._period_seconds
            _thread.start_new_thread(self._run, (self._generation,))

    def restart(self) -> None:
        """Begins the period again."""
        with self._condition:
            self.restarts += 1
            self._deadline = monotonic() + self._period_seconds

    def stop(self) -> None:
        """Ends the calls, and waits for the end of one in progress."""
        with self._condition:
            self._generation += 1
            self._condition.notify_all()
            if self._acting_thread != threading.get_ident():
                self._condition.wait_for(lambda: self._acting_thread is None)

    def _run(self, generation: int) -> None:
        while (restarts := self._wait(generation)) is not None:
            try:
                self._action(restarts)
            except Exception as error:
                _session.say(f"the end of a window failed: {error}")
            finally:
                with self._condition:
                    self._acting_thread = None
                    self._condition.notify_all()

    def _wait(self, generation: int) -> int | None:
        """Waits for the next deadline, and returns `restarts`; `None` if the timer was stopped."""
        with self._condition:
            while self._generation == generation:
                now = monotonic()
                if now >= self._deadline:
                    # Periods that were missed, because the process was suspended, are skipped.
                    missed = (now - self._deadline) // self._period_seconds
                    self._deadline += (1 + missed) * self._period_seconds
                    self._acting_thread = threading.get_ident()
                    return self.restarts
                # No thread can wait longer than TIMEOUT_MAX.
                self._condition.wait(min(self._deadline - now, threading.TIMEOUT_MAX))
            return None


class Caller:
    """Calls functions of the program, one after the other, on a thread of its own."""

    def __init__(self) -> None:
        self.forget()
        follow(self, Caller.forget)

    def forget(self) -> None:
        """Begins anew, in a forked child."""
        self._calls: queue.SimpleQueue[tuple[Callable[[Any], object], Any]] = queue.SimpleQueue()
        self._condition = threading.Condition(threading.Lock())
        self._pending = 0
        self._is_running = False
        self._thread: int | None = None

    def call(self, function: Callable[[Any], object], argument: Any) -> None:
        """Calls the function soon. What it raises is printed."""
        with self._condition:
            self._pending += 1
            self._calls.put((function, argument))
            if not self._is_running:
                self._is_running = True
                _thread.start_new_thread(self._run, ())

    def wait(self, timeout_s: float) -> None:
        """Waits until all calls have returned, at most `timeout_s` seconds.

        Returns at once if a call is what waits.
        """
        if self._thread == threading.get_ident():
            return
        with self._condition:
            self._condition.wait_for(lambda: self._pending == 0, timeout_s)

    def _run(self) -> None:
        self._thread = threading.get_ident()
        while True:
            function, argument = self._calls.get()
            try:
                function(argument)
            except (Exception, SystemExit) as error:
                name = getattr(function, "__name__", repr(function))
                _session.say(f"the alert callback {name} raised {error!r}")
            with self._condition:
                self._pending -= 1
                self._condition.notify_all()
