"""Programs of several parts: C++ in Python, Python in C++, libraries that come and go."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import textwrap
from importlib.util import find_spec
from pathlib import Path

import cpp_programs
import profiles
import pytest
from trace_files import run_rows

MIXED = cpp_programs.SOURCES / "mixed"


def python_options() -> tuple[str, ...]:
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").exists():
        pytest.skip(f"{include} has no Python.h")
    return (f"-isystem{include}",)


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mixed") / "mixed.abi3.so"
    options = (*python_options(), "-shared", "-fPIC")
    return cpp_programs.compile_program(path, MIXED / "extension.cpp", options=options)


def run_python(extension: Path, program: str) -> str:
    lines = f"import sys\nsys.path.insert(0, {str(extension.parent)!r})\nimport mixed, marey\n"
    Path("program.py").write_text(lines + textwrap.dedent(program))
    return cpp_programs.run(sys.executable, "program.py").stdout


def test_scopes_of_cxx_and_python_are_in_one_tree_whoever_starts_the_session(
    extension: Path,
) -> None:
    run_python(
        extension,
        """
        import os

        of_python = marey.start("of_python")
        of_cxx = mixed.start("of_cxx", "shadow")
        def inner():
            with marey.scope("in Python"):
                mixed.nest("in C++", lambda: None)
        mixed.nest("outer", inner)
        marey.deactivate(of_cxx)  # the number is that of the one recorder
        mixed.nest("unseen", lambda: None)
        marey.activate(of_cxx)
        child = os.fork()
        if child == 0:
            mixed.nest("in the child", lambda: None)
            sys.exit()
        assert os.waitpid(child, 0)[1] == 0
        marey.finalize(of_python)
        """,
    )
    manager = "of the manager"
    path = f"outer/{manager}/in Python/in C++/{manager}"
    for name in ("of_python", "of_cxx"):
        root = profiles.tree(f"{name}.hatchet")
        assert path in profiles.counts(root)
        assert ("unseen" in profiles.counts(root)) == (name == "of_python")
        [child] = Path().glob(f"{name}.*.hatchet")
        assert profiles.counts(profiles.tree(child))[f"in the child/{manager}"] == 1
    calls = profiles.metrics(profiles.find(profiles.tree("of_cxx.hatchet"), path))
    assert calls == {"calls": 1}


@pytest.fixture(scope="module")
def bound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module of pybind11, whose headers PyTorch brings."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("there is no PyTorch here")
    path = tmp_path_factory.mktemp("bound") / f"bound{sysconfig.get_config_var('EXT_SUFFIX')}"
    headers = f"-isystem{Path(spec.origin).parent / 'include'}"
    options = (*python_options(), headers, "-shared", "-fPIC", "-fvisibility=hidden")
    return cpp_programs.compile_program(path, MIXED / "bound.cpp", options=options)


BESIDE = """
import sys
sys.path.insert(0, {folder!r})
import bound, marey

def inner():
    with marey.scope("inside"):
        pass

{begin}
with marey.scope("in Python"):
    bound.call("before", inner)
    bound.enable()
    bound.call("profiled", inner)
    names, error = bound.disable("own.marey")
