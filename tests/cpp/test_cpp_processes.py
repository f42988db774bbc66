"""`marey.hpp` in several libraries of a process, in forked children, and at exit."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from cpp_programs import LIBRARY, Report, Trace, compile_program, newest, run_case
from trace_files import run_rows

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("processes")
    compile_program(folder / "host", PROGRAMS / "host.cpp")
    # Libraries of different compilers share one profile.
    other = "clang++" if newest("clang++") is not None else "g++"
    for compiler, name in (("g++", "first"), (other, "second")):
        options = ("-shared", "-fPIC", f"-DNAME={name}")
        library = folder / f"lib{name}.so"
        compile_program(library, PROGRAMS / "plugin.cpp", options=options, compiler=compiler)
    return folder


def test_libraries_record_into_one_profile_and_may_be_closed(programs: Path) -> None:
    for name in ("libfirst.so", "libsecond.so"):
        shutil.copy(programs / name, name)
    line, is_closed, at_exit = run_case(programs / "host", "libraries")
    report = Report(line)
    assert report.names() == [
        *("function of first", "scope of first"),
        *("function of second", "scope of second"),
        "host",
    ]
    assert report["function of first"]["shapes"] == [[2]]
    assert (is_closed, at_exit) == ("1", "destroyed")


def test_what_a_library_shares_by_name_has_the_version_of_the_header(programs: Path) -> None:
    # Otherwise the loader would merge functions of different versions of the header.
    for name in ("libfirst.so", "libsecond.so"):
        symbols = "\n".join(run_case("nm", "-DC", "--defined-only", programs / name))
        assert "marey::hpp_" in symbols
        assert re.findall(r"marey::(?!hpp_\d+::).*", symbols) == []


@pytest.mark.parametrize("library", ["environment", "linked"])
def test_libraries_that_a_program_is_linked_with_record_into_one_profile(
    programs: Path, library: str
) -> None:
    folders = [programs] if library == "environment" else [programs, Path(LIBRARY).parent]
    paths = [option for folder in folders for option in (f"-L{folder}", f"-Wl,-rpath,{folder}")]
    # The program uses no symbol of libmarey.so: the header finds the loaded one by its soname.
    names = ["-Wl,--no-as-needed", "-lfirst", "-lsecond"]
    names += ["-lmarey"] if library == "linked" else []
    program = compile_program(Path("linked"), PROGRAMS / "linked.cpp", options=(*paths, *names))
    changes = {"MAREY_LIB": "./no.so"} if library == "linked" else {}
    (line,) = run_case(program.absolute(), **changes)
    report = Report(line)
    assert report.names() == [
        *("function of first", "scope of first"),
        *("function of second", "scope of second"),
        "host",
    ]
    assert report["function of second"]["shapes"] == [[2]]


def test_a_profile_may_end_in_a_destructor_of_a_static_object(programs: Path) -> None:
    line, at_exit = run_case(programs / "host", "at_exit")
    report = Report(line)
    assert (report.names(), at_exit) == (["in main", "after main"], "destroyed")
    assert set(Trace("at_exit.json").scopes) == {"in main", "after main"}
    # The recorder ends its sessions when the process exits, which is before.
    assert [warning.partition(":")[0] for warning in report.warnings] == [
        "the run ends earlier than the profile"
    ]
    assert run_rows("at_exit.marey", "SELECT name FROM spans") == [("in main",)]


def test_a_forked_child_has_no_profile_and_may_begin_its_own(programs: Path) -> None:
    line, child_status, at_exit = run_case(programs / "host", "forks")
    assert Report(line).names() == ["before", "after"]
    assert (child_status, at_exit) == ("0", "destroyed")


def test_scopes_of_a_forked_child_look_for_no_callbacks_of_threads_it_lacks(programs: Path) -> None:
    of_child, of_parent, _at_exit = run_case(programs / "host", "listeners")
    assert (of_child, of_parent) == ("0", "1")
