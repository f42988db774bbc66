"""Windows that follow each other without a gap, as the phases of one session."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Callable
from datetime import datetime
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, NamedTuple

import marey
from marey import _native, _process_exit, _session
from marey._forks import follow, followers

from .background import Timer
from .files import make_way, place, prefix_with_rank
from .retention import Retention
from .window import Window, windows_html

if TYPE_CHECKING:
    from marey.hooks import Hook

__all__ = ["Names", "Rotation", "start_session"]


MAX_UNWRITTEN = 24
"""Windows that stay in memory while they cannot be written."""


class Names(NamedTuple):
    """The folder and the names of the files of windows.

    Attributes:
        folder: Folder, which is created if it does not exist.
        prefix: First part of each name.
        pattern: Name without its suffix, with the fields ``prefix``, ``number`` and ``time``.
        suffix: ``.hatchet`` or ``.hatchet_msgpack``.
        first_number: Number of the first window.
    """

    folder: str | os.PathLike[str]
    prefix: str
    pattern: str
    suffix: str = ".hatchet"
    first_number: int = 0


def _nothing(window: Window) -> None: ...


def _no_metrics(window: Window) -> dict[str, float]:
    return {}


class RotatingProfiler:
    """The windows of a profiler, and how a notebook shows them."""

    _windows: Rotation

    @property
    def windows(self) -> list[Window]:
        """The windows that have ended and are kept, the oldest first, with their metrics."""
        return list(self._windows.ended)

    def _repr_html_(self) -> str:
        return windows_html(self.windows)


class Rotation:
    """The windows of one session at a time.

    Args:
        seconds: Time after which a window ends by itself.
        names: Where the files are.
        start: Starts a session with this name, which writes each phase when it is closed; returns
            its number, or `None` if marey is disabled.
        keep: Which windows are kept.
        on_begin: Called when a window has begun.
        on_end: Called just before a window ends; returns its metrics.
        after_end: Called when a window has ended and its profile is written.
        caller: Name of the class, for messages.
        stem: Path of the session without its suffix, if `start` does not use the name it is given.
    """

    def __init__(
        self,
        seconds: float,
        names: Names,
        start: Callable[[str], int | None],
        *,
        keep: Retention,
        caller: str,
        stem: str | None = None,
        on_begin: Callable[[Window], None] = _nothing,
        on_end: Callable[[Window], dict[str, float]] = _no_metrics,
        after_end: Callable[[Window], None] = _nothing,
    ) -> None:
        self._seconds = seconds
        self._names = names
        self._start = start
        self._keep = keep
        self._caller = caller
        self._given_stem = stem
        self._on_begin, self._on_end, self._after_end = on_begin, on_end, after_end
        self._next_number = names.first_number
        self.forget()
        follow(self, Rotation.forget)

    def forget(self) -> None:
        """Begins anew, in a forked child: the parent has the windows and ends the session."""
        self.ended: list[Window] = []  # those that are kept, the oldest first
        self._lock = threading.Lock()
        self._timer = Timer(self._seconds, self._rotate_if_due)
        self.session: int | None = None
        self.open: Window | None = None
        self._stem = self._prefix = ""
        self._begin_time = self._end_time = 0.0  # of the open window, and of the one before
        self._phase = 0
        self._unwritten: dict[int, Window] = {}  # by phase
        self._finished: list[Window] = []  # for `after_end`

    @property
    def next_number(self) -> int:
        """Number of the next window."""
        return self._next_number

    def begin(self) -> Window:
        """Starts a session and its first window.

        Raises:
            RuntimeError: A window is open.
            OSError: The folder cannot be created or written.
        """
        with self._lock:
            if self.open is not None:
                raise RuntimeError(f"{self._caller}: window {self.open.number} is open already")
            os.makedirs(self._names.folder, exist_ok=True)
            self._prefix = prefix_with_rank(self._names.folder, self._names.prefix)
            # Processes share the folder, so an open window has the pid in its name.
            self._stem = self._given_stem or f"{self._prefix}.{os.getpid()}"
            self.session = self._start(self._stem)
            self._phase = 0
            window = self._open_window(datetime.now(), perf_counter())
        self._on_begin(window)
        self._timer.start()
        return window

    def rotate(self) -> Window:
        """Ends the window, begins the next one, and returns the ended one.

        Raises:
            RuntimeError: No window is open.
            OSError: The profile cannot be written. It is kept in memory, the next window has begun,
                and its end writes both.
        """
        with self._lock:
            window, error = self._next()
            begun = self.open
            self._timer.restart()
        self._finish(begun, error)
        return window

    def end(self) -> Window:
        """Ends the window and the session, and returns the ended window.

        Raises:
            RuntimeError: No window is open.
            OSError: The profile cannot be written. What was recorded is kept in memory, and another
                window is open, which ends by itself; `end` can be called again.
        """
        if self.open is not None:
            self._timer.stop()
        try:
            with self._lock:
                window = self._require_open("end")
                self._end_last(window)
        except BaseException:
            if self.open is not None:
                self._timer.start()
            raise
        self._finish(None, None)
        return window

    def _end_last(self, window: Window) -> None:
        """Ends the window and the session. Raises `OSError`, with another window open."""
        self._measure(window)
        # Nothing may follow the last window.
        self._pause(True)
        error = self._advance(window)
        if error is not None:
            self._pause(False)
            self._phase += 1
            self._open_window(datetime.now(), perf_counter())
            raise error
        self._close_session()

    def _require_open(self, action: str) -> Window:
        if self.open is None:
            raise RuntimeError(
                f"{self._caller}: no window to {action}; none was started, or the session has ended"
            )
        return self.open

    def _rotate_if_due(self, restarts: int) -> None:
        """Ends the window on the timer's thread, unless the program has just ended it itself."""
        with self._lock:
            if self.open is None or self._timer.restarts != restarts:
                return
            _, error = self._next()
            begun = self.open
        self._finish(begun, error)

    def _next(self) -> tuple[Window, OSError | None]:
        """Ends the window and opens the next one. Returns the ended one and why it failed."""
        window = self._require_open("rotate")
        self._measure(window)
        error = self._advance(window)
        if self.session is not None or window.path is None:
            self._phase += 1
            self._open_window(window.end or window.start, self._end_time)
        else:
            self.open = None
        return window, error

    def _measure(self, window: Window) -> None:
        """Sets the length and the metrics of the window that ends."""
        window.end, window.end_seconds = datetime.now(), monotonic()
        self._end_time = perf_counter()
        window.duration_seconds = self._end_time - self._begin_time
        window.metrics = self._on_end(window)

    def _advance(self, window: Window) -> OSError | None:
        """Closes the phase of a window, which writes its profile. Returns why it is not written."""
        if self.session is None:
            self.ended.append(window)
            self._finished.append(window)
            return None
        self._unwritten[self._phase] = window
        try:
            marey.data.advance_phase(self.session)
        except IndexError:
            # The program has ended all sessions, which has written the profile.
            self.session = None
        except OSError as error:
            self._drop_oldest()
            return OSError(
                error.errno,
                f"the profile of window {window.number} is not written and stays in memory: "
                f"{error}",
            )
        return self._name_files()

    def _drop_oldest(self) -> None:
        """Drops a window that could not be written if there are many: memory is limited."""
        if len(self._unwritten) > MAX_UNWRITTEN:
            phase = min(self._unwritten)
            window = self._unwritten.pop(phase)
            marey.data.clear(self.session, phase)
            _session.say(
                f"window {window.number} is lost: {MAX_UNWRITTEN} later ones are not written either"
            )

    def _name_files(self) -> OSError | None:
        """Gives the profiles that the session has written the names of their windows."""
        failure = None
        for phase, window in self._unwritten.items():
            written = self._written_path(phase)
            try:
                if window.path is not None:
                    window.path = self._place(written, window.path)
            except FileNotFoundError:
                pass  # the program has ended the session, and that could not write the profile
            except OSError as error:
                window.path, failure = written, error
            self.ended.append(window)
            self._finished.append(window)
        self._unwritten.clear()
        return failure

    def _place(self, written: str, path: str) -> str:
        """Gives a profile its name, and returns it. Raises `OSError`."""
        if self._given_stem is None:
            return place(written, path)  # other processes may choose the same name
        make_way(path)
        os.rename(written, path)
        return path

    def _written_path(self, phase: int) -> str:
        """Returns the path at which the session has written a phase."""
        # A session that was ended in its first phase has a file without a number.
        part = "" if phase == 0 and self.session is None else f".part_{phase}"
        return f"{self._stem}{part}{self._names.suffix}"

    def _open_window(self, start: datetime, begin_time: float) -> Window:
        self._begin_time = begin_time
        path = None if self.session is None else self._path(start)
        window = self.open = Window(self._next_number, start, path)
        self._next_number += 1
        return window

    def _path(self, start: datetime) -> str:
        """Returns the path of the next window."""
        time = start.strftime("%Y%m%d_%H%M%S")
        fields = {"prefix": self._prefix, "number": self._next_number, "time": time}
        return self._names.pattern.format(**fields) + self._names.suffix

    def _finish(self, begun: Window | None, error: OSError | None) -> None:
        """Does what needs no lock: the callbacks, and deleting old windows."""
        if begun is not None:
            self._on_begin(begun)
        with self._lock:
            finished, self._finished = self._finished, []
        for window in finished:
            self._after_end(window)
        self._delete_expired()
        if error is not None:
            raise error

    def _delete_expired(self) -> None:
        with self._lock:
            expired = self._keep.expired(self.ended, monotonic())
            self.ended = self.ended[len(expired) :]
        # Each call of the system lets the program take the GIL and costs it a change of threads.
        for path in [path for window in expired for path in window.files()]:
            try:
                os.remove(path)
            except FileNotFoundError:
                pass  # the program has deleted it
            except OSError as error:
                _session.say(f"an old window could not be deleted: {error}")

    def _pause(self, is_paused: bool) -> None:
        if self.session is not None and self.session in _native.sessions():
            (marey.deactivate if is_paused else marey.activate)(self.session)

    def _close_session(self) -> None:
        session, self.session, self.open = self.session, None, None
        if session is not None and session in _native.sessions():
            _native.set_quiet_if_empty(session)
            marey.finalize(session)
            self._remove_empty_phase()

    def _remove_empty_phase(self) -> None:
        """Removes the empty phase after the last window, if a checkpoint has written it."""
        path = f"{self._stem}.part_{self._phase + 1}{self._names.suffix}"
        with contextlib.suppress(OSError):  # mostly, there is none
            os.remove(path)


def start_session(
    *, backend: str | None = None, hook: str | Hook | None = None
) -> Callable[[str], int | None]:
    """Returns a function that starts a session, which writes each phase when it is closed."""

    def start(name: str) -> int | None:
        return marey.start(name, backend=backend, hook=hook, mode="periodic_flushing")

    return start


def _end_at_exit() -> None:
    """Ends the windows that the program has left open."""
    _process_exit.begin()
    for rotation in followers(Rotation):
        if rotation.open is not None:
            try:
                rotation.end()
            except (OSError, RuntimeError) as error:
                _session.say(str(error))


atexit.register(_end_at_exit)
