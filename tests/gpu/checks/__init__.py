"""The checks. Importing them registers them; `ORDER` is that in which they are made."""

from __future__ import annotations

from . import cost, graphs, levels, lifetime, records, sources, stream

ORDER = (records, graphs, levels, sources, lifetime, stream, cost)
"""What all else rests on comes first, what takes longest last."""
