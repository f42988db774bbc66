"""The directory that `marey run` puts on the `PYTHONPATH` of child processes."""

from __future__ import annotations
