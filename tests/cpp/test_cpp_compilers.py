"""`marey.hpp` compiles without warnings in each mode, and works without exceptions and RTTI."""

from __future__ import annotations

from pathlib import Path

import pytest
from cpp_programs import Report, compile_program, run_case

CASES = Path(__file__).parent / "programs" / "cases.cpp"


WITHOUT = ("-fno-exceptions", "-fno-rtti")


@pytest.mark.parametrize(
    ("compiler", "standard", "options"),
    [
        ("g++", "c++17", WITHOUT),
        ("g++", "c++2b", ()),
        ("clang++", "c++17", ()),
        ("clang++", "c++2b", WITHOUT),
    ],
)
def test_the_header_compiles_without_warnings(
    compiler: str, standard: str, options: tuple[str, ...]
) -> None:
    # The other tests compile with -std=c++20 as well.
    options = (*options, "-fsyntax-only")
    compile_program(Path("none"), CASES, standard=standard, options=options, compiler=compiler)


def test_exceptions_and_rtti_are_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the program writes files
    path = compile_program(
        tmp_path / "cases", CASES, standard="c++20", options=WITHOUT, compiler="clang++"
    )
    report = Report(run_case(path, "verbose")[-1])
    assert report["leaf"]["stack"] == ["forward", "encode"]
