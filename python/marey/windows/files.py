"""Names of the files of windows."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator

from marey._ranks import with_rank

__all__ = ["make_way", "place", "prefix_with_rank", "write_new"]


def prefix_with_rank(folder: str | os.PathLike[str], prefix: str) -> str:
    """Returns the absolute path of a prefix of names; in a job, ranks do not share names."""
    return with_rank(os.path.join(os.path.abspath(os.fspath(folder)), prefix))


def place(source: str, path: str) -> str:
    """Renames a file, never over another one, and returns the new path: `path`, or ``a_2.hatchet``.

    Raises:
        OSError: The file cannot be renamed.
    """
    for candidate in _numbered(path):
        try:
            os.link(source, candidate)
        except FileExistsError:
            continue
        except FileNotFoundError:
            raise
        except OSError:  # the file system has no links
            if os.path.lexists(candidate):
                continue
            os.rename(source, candidate)
            return candidate
        os.unlink(source)
        return candidate
    raise AssertionError("there is always another number")


def write_new(path: str, text: str) -> str:
    """Writes a file, never over another one, and returns its path: `path`, or ``a_2.json``.

    Raises:
        OSError: The file cannot be written. No part of it is left.
    """
    for candidate in _numbered(path):
        try:
            with open(candidate, "x", encoding="utf-8") as file, _removed_if_cut(candidate):
                file.write(text)
                file.flush()
        except FileExistsError:
            continue
        return candidate
    raise AssertionError("there is always another number")


@contextlib.contextmanager
def _removed_if_cut(path: str) -> Iterator[None]:
    try:
        yield
    except OSError:
        os.unlink(path)
        raise


def _numbered(path: str) -> Iterator[str]:
    stem, suffix = os.path.splitext(path)
    yield path
    for number in itertools.count(2):
        yield f"{stem}_{number}{suffix}"


def make_way(path: str) -> None:
    """Renames a file of an earlier program, if there is one with this name: ``a.1.hatchet``.

    Raises:
        OSError: The file cannot be renamed.
    """
    if not os.path.lexists(path):
        return
    stem, suffix = os.path.splitext(path)
    number = 1
    while os.path.lexists(earlier := f"{stem}.{number}{suffix}"):
        number += 1
    os.rename(path, earlier)
