"""The hook for kernels that time themselves, which this version of marey cannot have do so."""

from __future__ import annotations

from typing import Any

from marey import mode as modes
from marey._warning import warn

from .hook import Hook

__all__ = ["InstrumentationHook"]


class InstrumentationHook(Hook):
    """Checks the settings of instrumented kernels, and warns that kernels are left as they are.

    Programs that register Proton's hook of this name run on; their kernels are recorded whole.

    Args:
        mode_obj: `marey.mode.Default`, `marey.mode.MMA`, or the same as a text.

    Raises:
        ValueError: The mode is none of the two, or a setting means nothing.
    """

    def __init__(self, mode_obj: str | modes.InstrumentationMode | None = None) -> None:
        parsed = modes.parse(mode_obj or "default")
        if not isinstance(parsed, modes.InstrumentationMode):
            raise ValueError(f"Unknown mode: {mode_obj}")
        self.mode = parsed

    def activate(self) -> None:
        """Warns, once a place in the program, as Python does."""
        if lack := modes.describe_lack(self.mode):
            warn(lack)

    def deactivate(self) -> None:
        """Nothing is to be undone."""

    def enter(self, metadata: Any) -> None:
        """Nothing is to be done."""

    def exit(self, metadata: Any) -> None:
        """Nothing is to be done."""
