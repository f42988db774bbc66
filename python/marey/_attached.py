"""Recording in a process that `marey attach` has reached, until `marey detach` ends it.

Both functions run on a thread of their own in the middle of any program, which must not notice.
They print nothing, and return what the command prints. The first string of an answer is its kind:
``recording`` and ``ended`` are followed by paths, ``refused`` by the reason.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from typing import NamedTuple

from marey import _native, _session
from marey._flags import is_disabled
from marey._names import ENV_DISABLE
from marey.profile import start_for


class _Recording(NamedTuple):
    session: int
    path: str
    """Path of the profile without its extension."""
    data: str
    hooks_torch: bool


_lock = allocate_lock()
_recording: _Recording | None = None


def _begin_child() -> None:
    """Replaces the lock in the child of a fork, where the thread that had it does not exist."""
    global _lock
    _lock = allocate_lock()


os.register_at_fork(after_in_child=_begin_child)


def attach(
    *, output: str | None, data: str, context: str, operators: bool, memory: bool
) -> list[str]:
    """Starts a session, with PyTorch's hooks if the process has imported PyTorch.

    Args:
        output: Path of the profile without its extension; by default ``process-PID`` in the working
            directory of the process.
        data: ``"trace"`` or ``"tree"``, as in `marey.start`.
        context: ``"shadow"`` or ``"python"``, as in `marey.start`.
        operators: Whether to record PyTorch's operators, as in `marey.torch.enable`.
        memory: Whether to record memory, as in `marey.torch.enable`.

    Returns:
        ``recording``, the absolute path that is written, and ``torch`` if PyTorch's hooks are
        installed; or ``refused`` with the reason.

    Raises:
        OSError: The files cannot be written.
    """
    global _recording
    if is_disabled():
        return ["refused", f"{ENV_DISABLE} is set in its environment"]
    with _lock:
        live = _native.sessions()
        if live:
            return ["refused", _recorded_into(live)]
        path = os.path.abspath(output or f"process-{os.getpid()}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Notes and the collection of the run are for the command, not for this process's stderr.
        _session.leave_end_to_parent()
        session = start_for("marey", path, context=context, data=data)
        if session is None:
            return ["refused", "`marey run` records it"]
        hooks_torch = "torch" in sys.modules
        if hooks_torch:
            try:
                from marey import torch

                torch.enable(operators=operators, memory=memory)
            except BaseException:
                _native.set_quiet_if_empty(session)
                _native.finalize(session)
                raise
        _recording = _Recording(session, path, data, hooks_torch)
        return ["recording", _output(_recording), *(["torch"] if hooks_torch else [])]


def detach() -> list[str]:
    """Ends the session of `attach`, and removes PyTorch's hooks.

    Returns:
        ``ended`` and the absolute paths of the files; or ``refused`` with the reason.

    Raises:
        OSError: The files cannot be written.
    """
    global _recording
    with _lock:
        recording = _recording
        live = _native.sessions()
        if recording is None:
            reason = f"`marey attach` did not start it: {_recorded_into(live)}" if live else ""
            return ["refused", reason or "it is not recorded"]
        if recording.hooks_torch:
            from marey import torch

            torch.disable()
        if recording.session not in live:
            _recording = None
            return ["refused", "the program itself has ended the recording"]
        output = _output(recording)
        earlier = len(_session.written)
        _session.finish(recording.session, "")  # if it raises, `detach` can be called again
        _recording = None
        _native.end_idle_threads()
        return ["ended", *dict.fromkeys([*_session.written[earlier:], output])]


def _output(recording: _Recording) -> str:
    """Returns the path that a session writes."""
    return _native.run_dir(recording.session) or f"{recording.path}.hatchet"


def _recorded_into(sessions: list[int]) -> str:
    runs = dict.fromkeys(filter(None, map(_native.run_dir, sessions)))
    if runs:
        return f"it is recorded already, into {', '.join(runs)}"
    return "it is recorded already, into a profile"
