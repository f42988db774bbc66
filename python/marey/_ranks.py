"""The rank of this process in a job, and names of files with it."""

from __future__ import annotations

import os
import re

from ._names import RANK_VARS

_SIZE_VARS = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""The variables with the number of ranks, in the order of `RANK_VARS`."""


def rank() -> int | None:
    """Returns the rank of this process, from the environment; `None` outside of a job."""
    for name in RANK_VARS:
        if (text := os.environ.get(name, "").strip()).isdecimal():
            return int(text)
    return None


def is_only_rank() -> bool:
    """Returns whether the launcher that gave this process a rank says that there is one alone."""
    for rank_name, size_name in zip(RANK_VARS, _SIZE_VARS, strict=True):
        if os.environ.get(rank_name, "").strip().isdecimal():
            return os.environ.get(size_name, "").strip() == "1"
    return False


def with_rank(path: str, suffix: str = "") -> str:
    """Returns `path + suffix` with the rank between, as the recorder puts it.

    Without the rank if the name has it already, or outside of a job.
    """
    number = rank()
    name = os.path.basename(path + suffix).lower()
    if number is None or re.search(rf"rank[_\-.=]*0*{number}(?!\d)", name):
        return path + suffix
    return f"{path}.rank{number}{suffix}"
