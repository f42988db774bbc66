"""Switches of this process."""

from __future__ import annotations


class Flags:
    """What holds for the whole process."""

    command_line = False
    """Whether `marey run` has started the session; the program's own `start` is then ignored."""


flags = Flags()
