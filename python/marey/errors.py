"""The exceptions of marey. Each also derives from the closest builtin exception."""

from __future__ import annotations


class MareyError(Exception):
    """Base class of marey's own exceptions."""


class BackendUnavailable(MareyError, RuntimeError):
    """A GPU backend that was named cannot start.

    Attributes:
        backend: Name of the backend.
        step: The step that failed, for example ``"load libcuda.so.1"``.
        code: The error code that the failing call returned, or `None` if no call was made.
        hint: How to mend it.
    """

    def __init__(self, backend: str, step: str, code: int | None, hint: str) -> None:
        failed = step if code is None else f"{step} (code {code})"
        super().__init__(f"backend {backend!r} is not available: {failed}")
        self.backend = backend
        self.step = step
        self.code = code
        self.hint = hint


class UnreadableProfile(MareyError, ValueError):
    """A file is not a complete, valid profile. The message has path, position and reason."""


class UnknownMetric(MareyError, RuntimeError):
    """A profile neither has a metric of this name nor the metrics to derive it from."""


class EmptyFilter(MareyError, ValueError):
    """No node of a profile passes a filter. The message has the condition that no node meets."""


class UnreadableRun(MareyError, ValueError):
    """A folder or file is not a complete, valid run. The message has the path and the reason."""


class CannotExport(MareyError, ValueError):
    """A run cannot be exported to a format. The message has the reason and a remedy."""


class QueryError(MareyError, ValueError):
    """A query failed. The message has the reason and, if known, a query that works."""
