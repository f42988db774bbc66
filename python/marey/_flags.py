"""Switches of this process."""

from __future__ import annotations

import os

from ._names import ENV_DISABLE


class Flags:
    """What holds for the whole process."""

    command_line = False
    """Whether `marey run` has started the session; the program's own `start` is then ignored."""


flags = Flags()


def is_disabled() -> bool:
    """Whether ``MAREY_DISABLE`` turns marey off."""
    return os.environ.get(ENV_DISABLE, "") not in ("", "0")
