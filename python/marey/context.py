"""The position of a thread in the context tree."""

from __future__ import annotations

from . import _native

__all__ = ["depth"]


def depth(session: int | None = 0) -> int | None:
    """Returns the depth of this thread in the context tree of a session.

    Args:
        session: Number of the session.

    Returns:
        The number of open scopes that were entered while the session recorded. For a session with
        ``context="python"``, the number of Python frames, the frame of this function included.
        `None` if nothing is recorded.

    Raises:
        IndexError: The session does not exist.
    """
    return None if session is None else _native.depth(session)
