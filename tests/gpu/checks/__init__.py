"""The checks. Importing this registers them, in the order in which they are made."""

from __future__ import annotations

from . import records, graphs, levels, sources, lifetime, cost, stream  # noqa: F401, I001
