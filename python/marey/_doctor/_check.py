"""A line of the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["ok", "missing", "broken"]
"""``missing`` is what marey does without, ``broken`` what is there and does not work."""


@dataclass(frozen=True)
class Check:
    """What is known of one thing."""

    section: str
    """The heading below which it stands."""
    key: str
    """What it is about, for programs; several lines may be about the same."""
    state: State
    text: str
    mend: str | None = None
    """What to do about it, a command where there is one."""
    facts: dict[str, Any] = field(default_factory=dict)
    """The same for programs."""
