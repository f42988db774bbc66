"""The directory that `marey run` adds to the `PYTHONPATH` of child processes."""

from __future__ import annotations
