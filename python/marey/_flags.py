"""Switches of the process."""

from __future__ import annotations

import os
import sys

from ._names import ENV_DISABLE


class Flags:
    """State of the whole process."""

    command_line = False
    """Whether `marey run` has started the session. `start` in the program is then ignored."""


flags = Flags()


def is_disabled() -> bool:
    """Whether ``MAREY_DISABLE`` disables marey."""
    return os.environ.get(ENV_DISABLE, "") not in ("", "0")


def is_proton_disabled() -> bool:
    """Whether Triton disables Proton: by its knob, or by the variable that the knob reads."""
    proton = getattr(sys.modules.get("triton.knobs"), "proton", None)
    if proton is not None:
        return bool(getattr(proton, "disable", False))
    return os.environ.get("TRITON_PROTON_DISABLE", "").lower() in ("1", "true", "yes", "on", "y")
