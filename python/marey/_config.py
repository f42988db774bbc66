"""The defaults of `marey run` in a project: the table `[tool.marey]` of its `pyproject.toml`."""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from marey._run_options import Arguments

FILE = "pyproject.toml"


class InvalidConfig(Exception):
    """A table that `marey run` cannot use. The message has the file, the key and the remedy."""


def set_defaults(parser: argparse.ArgumentParser, folder: str, arguments: Arguments) -> None:
    """Sets defaults of arguments from the nearest `pyproject.toml` at or above `folder`.

    A key is the long name of an option. A switch takes a boolean: ``operators = true``,
    ``torch = false`` for ``--no-torch``.

    Raises:
        InvalidConfig: The file is not valid TOML, or a key or value is unknown.
    """
    path = nearest(folder)
    if path is None:
        return
    table = _table(path)
    options = {action.dest: action for action in parser._actions if action.dest in _KEYS}
    for key, value in table.items():
        setattr(arguments, key, _checked(path, options, key, value))


_KEYS = (
    "backend",
    "context",
    "data",
    "hook",
    "mode",
    "operators",
    "performance_events",
    "torch",
    "children",
    "shapes",
    "window",
    "keep",
    "alert",
    "overhead",
    "overhead_target",
    "memory",
)
"""Options that a project may set; the others belong to one run."""


def nearest(folder: str) -> str | None:
    """Returns the path of the nearest file with a table for marey."""
    while True:
        path = os.path.join(folder, FILE)
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if "[tool.marey" in _read(path):
                return path
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _table(path: str) -> dict[str, Any]:
    try:
        toml = importlib.import_module("tomllib")
    except ModuleNotFoundError:  # before Python 3.11
        try:
            toml = importlib.import_module("tomli")
        except ModuleNotFoundError:
            raise InvalidConfig(
                f"{path} has a table [tool.marey], which this Python cannot read; "
                "pip install tomli, or use Python 3.11 or later"
            ) from None
    try:
        document: dict[str, Any] = toml.loads(_read(path))
    except toml.TOMLDecodeError as error:
        raise InvalidConfig(f"{path} is not valid TOML: {error}") from None
    table = document.get("tool", {}).get("marey", {})
    if not isinstance(table, dict):
        raise InvalidConfig(f"{path}: tool.marey must be a table")
    return table


def _checked(path: str, options: dict[str, argparse.Action], key: str, value: object) -> object:
    place = f"{path}: tool.marey.{key}"
    option = options.get(key)
    if option is None:
        import difflib  # imports modules that a profiled program need not have

        nearest = difflib.get_close_matches(key, options, n=1)
        remedy = f"; did you mean {nearest[0]}?" if nearest else f"; known: {', '.join(options)}"
        raise InvalidConfig(f"{place} is unknown{remedy}")
    kind = bool if option.nargs == 0 else str
    if not isinstance(value, kind):
        raise InvalidConfig(f"{place} must be {'true or false' if kind is bool else 'a text'}")
    if option.choices is not None and value not in option.choices:
        raise InvalidConfig(f"{place} must be one of {', '.join(map(str, option.choices))}")
    if not callable(option.type):
        return value
    import argparse

    try:
        return option.type(str(value))
    except argparse.ArgumentTypeError as error:
        raise InvalidConfig(f"{place}: {error}") from None
