"""The context that events are recorded in."""

from __future__ import annotations

from . import _native

__all__ = ["depth"]


def depth(session: int | None = 0) -> int | None:
    """How deep this thread is.

    Args:
        session: The session as which to look.

    Returns:
        The number of open scopes that the session saw entered, or, for a session with
        ``context="python"``, of Python frames, this function's included. `None` when nothing is
        recorded.

    Raises:
        IndexError: There is no such session.
    """
    return None if session is None else _native.depth(session)
