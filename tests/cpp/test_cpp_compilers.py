"""`marey.hpp` compiles without warnings in each mode, and works without exceptions and RTTI."""

from __future__ import annotations

from pathlib import Path

import pytest
from cpp_programs import Report, compile_program, run_case

CASES = Path(__file__).parent / "programs" / "cases.cpp"


WITHOUT = ("-fno-exceptions", "-fno-rtti")


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("g++", ("-std=c++17", *WITHOUT)),
        ("g++", ("-std=c++2b",)),
        ("clang++", ("-std=c++17",)),
        ("clang++", ("-std=c++2b", *WITHOUT)),
    ],
)
def test_the_header_compiles_without_warnings(family: str, options: tuple[str, ...]) -> None:
    # The other tests compile with -std=c++20 as well.
    compile_program(family, CASES, *options, "-fsyntax-only")


def test_exceptions_and_rtti_are_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the program writes files
    path = tmp_path / "cases"
    compile_program("clang++", CASES, "-std=c++20", *WITHOUT, "-o", str(path))
    report = Report(run_case(path, "verbose")[-1])
    assert report["leaf"]["stack"] == ["forward", "encode"]
