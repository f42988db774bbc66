"""Callbacks around the scopes of `marey.hpp`, sampling, and guards."""

from __future__ import annotations

from pathlib import Path

import pytest
from cpp_programs import compile_program, run_case

SOURCE = Path(__file__).parent / "programs" / "callbacks.cpp"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("callbacks") / "callbacks"
    return compile_program(path, SOURCE, options=("-O1",))


def test_callbacks_are_called_around_the_scopes_that_they_ask_for(program: Path) -> None:
    # Name, kind, sequence number and number of inputs at each start, ">" at each end.
    both = "<outer:0:7:0<inner:7:-1:0>>"
    function = "<outer:0:7:2>"
    assert run_case(program) == [
        "nobody 0",
        f"all {both} 0",
        "removed '' 0",
        f"inputs {function} 1",
        "disabled ''",
        f"reenabled {function}",
        "guarded '' 0",
        f"inner guard {function}",
        "off ''",
        "other thread ''",
        f"own thread {both}",
        "sampled 1 1",
        "never 0",
        "always 1000",
    ]


def test_a_thread_inherits_no_callback_of_an_ended_thread_with_its_id(program: Path) -> None:
    own, inherited = run_case(program, "reuse")
    if inherited == "no privilege":
        pytest.skip("setting the id of a thread needs CAP_CHECKPOINT_RESTORE")
    assert (own, inherited) == ("own <outer:0:7:0<inner:7:-1:0>>", "inherited ''")


@pytest.mark.parametrize("absence", [{"MAREY_DISABLE": "1"}, {"MAREY_LIB": "./no.so"}])
def test_without_the_library_no_callback_is_called(program: Path, absence: dict[str, str]) -> None:
    lines = run_case(program, **absence)
    assert "all  0" in lines
    assert "always 0" in lines
