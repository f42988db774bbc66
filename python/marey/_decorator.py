"""Context managers as decorators of functions, coroutine functions included."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def wrap(manager: AbstractContextManager[Any], func: F) -> F:
    """Runs each call of `func` inside `manager`, which any number of calls may share."""
    return wrap_each(lambda: manager, func)


def wrap_each(make: Callable[[], AbstractContextManager[Any]], func: F) -> F:
    """Runs each call of `func` inside the context manager that `make` returns for it."""
    if inspect.iscoroutinefunction(func):

        @functools.wraps(func)
        async def wrapped_coroutine(*args: Any, **kwargs: Any) -> Any:
            with make():
                return await func(*args, **kwargs)

        return cast(F, wrapped_coroutine)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return cast(F, wrapped)
