"""Samples of Python's call stacks in traces: where each thread is, running or waiting.

A thread of this module takes the GIL for a moment at each sample. It exists only while a session is
alive and the setting `sample.interval` is not 0, and is stopped while the process forks.

    marey.sampling.enable(interval_s=0.1)
    session = marey.start("train", data="trace")

The samples are the table `samples`; `python.backtrace` has the last one of each thread, frame by
frame. `marey config PID sample.interval=0.1` does the same in a running process.
"""

from __future__ import annotations

import _thread
import os
import random
import sys
import threading
import time

from . import _native
from ._names import SETTING_SAMPLE_INTERVAL

__all__ = ["disable", "enable"]

_SHORTEST_INTERVAL_S = 0.001
_LOCK_TIMEOUT_S = 0.1


def enable(interval_s: float = 0.1) -> None:
    """Samples the stacks of all threads of Python, in all trace sessions from now on.

    Threads that run no Python are left out.

    Args:
        interval_s: Mean time between two samples in seconds, from 0.001 to 3600.

    Raises:
        ValueError: `interval_s` is not in this range.
    """
    if not interval_s >= _SHORTEST_INTERVAL_S:
        raise ValueError(f"interval_s must be {_SHORTEST_INTERVAL_S} or more, not {interval_s!r}")
    _native.set_setting(SETTING_SAMPLE_INTERVAL, interval_s)
    follow_setting()


def disable() -> None:
    """Ends the sampling; a sample that is being taken is completed."""
    _native.set_setting(SETTING_SAMPLE_INTERVAL, 0)
    _sampler.stop()


def follow_setting() -> None:
    """Starts the thread if the setting and the sessions need one."""
    if _native.setting(SETTING_SAMPLE_INTERVAL) > 0 and _native.is_recording():
        _sampler.start()


class _Sampler:
    """The thread that samples. A lock that only this class uses wakes the thread to end it."""

    def __init__(self) -> None:
        self._state = threading.Lock()
        self._stop: _thread.LockType | None = None
        self._ended: _thread.LockType | None = None
        self._random = random.Random()  # not the program's

    def start(self) -> None:
        # With a timeout, because `marey config` may interrupt this thread while it has the lock.
        if not self._state.acquire(timeout=_LOCK_TIMEOUT_S):
            return
        try:
            if self._stop is None:
                # Each thread has its own locks, so that `stop` never waits for a later thread.
                stop, ended = _thread.allocate_lock(), _thread.allocate_lock()
                stop.acquire()
                ended.acquire()
                # Not a `threading.Thread`, which the program would find among its own.
                _thread.start_new_thread(self._run, (stop, ended))
                self._stop, self._ended = stop, ended
        finally:
            self._state.release()

    def stop(self) -> None:
        with self._state:
            stop, self._stop = self._stop, None
            ended = self._ended
        if stop is not None:
            stop.release()
        if ended is not None:
            with ended:
                pass

    def _run(self, stop: _thread.LockType, ended: _thread.LockType) -> None:
        try:
            self._sample_until(stop)
        finally:
            ended.release()

    def _sample_until(self, stop: _thread.LockType) -> None:
        last_nanos = time.monotonic_ns()
        while True:
            interval_s = _native.setting(SETTING_SAMPLE_INTERVAL)
            if interval_s == 0 or not _native.is_recording():
                with self._state:
                    if self._stop is stop:
                        self._stop = None
                return
            interval_s = max(interval_s, _SHORTEST_INTERVAL_S)
            # Drawn around the interval: a program may repeat something at the same rate.
            if stop.acquire(timeout=interval_s * self._random.uniform(0.5, 1.5)):
                return
            now_nanos = time.monotonic_ns()
            _sample(now_nanos - last_nanos)
            last_nanos = now_nanos


def _sample(duration_nanos: int) -> None:
    threads = {
        thread.ident: (thread.native_id or 0, thread.name)
        for thread in threading.enumerate()
        if thread.ident is not None
    }
    _native.sample_stacks(sys._current_frames(), threads, duration_nanos)


def _forget() -> None:
    """Forgets the thread of the parent, in the child of a fork."""
    global _sampler
    _sampler = _Sampler()
    follow_setting()


_sampler = _Sampler()
os.register_at_fork(
    before=lambda: _sampler.stop(), after_in_parent=follow_setting, after_in_child=_forget
)
