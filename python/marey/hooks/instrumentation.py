"""The hook of instrumented kernels, which this version of marey accepts and ignores."""

from __future__ import annotations

from typing import Any

from marey import mode as modes
from marey._warning import warn

from .hook import Hook

__all__ = ["InstrumentationHook"]


class InstrumentationHook(Hook):
    """Validates the settings of instrumented kernels, and warns that kernels are not instrumented.

    Programs that register Proton's hook of this name keep working. Their kernels are recorded as
    without the hook.

    Args:
        mode_obj: `marey.mode.Default`, `marey.mode.MMA`, or one of them as a string.

    Raises:
        ValueError: The mode is neither of the two, or a setting is invalid.
    """

    def __init__(self, mode_obj: str | modes.InstrumentationMode | None = None) -> None:
        parsed = modes.parse(mode_obj or "default")
        if not isinstance(parsed, modes.InstrumentationMode):
            raise ValueError(f"Unknown mode: {mode_obj}")
        self.mode = parsed

    def activate(self) -> None:
        """Warns; Python shows the warning once per line of the program."""
        if lack := modes.describe_lack(self.mode):
            warn(lack)

    def deactivate(self) -> None:
        """Does nothing."""

    def enter(self, metadata: Any) -> None:
        """Does nothing."""

    def exit(self, metadata: Any) -> None:
        """Does nothing."""
