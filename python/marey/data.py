"""A session's data while it is alive, and its phases.

A session begins in phase 0. `advance_phase` closes a phase and opens the next; a closed phase
receives nothing more, can be read and cleared, and goes to a file of its own at the end. With
``mode="periodic_flushing"`` it goes to its file at once, and has no data afterwards.
"""

from __future__ import annotations

from typing import Any

from . import _native, _session

__all__ = ["advance_phase", "clear", "get", "get_msgpack", "is_phase_complete"]


def get(session: int | None = 0, phase: int = 0) -> list[dict[str, Any]] | None:
    """The profile of a phase, as the ``.hatchet`` file would hold it.

    Returns:
        ``[root, devices]``, or `None` if the session is `None`.

    Raises:
        IndexError: There is no such session, or the phase has no data.
        RuntimeError: The session has ``data="trace"``.
    """
    if session is None:
        return None
    import json

    _session.settle()
    document: list[dict[str, Any]] = json.loads(_native.get_data(session, phase, "hatchet"))
    return document


def get_msgpack(session: int | None = 0, phase: int = 0) -> bytes | None:
    """The same, encoded with MessagePack; raises as `get` does."""
    if session is None:
        return None
    _session.settle()
    return _native.get_data(session, phase, "hatchet_msgpack")


def advance_phase(session: int | None = 0) -> int | None:
    """Closes the session's phase and opens the next.

    Returns:
        The number of the next phase, or `None` if the session is `None`.

    Raises:
        IndexError: There is no such session.
        OSError: With ``mode="periodic_flushing"``, the phase's file cannot be written.
    """
    if session is None:
        return None
    _session.settle()
    return _native.advance_phase(session)


def is_phase_complete(session: int | None = 0, phase: int = 0) -> bool:
    """Whether a phase will receive nothing more; `False` if the session is `None`.

    Raises:
        IndexError: There is no such session.
    """
    return False if session is None else _native.is_phase_complete(session, phase)


def clear(session: int | None = 0, phase: int = 0, clear_up_to_phase: bool = False) -> None:
    """Drops the data of a phase, or of every phase up to it. An open phase begins anew.

    Raises:
        IndexError: There is no such session.
    """
    if session is not None:
        _session.settle()
        _native.clear(session, phase, clear_up_to_phase)
