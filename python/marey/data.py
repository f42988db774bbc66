"""The data and the phases of a session that has not been finalized.

A session begins in phase 0. `advance_phase` closes the current phase and opens the next. A closed
phase no longer changes, can be read and cleared, and is written to its own file by `finalize`. With
``mode="periodic_flushing"`` each phase is written when it is closed, and its data is then freed.
"""

from __future__ import annotations

from . import _native, _session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["advance_phase", "clear", "get", "get_msgpack", "is_phase_complete"]


def get(session: int | None = 0, phase: int = 0) -> list[dict[str, Any]] | None:
    """Returns the profile of a phase in the structure of a ``.hatchet`` file.

    Returns:
        ``[root, devices]``: the root node and the devices, both as dicts; `None` if `session` is
        `None`.

    Raises:
        IndexError: The session does not exist, or the phase has no data.
        RuntimeError: The session records with ``data="trace"``.
    """
    if session is None:
        return None
    import json

    _session.settle()
    document: list[dict[str, Any]] = json.loads(_native.get_data(session, phase, "hatchet"))
    return document


def get_msgpack(session: int | None = 0, phase: int = 0) -> bytes | None:
    """Returns the profile of a phase encoded with MessagePack. Raises the same errors as `get`."""
    if session is None:
        return None
    _session.settle()
    return _native.get_data(session, phase, "hatchet_msgpack")


def advance_phase(session: int | None = 0) -> int | None:
    """Closes the current phase of a session and opens the next.

    Returns:
        The number of the new phase, or `None` if `session` is `None`.

    Raises:
        IndexError: The session does not exist.
        OSError: With ``mode="periodic_flushing"``, the file of the phase cannot be written.
    """
    if session is None:
        return None
    _session.settle()
    return _native.advance_phase(session)


def is_phase_complete(session: int | None = 0, phase: int = 0) -> bool:
    """Whether a phase is closed and complete; `False` if `session` is `None`.

    Raises:
        IndexError: The session does not exist.
    """
    return False if session is None else _native.is_phase_complete(session, phase)


def clear(session: int | None = 0, phase: int = 0, clear_up_to_phase: bool = False) -> None:
    """Drops the data of a phase. An open phase starts again, empty.

    Args:
        session: Number of the session; nothing happens if `None`.
        phase: Number of the phase.
        clear_up_to_phase: Drop the data of all earlier phases too.

    Raises:
        IndexError: The session does not exist.
    """
    if session is not None:
        _session.settle()
        _native.clear(session, phase, clear_up_to_phase)
