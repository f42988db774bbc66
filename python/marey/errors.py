"""What marey raises that Python has no word for."""

from __future__ import annotations


class MareyError(Exception):
    """Base of marey's own exceptions."""


class BackendUnavailable(MareyError, RuntimeError):
    """A GPU backend was asked for and cannot start.

    Attributes:
        step: What was tried when it failed, for example ``"load libcuda.so.1"``.
        code: The number that the failing call returned, or `None` where there was no call.
        hint: What to do about it.
    """

    def __init__(self, backend: str, step: str, code: int | None, hint: str) -> None:
        failed = step if code is None else f"{step} (code {code})"
        super().__init__(f"backend {backend!r} is not available: {failed}")
        self.backend = backend
        self.step = step
        self.code = code
        self.hint = hint


class UnreadableProfile(MareyError, ValueError):
    """A file is no whole, sound profile. The text names it, the place in it and the reason."""


class UnknownMetric(MareyError, RuntimeError):
    """A profile has no metric of this name, and none that it could be derived from."""


class EmptyFilter(MareyError, ValueError):
    """A filter leaves nothing of a profile; the text says what no node meets."""


class UnreadableRun(MareyError, ValueError):
    """A folder or file is no whole, sound run. The text names it and the reason."""


class CannotExport(MareyError, ValueError):
    """A run cannot be written as files of a format; the text says why, and what helps."""


class QueryError(MareyError, ValueError):
    """A query cannot be answered; the text says why, and what to ask instead if that is known."""
