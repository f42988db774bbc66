"""Paths of the repository that tests use."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
SUPPORT = TESTS / "support"
DATA = TESTS / "data"
RUNS = TESTS / "runs"
FORMATS_DATA = ROOT / "crates" / "marey-formats" / "tests" / "data"
"""Recorded files of other formats, which the Rust tests read too."""
