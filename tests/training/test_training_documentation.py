"""The page of the documentation names tests that exist."""

from __future__ import annotations

import re

from paths import ROOT

TESTS = ROOT / "tests" / "training"


def test_each_test_that_the_page_names_exists() -> None:
    page = (ROOT / "docs" / "training.md").read_text()
    code = "".join(path.read_text() for path in TESTS.glob("test_*.py"))
    names = set(re.findall(r"`(test_\w+)`", page))
    assert len(names) > 30
    assert {name for name in names if f"def {name}(" not in code} == set()
