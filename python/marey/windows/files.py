"""Names of the files of windows."""

from __future__ import annotations

import os
import re

from marey._names import RANK_VARS

__all__ = ["make_way", "prefix_with_rank", "rank", "with_rank"]


def rank() -> int | None:
    """Returns the rank of this process in a job, from the environment; `None` outside of one."""
    for name in RANK_VARS:
        if (text := os.environ.get(name, "").strip()).isdecimal():
            return int(text)
    return None


def prefix_with_rank(folder: str | os.PathLike[str], prefix: str) -> str:
    """Returns the absolute path of a prefix of names; in a job, ranks do not share names."""
    return with_rank(os.path.join(os.path.abspath(os.fspath(folder)), prefix))


def with_rank(path: str) -> str:
    """Returns a path with the rank, as the recorder appends it: unless its name has it already."""
    number = rank()
    name = os.path.basename(path).lower()
    if number is None or re.search(rf"rank[_\-.=]*0*{number}(?!\d)", name):
        return path
    return f"{path}.rank{number}"


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
