"""Scopes: named regions of a program."""

from __future__ import annotations

import time
from collections.abc import Sequence

from . import _native
from ._decorator import wrap_each
from ._native import scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._decorator import F

__all__ = ["MetricValue", "cpu_timed_scope", "enter_scope", "exit_scope", "scope"]

MetricValue = int | float | str | Sequence[int] | Sequence[float]
"""A user metric: a number, a vector of numbers, or a string. A string is always a property."""

_CPU_TIME = "cpu_time"


class cpu_timed_scope:
    """A scope that adds its elapsed time as the exclusive metric ``cpu_time (ns)``.

    Args:
        name: Name of the scope.
        metrics: Values to add on entry, see `scope`.

    Raises:
        ValueError: `metrics` contains ``cpu_time``, which is reserved.
    """

    def __init__(self, name: str, metrics: dict[str, Any] | None = None) -> None:
        if any(key.partition("(")[0].strip() == _CPU_TIME for key in metrics or ()):
            raise ValueError(f"The metric name {_CPU_TIME!r} is reserved.")
        self.name = name
        self.metrics = metrics
        self._scope = scope(name, metrics)
        self._starts: list[int] = []

    def __enter__(self) -> cpu_timed_scope:
        self._scope.__enter__()
        self._starts.append(time.perf_counter_ns())
        return self

    def __exit__(self, *exception: Any) -> None:
        elapsed_nanos = time.perf_counter_ns() - self._starts.pop()
        try:
            _native.add_metrics({f"{_CPU_TIME} (ns)(exc)": elapsed_nanos})
        finally:
            self._scope.__exit__(*exception)

    def __call__(self, func: F) -> F:
        # Each call gets its own scope, because calls may overlap on threads and tasks.
        return wrap_each(lambda: cpu_timed_scope(self.name, self.metrics), func)


def enter_scope(
    name: str, metrics: dict[str, Any] | None = None, *, triton_op: bool = False
) -> int | None:
    """Enters a scope. The same thread or task must leave it with `exit_scope`.

    Args:
        name: Name of the scope.
        metrics: Values to add on entry, see `scope`.
        triton_op: Enter an operator instead, such as a kernel launch. Operators inside an operator
            are not recorded.

    Returns:
        An id of this entry, or `None` if no session records.

    Raises:
        TypeError: The name is not a `str`, or a value is not a number.
        ValueError: A metric changes its type. The scope is then not entered.
    """
    scope_id = _native.enter_op(name) if triton_op else _native.enter_scope(name)
    if metrics and scope_id is not None:
        try:
            _native.add_metrics(metrics)
        except BaseException:
            _exit_innermost(triton_op)
            raise
    return scope_id


def exit_scope(
    name: str | bool | None = None,
    *,
    triton_op: bool = False,
    metrics: dict[str, Any] | None = None,
) -> int | None:
    """Leaves the innermost scope.

    Args:
        name: Name that the scope must have, if given.
        triton_op: The value that `enter_scope` was called with. A `bool` as the first argument is
            taken as `triton_op`.
        metrics: Values to add before the scope is left.

    Returns:
        The id that `enter_scope` returned, or `None` if no session records.

    Raises:
        RuntimeError: This thread or task has no open scope.
        TypeError: A value is not a number.
        ValueError: The innermost scope has another name and stays open, or a metric changes its
            type.
    """
    if not _native.is_recording():
        return None
    if isinstance(name, bool):
        triton_op, name = name, None
    if name is not None or metrics:
        innermost = _native.innermost_name()
        if innermost is None:
            raise _nothing_to_exit()
        if name is not None and name != innermost:
            raise ValueError(f"Scope name mismatch: {name} != {innermost}")
    try:
        if metrics:
            _native.add_metrics(metrics)
    finally:
        scope_id = _exit_innermost(triton_op)
    if scope_id is None and not triton_op:
        raise _nothing_to_exit()
    return scope_id


def _nothing_to_exit() -> RuntimeError:
    return RuntimeError("Context stack is not balanced: this thread has no scope to exit")


def _exit_innermost(triton_op: bool) -> int | None:
    return _native.exit_op() if triton_op else _native.exit_scope()
