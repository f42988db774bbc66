"""The checks. Importing this registers them, in the order in which they are made."""

from __future__ import annotations

from . import cost, graphs, levels, lifetime, records, sources, stream  # noqa: F401
