"""Native stacks of `marey.hpp`: their names in the process, and in runs that are read outside."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import marey
from cpp_programs import Report, Trace, compile_program, run_case

PROGRAMS = Path(__file__).parent / "programs"
SOURCE = PROGRAMS / "stacks.cpp"
HIDDEN = "-fvisibility=hidden"


def line_of(text: str, source: Path = SOURCE) -> int:
    """Returns the number of the only line that contains a text."""
    lines = source.read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return number


def args_in_run(name: str) -> dict[str, Any]:
    with marey.open("run.marey") as run:
        ((args,),) = run.sql(f"SELECT args FROM spans WHERE name = '{name}'").rows()
        run.export("exported.json", format="chrome-trace")
    trace = json.loads(Path("exported.json").read_text())
    (event,) = [event for event in trace["traceEvents"] if event["name"] == name]
    found: dict[str, Any] = json.loads(args)
    assert event["args"]["Call stack"] == found["Call stack"]
    return found


def stack_in_run(name: str) -> list[str]:
    """Returns the stack of a scope, outermost first, which an exported trace has too."""
    stack: str = args_in_run(name)["Call stack"]
    return stack.split(";")


def test_static_and_inlined_functions_have_their_lines_where_the_run_is_read() -> None:
    # Without frame pointers, so that the calls are found by .eh_frame.
    options = ("-O2", "-g", "-fomit-frame-pointer", HIDDEN)
    program = compile_program(Path("program").absolute(), SOURCE, options=options)
    report = Report(run_case(program)[-1])
    # In the process no file is read.
    assert re.fullmatch(rf"{re.escape(str(program))}\+0x[0-9a-f]+", report["inner"]["stack"][-1])
    assert Trace().args("inner")["Call stack"] == ";".join(report["inner"]["stack"])
    stack = stack_in_run("inner")
    assert stack[-4:] == [
        f"{SOURCE}({line_of('result = hidden_outer(count)')}): main",
        f"{SOURCE}({line_of('result = inlined')}): (anonymous namespace)::hidden_outer",
        f"{SOURCE}({line_of('inline __attribute__')}): inlined",
        f"{SOURCE}({line_of('RECORD_FUNCTION')}): (anonymous namespace)::hidden_inner",
    ]
    assert args_in_run("inner")["Input type"] == ["Scalar"]


def test_without_debug_information_functions_have_names() -> None:
    options = ("-O1", HIDDEN)
    program = compile_program(Path("program").absolute(), SOURCE, options=options)
    run_case(program)
    assert stack_in_run("inner")[-3:] == [
        *("main", "(anonymous namespace)::hidden_outer", "(anonymous namespace)::hidden_inner")
    ]


def test_a_function_of_a_stripped_program_is_its_file_and_address() -> None:
    options = ("-O1", "-s", HIDDEN)
    program = compile_program(Path("program").absolute(), SOURCE, options=options)
    report = Report(run_case(program)[-1])
    stack = stack_in_run("inner")
    assert all(re.fullmatch(rf"{re.escape(str(program))}\+0x[0-9a-f]+", f) for f in stack[-3:])
    assert stack[-3:] == report["inner"]["stack"][-3:]


def test_a_program_that_was_built_again_names_nothing() -> None:
    program = compile_program(Path("program").absolute(), SOURCE, options=("-O1", HIDDEN))
    report = Report(run_case(program)[-1])
    compile_program(program, SOURCE, options=("-O2", HIDDEN))
    stack = stack_in_run("inner")
    assert stack[-1] == report["inner"]["stack"][-1]
    assert stack[-1].startswith(f"{program}+0x")


def test_a_library_that_was_closed_is_still_named() -> None:
    program = compile_program(Path("program").absolute(), SOURCE, options=("-O1", HIDDEN))
    options = ("-O1", "-shared", "-fPIC", HIDDEN)
    library = compile_program(Path("libclosed.so"), PROGRAMS / "closed.cpp", options=options)
    report = Report(run_case(program, "./libclosed.so")[-1])
    closed = re.escape(str(library.absolute()))
    places = report["closed"]["stack"][-2:]
    assert all(re.fullmatch(rf"{closed}\+0x[0-9a-f]+", place) for place in places)
    assert stack_in_run("closed")[-2:] == ["work_in_library", "hidden_in_library"]