assert names == ["profiled"], names
{end}
print(error)
"""


def test_a_module_of_pybind11_has_its_scopes_in_the_tree_and_its_own_run(bound: Path) -> None:
    text = BESIDE.format(folder=str(bound.parent), begin='marey.start("tree")', end="")
    Path("program.py").write_text(text)
    assert cpp_programs.run(sys.executable, "program.py").stdout == "\n"
    counts = profiles.counts(profiles.tree("tree.hatchet"))
    assert counts["in Python/before/inside"] == counts["in Python/profiled/inside"] == 1
    assert run_rows("own.marey", "SELECT name FROM spans ORDER BY start_nanos") == [
        ("profiled",),
        ("inside",),
    ]


def test_a_profile_under_marey_run_is_a_part_of_its_run(bound: Path) -> None:
    Path("program.py").write_text(BESIDE.format(folder=str(bound.parent), begin="", end=""))
    command = [sys.executable, "-m", "marey", "run", "-d", "trace", "-o", "all", "program.py"]
    done = cpp_programs.run(*command)
    run = Path("all.marey").absolute()
    assert f"the run is a part of {run}" in done.stdout
    paths = {path for (path,) in run_rows(run, "SELECT path FROM spans")}
    # The profile has begun inside of a scope that it does not have: a row for each path.
    assert {"in Python/before", "in Python/profiled", "profiled"} <= paths
    assert not Path("own.marey").exists()


def test_contexts_are_python_frames_and_scopes_of_both_languages(extension: Path) -> None:
    out = run_python(
        extension,
        """
        marey.start("frames", context="python")
        def called():
            with marey.scope("in Python"):
                return mixed.nest("in C++", mixed.contexts)
        print(called(), end="")
        """,
    )
    frames, scopes = out.splitlines()[:2], out.splitlines()[2:]
    assert [frame.rpartition("@")[2] for frame in frames] == ["<module>", "called"]
    assert scopes == ["in Python", "in C++", "of the manager"]
    paths = [path for path, _ in profiles.walk(profiles.tree("frames.hatchet"))]
    assert any(path.endswith("@called/of the manager") for path in paths)


def test_python_embedded_in_cxx_records_below_its_scopes(tmp_path: Path) -> None:
    library = sysconfig.get_config_var("LDLIBRARY") or ""
    folder = sysconfig.get_config_var("LIBDIR")
    if not (library.endswith(".so") and Path(folder, library).exists()):
        pytest.skip(f"this Python has no shared library {library}")
    name = library.removeprefix("lib").removesuffix(".so")
    options = (*python_options(), f"-L{folder}", f"-Wl,-rpath,{folder}", f"-l{name}")
    program = cpp_programs.compile_program(
        tmp_path / "program", MIXED / "embedding.cpp", options=options
    )
    cpp_programs.run(program, PYTHONPATH=":".join(filter(None, sys.path)))
    root = profiles.tree("embedded.hatchet")
    # The interpreter ends the sessions, as it does without C++.
    assert profiles.counts(root) == {"in C++": 1, "in C++/in Python": 1}
    assert profiles.metrics(profiles.find(root, "in C++/in Python")) == {"items": 2}


def test_no_symbol_of_the_headers_keeps_a_library_loaded(extension: Path) -> None:
    if shutil.which("nm") is None:
        pytest.skip("there is no nm here")
    symbols = cpp_programs.run("nm", "--demangle", extension).stdout.splitlines()
    assert any("proton::marey_1" in symbol for symbol in symbols)
    unique = [symbol for symbol in symbols if " u " in symbol]
    assert [symbol for symbol in unique if "marey" in symbol] == []


def test_a_library_is_unloaded_while_another_goes_on_recording(tmp_path: Path) -> None:
    # The standard library's headers have unique symbols, for which the loader keeps a library.
    options = ("-shared", "-fPIC", "-fno-gnu-unique")
    first = cpp_programs.compile_program(
        tmp_path / "first.so", MIXED / "library.cpp", options=options
    )
    shutil.copy(first, "second.so")
    host = cpp_programs.compile_program(tmp_path / "host", MIXED / "host.cpp")
    out = cpp_programs.run(host).stdout
    assert out == "0 1\n", "the first library must be gone, the second must be there"
    work = {"host": 1, **below("host/first"), **below("host/second")}
    # Both libraries have one recorder; the destructor of the first runs while it is unloaded.
    unloaded = {"host/unloaded": 1, "host/unloaded/by the manager": 1}
    # The session of the first library ended when it was unloaded.
    of_first = profiles.counts(profiles.tree("of the first.hatchet"))
    assert {path: of_first.get(path) for path in work if path != "host"} == {
        path: count for path, count in work.items() if path != "host"
    }
    assert not any(path.startswith("alone") for path in of_first)
    of_second = profiles.counts(profiles.tree("of the second.hatchet"))
    assert {**work, **unloaded, **below("alone")}.items() <= of_second.items()
    items = profiles.metrics(profiles.find(profiles.tree("of the first.hatchet"), "host/first"))
    assert items == {"items": 1}


def below(path: str) -> dict[str, int]:
    """Returns the counts of one call of `work` in the library."""
    return {path: 1, f"{path}/inside": 1, f"{path}/inside/op": 1}
