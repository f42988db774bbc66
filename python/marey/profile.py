"""Sessions: starting, pausing and ending a recording."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack

from . import _native, _nvtx, _session
from ._decorator import wrap_each
from ._flags import flags, is_disabled, is_proton_disabled
from ._warning import warn
from .errors import BackendUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, overload

    from ._decorator import F
    from .hooks import Hook
    from .mode import BaseMode

DEFAULT_PROFILE_NAME = "proton"
"""Name of a profile whose session has no name; the same as in Proton."""


def start(
    name: str | os.PathLike[str] | None = None,
    *,
    context: Literal["shadow", "python"] | str = "shadow",
    data: Literal["tree", "trace", "ring"] | str = "tree",
    backend: str | None = None,
    mode: str | BaseMode | None = None,
    hook: str | Hook | None = None,
) -> int | None:
    """Starts a session and begins to record.

    Args:
        name: Path of the profile without its extension, `DEFAULT_PROFILE_NAME` if not given. In a
            job with ranks, ``.rank<n>`` is appended unless the name contains the rank. Empty or
            ``-`` writes to standard output.
        context: ``"shadow"``: a path consists of the scopes that the program has entered.
            ``"python"``: a path consists of the executing Python frames, then the scope.
        data: ``"tree"``: values are summed by path. ``"trace"``: each scope and value is also
            recorded with its time, in the run directory ``<name>.marey`` that all processes of the
            program share, and `finalize` writes a Chrome trace. ``"ring"``: a trace of which only
            the last records are kept, 10,000 unless ``MAREY_RING_RECORDS``, ``MAREY_RING_SECONDS``
            or ``MAREY_RING_BYTES`` say otherwise; `finalize` writes the run directory alone.
        backend: Source of GPU activities, for example ``"cupti"``. `None` selects the available
            backend, and records only the host if there is none.
        mode: Mode of the backend. ``"periodic_flushing[:format=F]"`` writes each phase to its own
            file when the phase is closed, and frees its memory. Phases of a trace are always
            written as Chrome traces. Other modes of Proton are accepted with a warning that lists
            what is not recorded.
        hook: ``"triton"``, or an instance of `Hook`.

    Returns:
        The number of the session. `None` under ``MAREY_DISABLE=1``, under `marey run`, which has
        already started a session, and if ``triton.knobs.proton.disable`` is set. If a session with
        this path is alive, that session is activated and its number returned.

    Raises:
        BackendUnavailable: The named backend cannot start.
        ImportError: ``hook="triton"``, and Triton is not installed.
        OSError: With ``data="trace"`` or ``"ring"``, the spool cannot be written in the run
            directory.
        ValueError: An argument has an unknown value, or a value that `data` does not allow.
        RuntimeError: 64 sessions are alive, which is the limit; or one with ``data="trace"`` is
            alive and this one has ``data="ring"``, or the other way round.
    """
    if is_proton_disabled():
        return None
    session = start_for(
        "chrome_trace", name, context=context, data=data, backend=backend, mode=mode, hook=hook
    )
    if session is not None and (lack := describe_lack(mode)):
        warn(lack)
    return session


def start_for(
    trace_format: Literal["chrome_trace", "marey"],
    name: str | os.PathLike[str] | None,
    *,
    context: str = "shadow",
    data: str,
    backend: str | None = None,
    mode: str | BaseMode | None = None,
    hook: str | Hook | None = None,
) -> int | None:
    """Like `start`, with the format of a trace if `finalize` is called without one."""
    if flags.command_line or is_disabled():
        return None
    if context not in ("shadow", "python"):
        raise ValueError(f"Unknown context source: {context}")
    if data not in ("tree", "trace", "ring"):
        raise ValueError(f"Unknown data: {data}")
    flush_format = _flush_format(mode)
    if flush_format == "chrome_trace" and data == "tree":
        raise ValueError(f'mode "{mode}" needs data="trace"')
    if flush_format is not None and data == "ring":
        raise ValueError(f'mode "{mode}" writes phases, which data="ring" does not have')
    keeps_activities = data != "tree"
    launch_hook = _as_hook(hook)
    from . import _backend

    _backend.check_backend(backend)
    live_sessions = _native.sessions()
    session = _native.start(
        DEFAULT_PROFILE_NAME if name is None else os.fspath(name),
        python_context=context == "python",
        output_format=_output_format(data, trace_format, flush_format),
        flush_phases=flush_format is not None,
        quiet_if_empty=False,
    )
    try:
        _backend.start_gpu(backend, keeps_activities=keeps_activities)
    except BackendUnavailable:
        if session not in live_sessions:
            _native.set_quiet_if_empty(session)
            _native.finalize(session)
        raise
    _nvtx.register_tool()
    if keeps_activities:
        _native.follow_settings()
        if _native.needs_sampling():
            from . import sampling  # a module that most programs never use

            sampling.follow_setting()
    # The session may be an existing one that was deactivated and has hooks.
    if manager := _session.hook_manager():
        manager.activate(session)
    if launch_hook is not None:
        from .hooks import HookManager, LaunchHook

        HookManager.register(launch_hook, session)
        if isinstance(launch_hook, LaunchHook) and _backend.may_have_other_subscriber():
            from .triton.events import FallbackTimer

            timer = FallbackTimer(keeps_activities=keeps_activities)
            HookManager.accompany(timer, session)
    return session


def describe_lack(mode: str | BaseMode | None) -> str | None:
    """Returns why a mode has no effect in this version; `None` if it has its effect.

    Raises:
        ValueError: The mode is unknown.
    """
    if mode is None:
        return None
    from . import mode as modes

    return modes.describe_lack(modes.parse(mode))


def _output_format(data: str, trace_format: str, flush_format: str | None) -> str:
    """Returns the format of `finalize` without an argument; ``"ring"`` for the run of a ring."""
    if data == "ring":
        return "ring"
    return trace_format if data == "trace" else flush_format or "hatchet"


def _flush_format(mode: str | BaseMode | None) -> str | None:
    """Returns the format in which phases are written when they close; `None` if they are not."""
    if mode is None:
        return None
    from .mode import PeriodicFlushing, parse

    parsed = parse(mode)
    return parsed.format if isinstance(parsed, PeriodicFlushing) else None


def _as_hook(hook: str | Hook | None) -> Hook | None:
    if hook is None:
        return None
    from .hooks import Hook, LaunchHook

    if isinstance(hook, Hook):
        return hook
    if hook == "triton":
        launch_hook = LaunchHook()
        launch_hook.activate()  # raises before the session starts
        return launch_hook
    raise ValueError(f"Unsupported hook: {hook!r}")


def activate(session: int | None = None) -> None:
    """Resumes recording of a session, or of all sessions if `session` is `None`.

    Raises:
        IndexError: The session does not exist.
    """
    if manager := _session.hook_manager():
        manager.activate(session)
    _native.activate(session)


def deactivate(session: int | None = None, flushing: bool = False) -> None:
    """Pauses recording of a session, or of all sessions. Recorded data is kept.

    Args:
        session: Number of the session; all sessions if `None`.
        flushing: Also write a checkpoint: the data recorded so far, to the files of the sessions.

    Raises:
        IndexError: The session does not exist.
    """
    if manager := _session.hook_manager():
        manager.deactivate(session)
        manager.settle()
    _native.deactivate(session)
    if flushing:
        _native.checkpoint()


def finalize(session: int | None = None, output_format: str | None = "") -> None:
    """Ends a session, or all sessions, and writes the profile.

    The file is ``<name>.<format>``. A session with phases writes ``<name>.part_<phase>.<format>``
    for each phase that was not cleared. A file of an earlier run is renamed, never overwritten.

    Args:
        session: Number of the session; all sessions if `None`.
        output_format: ``"hatchet"`` or ``"hatchet_msgpack"``; with ``data="trace"``
            ``"chrome_trace"``, or ``"marey"``, which writes no file beside the run directory. Empty
            for the format that the session was started with.

    Raises:
        IndexError: The session does not exist.
        ValueError: The format is unknown, or it needs ``data="trace"``.
        OSError: The file cannot be written.
    """
    _session.finish(session, output_format or "")
    if manager := _session.hook_manager():
        manager.unregister(session)


if TYPE_CHECKING:

    @overload
    def profile(func: F) -> F: ...

    @overload
    def profile(
        func: str | None = None,
        *,
        name: str | None = None,
        context: str = "shadow",
        data: str = "tree",
        backend: str | None = None,
        mode: str | BaseMode | None = None,
        hook: str | Hook | None = None,
    ) -> _Profile: ...


def profile(
    func: Callable[..., Any] | str | None = None,
    *,
    name: str | None = None,
    context: str = "shadow",
    data: str = "tree",
    backend: str | None = None,
    mode: str | BaseMode | None = None,
    hook: str | Hook | None = None,
) -> Any:
    """Profiles a function or a block.

    As a decorator, with or without arguments, it starts a session before each call of the function
    and deactivates the session after it; `finalize` writes the profile. As a context manager it
    writes the profile at the end of the block:

        @marey.profile
        def train(): ...

        with marey.profile("run"):
            ...

    Args:
        func: The function, or the name of the session.

    The other arguments and the errors raised are those of `start`.
    """
    if isinstance(func, str):
        name, func = func, None
    options = {"context": context, "data": data, "backend": backend, "mode": mode, "hook": hook}
    manager = _Profile(name, options)
    return manager if func is None else manager(func)


class _Profile:
    """The result of `profile`: a decorator and a context manager."""

    def __init__(self, name: str | None, options: dict[str, Any]) -> None:
        self._name = name
        self._options = options
        self._sessions: list[int | None] = []

    def __call__(self, func: F) -> F:
        return wrap_each(self._start_until_end, func)

    def _start_until_end(self) -> ExitStack:
        """Starts a session, which the end of the returned block deactivates."""
        block = ExitStack()
        block.callback(_pause, self._start())
        return block

    def __enter__(self) -> _Profile:
        self._sessions.append(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        session = self._sessions.pop()
        if session is not None:
            finalize(session)

    def _start(self) -> int | None:
        return start(self._name, **self._options)


def _pause(session: int | None) -> None:
    """Deactivates a session, unless the decorated function has finalized it."""
    if session is not None and session in _native.sessions():
        deactivate(session)
