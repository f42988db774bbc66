"""Sessions: starting, pausing and ending a recording."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from . import _native, _nvtx, _session
from ._decorator import is_coroutine_function
from ._flags import flags, is_disabled, is_proton_disabled
from ._warning import warn
from .errors import BackendUnavailable

if TYPE_CHECKING:
    from .hooks import Hook
    from .mode import BaseMode

DEFAULT_PROFILE_NAME = "proton"
"""Name of a profile whose session was given none. It is Proton's, whose drop-in this is."""

F = TypeVar("F", bound=Callable[..., Any])


def start(
    name: str | os.PathLike[str] | None = None,
    *,
    context: Literal["shadow", "python"] | str = "shadow",
    data: Literal["tree", "trace"] | str = "tree",
    backend: str | None = None,
    mode: str | BaseMode | None = None,
    hook: str | Hook | None = None,
) -> int | None:
    """Starts a session, which records at once.

    Args:
        name: Path of the profile without its extension, `DEFAULT_PROFILE_NAME` if not given. In a
            job with ranks, ``.rank<n>`` is added unless the name tells the rank. Empty or ``-``
            writes to standard output.
        context: ``"shadow"``: paths are the scopes that the program enters. ``"python"``: paths are
            the Python frames that are executing, then the scope.
        data: ``"tree"``: values are added up by path. ``"trace"``: each scope and value is kept as
            well, in the run directory ``<name>.marey`` that all processes of the program share,
            and `finalize` writes Chrome's trace events.
        backend: Source of GPU activity. `None` takes what is there, and records the host side where
            there is nothing.
        mode: Mode of the backend; ``"periodic_flushing[:format=F]"`` writes every phase to a file
            of its own as soon as it is closed, and frees it. Phases of a trace are always Chrome
            traces. Proton's other modes are accepted with a warning that says what is not
            recorded.
        hook: ``"triton"``, or a `Hook` of your own.

    Returns:
        The session's number, or `None` under ``MAREY_DISABLE=1``, under `marey run`, which has
        started one already, and where ``triton.knobs.proton.disable`` is set. If a session with
        this path is alive, that one is activated and returned.

    Raises:
        BackendUnavailable: The backend was named and cannot start.
        ImportError: ``hook="triton"`` without Triton.
        OSError: With ``data="trace"``, the spool cannot be written in the run directory.
        ValueError: A word means nothing, or does not go with this kind of data.
        RuntimeError: 64 sessions are alive.
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
    context: str,
    data: str,
    backend: str | None,
    mode: str | BaseMode | None,
    hook: str | Hook | None,
) -> int | None:
    """As `start`, with the format in which a trace is written where `finalize` names none."""
    if flags.command_line or is_disabled():
        return None
    if context not in ("shadow", "python"):
        raise ValueError(f"Unknown context source: {context}")
    if data not in ("tree", "trace"):
        raise ValueError(f"Unknown data: {data}")
    flushing = _flushing(mode)
    if flushing == "chrome_trace" and data == "tree":
        raise ValueError(f'mode "{mode}" needs data="trace"')
    launch_hook = _as_hook(hook)
    from . import _backend

    _backend.check(backend)
    alive = _native.sessions()
    session = _native.start(
        DEFAULT_PROFILE_NAME if name is None else os.fspath(name),
        python_context=context == "python",
        output_format=trace_format if data == "trace" else flushing or "hatchet",
        flush_phases=flushing is not None,
        quiet_if_empty=False,
    )
    try:
        _backend.begin(backend, keeps_activities=data == "trace")
    except BackendUnavailable:
        if session not in alive:
            _native.set_quiet_if_empty(session)
            _native.finalize(session)
        raise
    _nvtx.listen()
    # The session may be one that was deactivated, with hooks of its own.
    if manager := _session.hook_manager():
        manager.activate(session)
    if launch_hook is not None:
        from .hooks import HookManager, LaunchHook

        HookManager.register(launch_hook, session)
        if isinstance(launch_hook, LaunchHook) and _backend.may_be_held_by_other():
            from .triton.events import TimerWhereHeld

            timer = TimerWhereHeld(keeps_activities=data == "trace")
            HookManager.accompany(timer, session)
    return session


def describe_lack(mode: str | BaseMode | None) -> str | None:
    """Returns why a mode adds nothing to what is recorded; `None` if it does what it says.

    Raises:
        ValueError: There is no such mode.
    """
    if mode is None:
        return None
    from . import mode as modes

    return modes.describe_lack(modes.parse(mode))


def _flushing(mode: str | BaseMode | None) -> str | None:
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
    """Lets a session (`None`: every one) record.

    Raises:
        IndexError: There is no such session.
    """
    if manager := _session.hook_manager():
        manager.activate(session)
    _native.activate(session)


def deactivate(session: int | None = None, flushing: bool = False) -> None:
    """Stops a session (`None`: every one) from recording. What it has recorded stays.

    Args:
        flushing: Also write what is there to the session's file.

    Raises:
        IndexError: There is no such session.
    """
    if manager := _session.hook_manager():
        manager.deactivate(session)
        manager.settle()
    _native.deactivate(session)
    if flushing:
        _native.checkpoint()


def finalize(session: int | None = None, output_format: str | None = "") -> None:
    """Ends a session (`None`: every one) and writes its profile.

    The file is ``<name>.<format>``; with phases, ``<name>.part_<phase>.<format>`` for each that was
    not cleared. The file of an earlier run is moved aside, never overwritten.

    Args:
        output_format: ``"hatchet"``, ``"hatchet_msgpack"`` or, with ``data="trace"``,
            ``"chrome_trace"`` or ``"marey"``, which leaves it at the run directory; empty for the
            session's own.

    Raises:
        IndexError: There is no such session.
        ValueError: There is no such format, or it needs ``data="trace"``.
        OSError: The file cannot be written.
    """
    _session.finish(session, output_format or "")
    if manager := _session.hook_manager():
        manager.unregister(session)


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

    As a decorator, plain or called, it starts a session around each call and deactivates it after;
    `finalize` writes the profile. As a context manager it writes the profile at the end:

        @marey.profile
        def train(): ...

        with marey.profile("run"):
            ...

    Args:
        func: The function, or the session's name.

    For the others, and for what is raised, see `start`.
    """
    if isinstance(func, str):
        name, func = func, None
    options = {"context": context, "data": data, "backend": backend, "mode": mode, "hook": hook}
    manager = _Profile(name, options)
    return manager if func is None else manager(func)


class _Profile:
    """What `profile` returns: a decorator and a context manager."""

    def __init__(self, name: str | None, options: dict[str, Any]) -> None:
        self._name = name
        self._options = options
        self._sessions: list[int | None] = []

    def __call__(self, func: F) -> F:
        if is_coroutine_function(func):

            @functools.wraps(func)
            async def profiled_coroutine(*args: Any, **kwargs: Any) -> Any:
                session = self._start()
                try:
                    return await func(*args, **kwargs)
                finally:
                    _pause(session)

            return cast(F, profiled_coroutine)

        @functools.wraps(func)
        def profiled(*args: Any, **kwargs: Any) -> Any:
            session = self._start()
            try:
                return func(*args, **kwargs)
            finally:
                _pause(session)

        return cast(F, profiled)

    def __enter__(self) -> _Profile:
        self._sessions.append(self._start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        session = self._sessions.pop()
        if session is not None:
            finalize(session)

    def _start(self) -> int | None:
        return start(self._name, **self._options)


def _pause(session: int | None) -> None:
    """Deactivates what `start` gave, unless the function has finalized it itself."""
    if session is not None and session in _native.sessions():
        deactivate(session)
