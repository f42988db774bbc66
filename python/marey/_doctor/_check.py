"""The type of one line of the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["ok", "missing", "broken"]
"""``missing``: absent, and marey works without it. ``broken``: present, and does not work."""


@dataclass(frozen=True)
class Check:
    """The result of one check: one line of the page."""

    section: str
    """The heading of the line."""
    key: str
    """The subject, for programs that read the JSON; several lines may have the same key."""
    state: State
    text: str
    mend: str | None = None
    """The remedy, a command if possible."""
    facts: dict[str, Any] = field(default_factory=dict)
    """The content of `text` as data."""
