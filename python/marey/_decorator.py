"""Use of context managers as decorators of functions and coroutine functions."""

from __future__ import annotations

import functools
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

CO_COROUTINE = 0x80  # inspect.CO_COROUTINE


def is_coroutine_function(func: Callable[..., Any]) -> bool:
    """Whether a call of `func` returns a coroutine.

    `inspect` is slow to import, and code that marks a function as a coroutine function has imported
    it. So without `inspect` the flag of the code object suffices.
    """
    inspect = sys.modules.get("inspect")
    if inspect is None:
        code = getattr(getattr(func, "__func__", func), "__code__", None)
        return code is not None and bool(code.co_flags & CO_COROUTINE)
    return bool(inspect.iscoroutinefunction(func))


def wrap(manager: AbstractContextManager[Any], func: F) -> F:
    """Runs each call of `func` inside `manager`, which all calls share.

    `marey.scope` calls it from Rust.
    """
    return wrap_each(lambda: manager, func)


def wrap_each(make_manager: Callable[[], AbstractContextManager[Any]], func: F) -> F:
    """Runs each call of `func` inside the context manager that `make_manager` returns for it."""
    if is_coroutine_function(func):

        @functools.wraps(func)
        async def wrapped_coroutine(*args: Any, **kwargs: Any) -> Any:
            with make_manager():
                return await func(*args, **kwargs)

        return wrapped_coroutine  # type: ignore[return-value]

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with make_manager():
            return func(*args, **kwargs)

    return wrapped  # type: ignore[return-value]
