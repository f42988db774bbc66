"""Tests of analyses make their traces in a directory of their own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _in_own_directory(own_directory: None) -> None:
    pass
