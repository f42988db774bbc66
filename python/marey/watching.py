"""Values of variables at a line of a running program, recorded into its trace.

    marey.start("train", data="trace")
    watch = marey.watch("train.py:120:loss, self.scale, losses[-1]")
    ...
    watch.end()

The values are those when the line begins, recorded `watch.rate` times per second at most (`marey
config`). No code of the program runs for it, so properties and items of its classes cannot be read.
The values are the table `variables` and the view `python.variables`.
`marey watch PID` does the same in a running process.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import gc
import json
import os
import re
import sys
import threading
import time
import types
from collections.abc import Iterator
from typing import Any

from . import _native, _static_values
from ._line_events import line_events
from ._names import (
    LOSS_WATCHED_LINES_SKIPPED,
    LOSS_WATCHED_VALUES_UNREAD,
    SETTING_WATCH_RATE,
    SETTING_WATCH_TEXT_LENGTH,
)
from ._static_values import Unreadable

__all__ = ["Watch", "end_all", "watch", "watches"]

MAX_WATCHES = 16
_MAX_CODES = 16
"""Maximum number of functions that have the same line, such as those of a reloaded module."""
_MAX_SKIPS = 1000
"""Number of times that a line is skipped within an interval before its watch pauses."""

_SPEC = re.compile(r"(?P<file>.+?):(?P<line>[0-9]{1,9}):(?P<names>.+)", re.DOTALL)


class Watch:
    """Watched variables at a line, as `watch` returns them."""

    def __init__(self, spec: str) -> None:
        self.spec = spec
        """File, line and variables, as they were given."""
        match = _SPEC.fullmatch(spec.strip())
        if match is None:
            raise ValueError(f"`{spec}` is not FILE:LINE:NAMES, such as `train.py:120:loss, lr`")
        self.line = int(match["line"])
        """Number of the line, from 1."""
        self.expressions = _static_values.parse(match["names"])
        self.codes = _codes_at(match["file"], self.line)
        # Bytes that are no text have no encoding in the trace.
        self.file = self.codes[0].co_filename.encode("utf-8", "replace").decode()
        """Path of the file, as Python has it."""
        self.function = _qualified_name(self.codes[0])
        """Name of the function, or ``<module>``."""
        self.recorded = 0
        """Number of times that the values were recorded."""
        self.skipped = 0
        """Number of times that they were not, because of the setting ``watch.rate``."""
        self.has_paused = False
        """Whether `skipped` is a lower bound: while a line runs very often, it is not counted."""
        self.unread = 0
        """Number of values that do not exist or that only code of the program could read."""
        self.reason: str | None = None
        """The reason for the last of them."""
        self._due_nanos = 0
        self._reported_skips = 0
        self._skips_when_recorded = 0

    def end(self) -> None:
        """Ends the watch. What it has recorded stays."""
        if self in _watches:
            _watches.remove(self)
            self.report_losses()
            for code in self.codes:
                remaining = [watch for watch in _by_code[id(code)] if watch is not self]
                _by_code[id(code)] = remaining
                if not remaining:
                    del _by_code[id(code)]
                    _line_events.end(code)
            _resumer.forget(self)

    def on_line(self, frame: types.FrameType) -> bool:
        """Records the values if it is time to. Returns whether the watch needs the next line."""
        if not _native.is_active():
            return True
        now_nanos = time.monotonic_ns()
        if now_nanos >= self._due_nanos:
            self._due_nanos = now_nanos + int(1e9 / _native.setting(SETTING_WATCH_RATE))
            self._record(frame)
            self.report_losses()
            self._skips_when_recorded = self.skipped
            return True
        self.skipped += 1
        if self.skipped - self._skips_when_recorded < _MAX_SKIPS or not _line_events.can_pause:
            return True
        self.has_paused = True
        return False

    def seconds_to_next(self) -> float:
        """Returns the time in seconds until the values may be recorded again."""
        return max(self._due_nanos - time.monotonic_ns(), 0) / 1e9

    def _record(self, frame: types.FrameType) -> None:
        text_length = int(_native.setting(SETTING_WATCH_TEXT_LENGTH))
        values = []
        for expression in self.expressions:
            try:
                described = _static_values.describe(expression.value(frame), text_length)
                values.append((expression.text, *described))
            except Exception as error:  # also of a library, which must not reach the program
                self.unread += 1
                self.reason = f"{expression.text}: {error}"
                _native.count_losses(LOSS_WATCHED_VALUES_UNREAD, 1)
        if values:
            self.recorded += 1
            _native.record_variables(self.file, self.function, self.line, *_thread_facts(), values)

    def report_losses(self) -> None:
        """Counts the skips since the last call among the losses of the recording."""
        if new := self.skipped - self._reported_skips:
            self._reported_skips += new
            _native.count_losses(LOSS_WATCHED_LINES_SKIPPED, new)


def watch(spec: str) -> Watch:
    """Records the values of variables each time that a line begins, in the trace sessions.

    Args:
        spec: File, line and variables, such as ``train.py:120:loss, self.scale, losses[-1]``. The
            file is a path or its end; the line is one of a function that is loaded.

    Raises:
        ValueError: The text is not of this form, no code is loaded at the line, or 16 watches are
            active.
        RuntimeError: No trace session is alive; or another tool is in the place that events of
            lines need, before CPython 3.12 a trace function.
    """
    if not any(_native.run_dir(session) is not None for session in _native.sessions()):
        raise RuntimeError(
            "no session records a trace, which has the values: start one with data='trace'"
        )
    for known in _watches:
        if known.spec == spec:
            return known
    if len(_watches) >= MAX_WATCHES:
        raise ValueError(f"{MAX_WATCHES} watches are active, which is the maximum: end one before")
    added = Watch(spec)
    for code in added.codes:
        _line_events.begin(code)
        _by_code.setdefault(id(code), []).append(added)
        # Lines that an earlier watch of the same function does not need.
        _line_events.resume(code)
    _watches.append(added)
    return added


def watches() -> list[Watch]:
    """Returns the active watches."""
    return list(_watches)


def end_all() -> None:
    """Ends all watches."""
    for active in watches():
        active.end()


def answer(request: str) -> str:
    """Answers a request from outside with the watches, as JSON. Called on the main thread.

    Raises:
        ValueError: As for `watch`, or there is no such watch.
        RuntimeError: As for `watch`.
    """
    verb, _, spec = request.partition(" ")
    if verb == "watch":
        watch(spec)
    elif verb == "unwatch" and spec:
        ended = [active for active in _watches if active.spec == spec]
        if not ended:
            raise ValueError(f"it does not watch `{spec}`")
        ended[0].end()
    elif verb == "unwatch":
        end_all()
    return json.dumps([_facts(active) for active in _watches])


def settle() -> None:
    """Counts the losses so far, before a session ends."""
    for active in _watches:
        active.report_losses()


def _facts(active: Watch) -> dict[str, Any]:
    active.report_losses()
    return {
        "spec": active.spec,
        "file": active.file,
        "function": active.function,
        "recorded": active.recorded,
        "skipped": active.skipped,
        "has_paused": active.has_paused,
        "unread": active.unread,
        "reason": active.reason,
    }


def _on_line(code: types.CodeType, line: int, frame: types.FrameType) -> bool:
    is_needed = False
    here = _by_code.get(id(code), ())
    for active in here:
        if active.line == line and active.on_line(frame):
            is_needed = True
    if not is_needed:
        for active in here:
            if active.line == line:
                _resumer.resume_later(active)
    return is_needed


def _thread_facts() -> tuple[int, str]:
    """Returns the id in the operating system and the name of the calling thread."""
    # Not `current_thread`, which adds threads of C to those that the program sees. The name is an
    # attribute that a class of the program may compute.
    thread = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
    name = ""
    if thread is not None:
        with contextlib.suppress(Unreadable):
            name = str(_static_values.describe(_static_values.attribute(thread, "_name"), 100)[1])
    return threading.get_native_id(), name


def _qualified_name(code: types.CodeType) -> str:
    if sys.version_info >= (3, 11):
        return code.co_qualname
    return code.co_name


def _codes_at(file: str, line: int) -> list[types.CodeType]:
    """Returns the loaded codes that have a line of a file, the outermost ones.

    Raises:
        ValueError: There are none, or they are in several files.
    """
    wanted = os.path.normpath(file)
    in_file = {id(code): code for code in _loaded_codes() if _is_path(code.co_filename, wanted)}
    if not in_file:
        raise ValueError(f"no code of a file `{file}` is loaded; `marey dump` shows the paths")
    files = sorted({code.co_filename for code in in_file.values()})
    if len(files) > 1:
        raise ValueError(f"`{file}` is the end of several paths: {', '.join(files[:4])}")
    found: dict[int, types.CodeType] = {}
    inner: set[int] = set()
    for code in in_file.values():
        for outer, nested in _nested(code):
            if line in _lines(outer):
                found[id(outer)] = outer
                inner.update(map(id, nested))
    codes = [code for key, code in found.items() if key not in inner]
    if not codes:
        lines = {n for top in in_file.values() for code, _ in _nested(top) for n in _lines(code)}
        nearest = min(lines, key=lambda known: abs(known - line))
        raise ValueError(f"line {line} of {files[0]} has no code; the nearest that has: {nearest}")
    return codes[:_MAX_CODES]


def _loaded_codes() -> Iterator[types.CodeType]:
    """Returns the codes of all functions, and of all frames."""
    for found in gc.get_objects():
        if type(found) is types.FunctionType:
            yield found.__code__
    for top in sys._current_frames().values():
        frame: types.FrameType | None = top
        while frame is not None:
            yield frame.f_code
            frame = frame.f_back


def _is_path(path: str, wanted: str) -> bool:
    return path == wanted or (not os.path.isabs(wanted) and path.endswith(os.sep + wanted))


def _nested(code: types.CodeType) -> Iterator[tuple[types.CodeType, list[types.CodeType]]]:
    """Returns a code and those in it, each with all codes inside of it."""
    nested: list[types.CodeType] = []
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            for inner, innermost in _nested(constant):
                nested.append(inner)
                yield inner, innermost
    yield code, nested


def _lines(code: types.CodeType) -> set[int]:
    # Artificial instructions have no line, the first one of a module line 0.
    return {line for _, _, line in code.co_lines() if line}


class _Resumer:
    """The thread that resumes watches which have paused.

    It exists only while a watch pauses, and is stopped while the process forks.
    """

    def __init__(self) -> None:
        self._paused: list[Watch] = []
        self._stop: _thread.LockType | None = None
        self._ended: _thread.LockType | None = None

    def resume_later(self, paused: Watch) -> None:
        if paused not in self._paused:
            self._paused.append(paused)
        if self._stop is None:
            # Each thread has its own locks, so that `stop` never waits for a later thread.
            stop, ended = _thread.allocate_lock(), _thread.allocate_lock()
            stop.acquire()
            ended.acquire()
            self._stop, self._ended = stop, ended
            # Not a `threading.Thread`, which the program would find among its own.
            _thread.start_new_thread(self._run, (stop, ended))

    def forget(self, ended: Watch) -> None:
        """Resumes a watch no more, and ends the thread if it waits for no other one."""
        with contextlib.suppress(ValueError):
            self._paused.remove(ended)
        if not self._paused:
            self.stop()

    def stop(self) -> None:
        stop, self._stop = self._stop, None
        if stop is not None:
            stop.release()
        if self._ended is not None:
            with self._ended:
                pass

    def restart(self) -> None:
        """Continues after a fork, in the parent and in the child."""
        self._ended = None
        for paused in list(self._paused):
            self.resume_later(paused)

    def _run(self, stop: _thread.LockType, ended: _thread.LockType) -> None:
        try:
            while self._stop is stop and self._paused:
                # Watches may end meanwhile.
                wait_s = min(map(Watch.seconds_to_next, list(self._paused)), default=0)
                if stop.acquire(timeout=wait_s):
                    return
                due = [paused for paused in list(self._paused) if paused.seconds_to_next() == 0]
                for resumed in due:
                    with contextlib.suppress(ValueError):
                        self._paused.remove(resumed)
                    for code in resumed.codes:
                        _line_events.resume(code)
        finally:
            if self._stop is stop:
                self._stop = None
            ended.release()


_watches: list[Watch] = []
_by_code: dict[int, list[Watch]] = {}
_line_events = line_events(_on_line)
_resumer = _Resumer()
os.register_at_fork(
    before=lambda: _resumer.stop(),
    after_in_parent=lambda: _resumer.restart(),
    after_in_child=lambda: _resumer.restart(),
)
atexit.register(settle)
