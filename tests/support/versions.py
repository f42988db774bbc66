"""Versions of CPython."""

from __future__ import annotations

NEWEST_KNOWN = (3, 15)
"""The newest CPython whose frames and contexts marey reads directly."""
