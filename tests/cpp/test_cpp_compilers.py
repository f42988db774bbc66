"""The C++ headers compile without warnings in each mode, and work without exceptions and RTTI."""

from __future__ import annotations

from pathlib import Path

import pytest
from cpp_programs import HEADERS, Report, compile_program, run_case

PROGRAMS = Path(__file__).parent / "programs"
CASES = PROGRAMS / "cases.cpp"
WITHOUT = ("-fno-exceptions", "-fno-rtti")


@pytest.mark.parametrize(
    ("compiler", "standard", "options"),
    [
        ("g++", "c++17", WITHOUT),
        ("g++", "c++20", ()),
        ("g++", "c++2b", WITHOUT),
        ("clang++", "c++17", ()),
        ("clang++", "c++20", WITHOUT),
        ("clang++", "c++2b", ()),
    ],
)
def test_the_header_compiles_without_warnings(
    compiler: str, standard: str, options: tuple[str, ...]
) -> None:
    options = (*options, "-fsyntax-only")
    compile_program(Path("none"), CASES, standard=standard, options=options, compiler=compiler)


@pytest.mark.parametrize(("compiler", "standard"), [("g++", "c++2b"), ("clang++", "c++17")])
def test_the_header_of_xsigma_compiles_without_warnings(compiler: str, standard: str) -> None:
    options = (f"-I{HEADERS / 'marey' / 'xsigma'}", "-fsyntax-only")
    listings = PROGRAMS / "listings.cpp"
    compile_program(Path("none"), listings, standard=standard, options=options, compiler=compiler)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_exceptions_and_rtti_are_not_needed(tmp_path: Path, compiler: str) -> None:
    path = compile_program(
        tmp_path / "cases", CASES, standard="c++20", options=WITHOUT, compiler=compiler
    )
    report = Report(run_case(path, "verbose")[-1])
    assert report["leaf"]["stack"] == ["forward", "encode"]
