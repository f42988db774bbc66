"""The tests that the documentation names exist, and public names are on their pages."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import marey.metrics
import marey.training
import marey.windows
import pytest
from paths import ROOT, TESTS

# `test_file.py`, `test_name`, `test_file.py::test_name`, `::test_name` of the file before it.
REFERENCE = re.compile(r"`([\w/]*test_\w+\.py)?(?:::)?(test_\w+)?`")
OTHER_FILES = {"test_api.py", "test_viewer.py"}  # of Proton

PAGES = [path for path in sorted((ROOT / "docs").glob("*.md")) if "test_" in path.read_text()]


@pytest.fixture(scope="module")
def tests() -> dict[str, set[str]]:
    """Returns the names of the tests of each file."""
    return {
        path.name: set(re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE))
        for path in TESTS.rglob("test_*.py")
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_each_test_that_a_page_names_exists(page: Path, tests: dict[str, set[str]]) -> None:
    missing = []
    everywhere = set().union(*tests.values())
    for path, name in REFERENCE.findall(page.read_text()):
        file = path.rpartition("/")[2]
        if file in OTHER_FILES:
            continue
        known = tests.get(file, set()) if file else everywhere
        has_path = "/" not in path or (ROOT / path).exists()
        if not has_path or (file and file not in tests) or (name and name not in known):
            missing.append(f"{path}::{name}")
    assert missing == []


@pytest.mark.parametrize("module", [marey.training, marey.metrics, marey.windows])
def test_each_public_name_is_on_its_page(module: ModuleType) -> None:
    page = (ROOT / "docs" / f"{module.__name__.rpartition('.')[2]}.md").read_text()
    words = set(re.findall(r"\w+", page))
    assert set(module.__all__) - words == set()
