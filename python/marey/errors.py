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
