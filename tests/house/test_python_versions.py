"""The lists of supported versions of CPython agree."""

from __future__ import annotations

import re

from interpreters import MINORS
from marey._doctor._software import NEWEST, OLDEST
from paths import ROOT
from versions import NEWEST_KNOWN


def test_the_lists_of_supported_versions_agree() -> None:
    minors = list(MINORS)
    assert [(3, minor) for minor in (minors[0], minors[-1])] == [OLDEST, NEWEST]

    every_python = read(".ci/every_python.py")
    [listed] = re.findall(r"^MINORS = \(([\d, ]+)\)$", every_python, re.MULTILINE)
    assert [int(minor) for minor in listed.split(", ")] == minors

    project = read("pyproject.toml")
    classifiers = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', project)
    assert [int(minor) for minor in classifiers] == minors
    assert f'requires-python = ">={dotted(OLDEST)}"' in project

    between = f"{dotted(OLDEST)} to {dotted(NEWEST)}"
    assert f"| CPython | {between}," in read("docs/live.md")
    assert f"CPython {between}" in read("README.md")
    assert f"CPython {between}" in read("crates/marey-inject/src/interpreter.rs")
    assert f"no CPython {between} is installed" in every_python


def test_the_known_layouts_of_frames_begin_at_the_oldest_and_end_at_the_newest() -> None:
    source = read("crates/marey-py/src/frames/layout.rs")
    ranges = [
        range(int(a), int(b) + 1) for a, b in re.findall(r"^ +(\d+)\.\.=(\d+),$", source, re.M)
    ]
    known = [(3, minor) for minors in ranges for minor in minors]
    assert known == [(3, minor) for minor in range(OLDEST[1], NEWEST_KNOWN[1] + 1)]
    assert NEWEST_KNOWN >= NEWEST


def read(path: str) -> str:
    return (ROOT / path).read_text()


def dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
