"""`marey::Allocator` in containers, and reports of a replaced `operator new`."""

from __future__ import annotations

from pathlib import Path

import pytest
from cpp_programs import SOURCES, Report, compile_program, run_case


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_containers_treat_the_allocator_as_its_base(tmp_path: Path, standard: str) -> None:
    source = SOURCES / "programs" / "allocators.cpp"
    program = compile_program(tmp_path / "program", source, standard=standard)
    *lines, line = run_case(program)
    assert lines == [
        "copied 2, moved 2, same memory 1",
        "a copy 102",
        "copied 1, moved 1, same memory 0",
        "a copy 101",
        "made 7 7, at most 1000",
        "destroyed 2",
        "swapped 2 1",
    ]
    events = Report(line).events
    assert sum(event["bytes"] for event in events) == 0
    assert events[-1]["total_allocated"] == 0


def test_operator_new_may_report_its_allocations_on_any_thread(tmp_path: Path) -> None:
    source = SOURCES / "programs" / "operator_new.cpp"
    program = compile_program(tmp_path / "program", source)
    # Those of marey are no reports, nor do they end in a lock that the thread holds.
    assert run_case(program) == [
        "threads 10, scopes 1010, reports 2000, others 0, sum 0, dropped 0"
    ]
