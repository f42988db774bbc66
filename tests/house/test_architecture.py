"""ARCHITECTURE.md leads to files that exist."""

from __future__ import annotations

import re

from paths import ROOT

FOLDERS = (".ci", "bench", "crates", "docs", "fuzz", "include", "python", "tests", "xtask")
A_FILE = re.compile(r"\.(rs|py|sql|md|h|hpp|toml|json)$")


def test_the_starting_points_of_changes_exist() -> None:
    found = [path for folder in FOLDERS for path in (ROOT / folder, *(ROOT / folder).rglob("*"))]
    places = [path.relative_to(ROOT) for path in found]
    endings = {ending for place in places for ending in suffixes(place.parts)}

    page = (ROOT / "ARCHITECTURE.md").read_text()
    table = page.partition("## To change X, start at Y")[2].partition("\n## ")[0]
    words = re.findall(r"`([^`\s]+)`", table)
    named = [word for word in words if "/" in word or A_FILE.search(word)]
    named = [word.rstrip("/") for word in named if "NAME" not in word and word != "time/ms"]
    assert len(named) > 40
    assert [word for word in named if word not in endings] == []


def suffixes(parts: tuple[str, ...]) -> list[str]:
    """Returns `a/b/c`, `b/c` and `c` for the parts of `a/b/c`."""
    return ["/".join(parts[begin:]) for begin in range(len(parts))]
