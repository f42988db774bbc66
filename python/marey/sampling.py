"""Samples of Python's call stacks in traces: where each thread is, running or waiting.

A thread of this module takes the GIL for a moment at each sample. It exists only while a trace
session is alive and a setting of sampling is on, and is stopped while the process forks.

    marey.sampling.enable(interval_s=0.1)  # always
    marey.sampling.enable(scope="load")  # while a scope of this name is open
    marey.sampling.enable(slow_step=1.5)  # in steps that take 1.5 times as long as others
    marey.sampling.enable(signal=signal.SIGUSR2)  # at each arrival
    marey.sampling.sample()  # now

The samples are the table `samples`, whose arguments state the cause; `python.backtrace` has the
last one of each thread, frame by frame. `marey config PID sample.interval=0.1` and
`marey sample PID` do the same in a running process.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
from collections.abc import Callable
from signal import SIGUSR1, SIGUSR2

from . import _native
from ._names import (
    LOSS_SAMPLES_MISSED,
    SETTING_SAMPLE_INTERVAL,
    SETTING_SAMPLE_SCOPE,
    SETTING_SAMPLE_SIGNAL,
    SETTING_SAMPLE_SLOW_STEP,
)

__all__ = ["disable", "enable", "sample"]

_DEFAULT_INTERVAL_S = 0.1
_SHORTEST_INTERVAL_S = 0.001
_LONGEST_INTERVAL_S = 3600
_MAX_SLOW_STEP = 1_000_000
_REQUEST = 4
"""Number of the cause of `sample`, as in `SampleCause` of the spool."""


_stored: Callable[[threading.Thread], dict[str, object]] = vars(threading.Thread)[
    "__dict__"
].__get__
"""Returns the attributes that a thread stores, without code of its class."""


def enable(
    interval_s: float | None = None,
    *,
    scope: str | None = None,
    slow_step: float | None = None,
    signal: int | None = None,
) -> None:
    """Samples the stacks of all threads of Python, in all trace sessions from now on.

    Threads that run no Python are left out. With `scope` or `slow_step`, only while such a scope or
    step is open; `signal` adds a sample at each arrival. A call replaces the earlier ones.

    Args:
        interval_s: Mean time between two samples in seconds, from 0.001 to 3600; by default 0.1, or
            0.01 in a scope or step, and none with `signal` alone.
        scope: Name of a scope, on any thread. A scope shorter than the interval may have no sample.
        slow_step: Multiple of the median of the last 16 training steps, from which on the rest of a
            step is sampled. The first five steps are never slow. The time after the last step
            counts as a step until the scope around it ends.
        signal: `signal.SIGUSR1` or `signal.SIGUSR2`, whose handler marey installs.

    Raises:
        ValueError: A value is out of its range, or the process handles the signal already.
    """
    # All values are checked before the first setting changes.
    if interval_s is not None and not _SHORTEST_INTERVAL_S <= interval_s <= _LONGEST_INTERVAL_S:
        bounds = f"from {_SHORTEST_INTERVAL_S} to {_LONGEST_INTERVAL_S}"
        raise ValueError(f"interval_s must be {bounds}, not {interval_s!r}")
    if scope == "":
        raise ValueError("scope must not be empty")
    if slow_step is not None and not 0 < slow_step <= _MAX_SLOW_STEP:
        raise ValueError(f"slow_step must be above 0, at most {_MAX_SLOW_STEP}: {slow_step!r}")
    if signal is not None and signal not in (SIGUSR1, SIGUSR2):
        raise ValueError(f"signal must be signal.SIGUSR1 or signal.SIGUSR2, not {signal!r}")
    if interval_s is None:
        is_on_event = scope is not None or slow_step is not None or signal is not None
        interval_s = 0 if is_on_event else _DEFAULT_INTERVAL_S
    _native.set_setting(SETTING_SAMPLE_SIGNAL, signal or 0)  # first, as it may be refused
    _native.set_setting(SETTING_SAMPLE_SLOW_STEP, slow_step or 0)
    _native.set_setting(SETTING_SAMPLE_INTERVAL, interval_s)
    _native.set_setting(SETTING_SAMPLE_SCOPE, scope or "")
    follow_setting()


def disable() -> None:
    """Ends the sampling; a sample that is being taken is completed."""
    for setting in (SETTING_SAMPLE_INTERVAL, SETTING_SAMPLE_SLOW_STEP, SETTING_SAMPLE_SIGNAL):
        _native.set_setting(setting, 0)
    _native.set_setting(SETTING_SAMPLE_SCOPE, "")
    _sampler.stop()


def sample() -> None:
    """Samples the stacks of all threads of Python now, in all trace sessions that record.

    The stack of the calling thread ends at the caller.
    """
    caller = threading.get_ident(), sys._getframe(1)
    _native.sample_stacks(_threads(), 0, _REQUEST, caller)


_find_collective: Callable[[], str] | None = None
"""Returns the last collective of `torch.distributed`, as JSON."""


def find_collectives(find: Callable[[], str] | None) -> None:
    """Answers requests for the last collective by a function from now on, with None no more.

    In traces this keeps the thread that samples, because the main thread of a job that hangs
    could not start it.
    """
    global _find_collective
    _find_collective = find
    _native.find_collectives(find is not None)
    follow_setting()


def follow_setting() -> None:
    """Starts the thread if the settings, a request and the sessions need one."""
    _sampler.start()


class _Sampler:
    """The thread that samples. The recorder tells it when, and when to end."""

    def __init__(self) -> None:
        self._ended: _thread.LockType | None = None

    def start(self) -> None:
        # Without a lock, because `marey config` may interrupt the thread that is here.
        thread = _native.begin_sampling()
        if thread == 0:
            return
        self._ended = ended = _thread.allocate_lock()
        ended.acquire()
        try:
            # Not a `threading.Thread`, which the program would find among its own.
            _thread.start_new_thread(self._run, (thread, ended))
        except BaseException:
            _native.end_sampling()
            ended.release()
            raise

    def stop(self) -> None:
        _native.end_sampling()
        if self._ended is not None:
            with self._ended:
                pass

    def _run(self, thread: int, ended: _thread.LockType) -> None:
        try:
            while (due := _native.next_sample(thread)) is not None:
                if due[1] == _native.NO_SAMPLE:
                    _answer_collective()
                    continue
                try:
                    _native.sample_stacks(_threads(), *due)
                except Exception:  # such as for want of memory
                    _native.count_losses(LOSS_SAMPLES_MISSED, 1)
        finally:
            ended.release()


def _answer_collective() -> None:
    try:
        answer = "null" if _find_collective is None else _find_collective()
    except Exception as error:  # of private functions of PyTorch
        _native.answer_collective(f"PyTorch's flight recorder: {error}", is_error=True)
    else:
        _native.answer_collective(answer)


def _threads() -> dict[int, tuple[int, str]]:
    """Returns the ids in the operating system and the names of Python's threads, by their ids.

    A class of the program may compute `ident`, `native_id` and `name`, so these are read where
    `threading.Thread` stores them.
    """
    found = {}
    active: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
    for ident, thread in dict.copy(active).items():
        # A look-up would call `__eq__` of keys of the program.
        stored = {key: value for key, value in _stored(thread).items() if type(key) is str}
        os_id, name = stored.get("_native_id"), stored.get("_name")
        found[ident] = os_id if type(os_id) is int else 0, name if type(name) is str else ""
    return found


def _forget() -> None:
    """Forgets the thread of the parent, in the child of a fork."""
    global _sampler
    _sampler = _Sampler()
    follow_setting()


_sampler = _Sampler()
# A thread that returns from the recorder after the interpreter has shut down would be ended there.
atexit.register(lambda: _sampler.stop())
os.register_at_fork(
    before=lambda: _sampler.stop(), after_in_parent=follow_setting, after_in_child=_forget
)
