"""`marey.h` in C and C++ programs, alone and in one process with Python."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import sys
import sysconfig
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from paths import ROOT
from programs import run_command
from replay import environment

HERE = Path(__file__).parent
SOURCES = HERE / "c"
TABLE = ROOT / "crates" / "marey-record" / "src" / "table.rs"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]


# The note that a Python session prints on a machine without a GPU.
NOTICES = ["marey: no GPU was found; the profile holds the host side only"]


class Language(NamedTuple):
    compiler: str
    flags: tuple[str, ...]


C11 = Language("cc", ("-std=c11", "-D_DEFAULT_SOURCE"))
CXX17 = Language("c++", ("-std=c++17", "-x", "c++"))

both_languages = pytest.mark.parametrize("language", [C11, CXX17], ids=["C11", "C++17"])


@pytest.fixture
def library() -> str:
    """Path of `libmarey.so`: from the environment, else from the installed wheel."""
    return os.environ.get("MAREY_LIB") or str(package() / "lib" / "libmarey.so")


def package() -> Path:
    spec = find_spec("marey")
    assert spec is not None, "the wheel is not installed"
    assert spec.origin is not None
    return Path(spec.origin).parent


def headers() -> Path:
    """Returns the headers of the wheel if one is installed."""
    installed = package() / "include" if find_spec("marey") is not None else None
    return installed if installed and installed.exists() else ROOT / "include"


def build(source: str, language: Language, *options: str, output: str = "program") -> str:
    if shutil.which(language.compiler) is None:
        pytest.skip(f"there is no {language.compiler} here")
    command = [language.compiler, *language.flags, *STRICT, "-O2", f"-I{headers()}"]
    command += [str(SOURCES / source), "-o", output, "-pthread", *options]
    done = run_command(*command, "-ldl")
    assert done.exit_code == 0, done.stderr
    return f"./{output}"


def checked(program: str) -> list[str]:
    """The command of a C program: under Valgrind where `.ci/sanitize` runs these tests."""
    return [*shlex.split(os.environ.get("MAREY_TEST_VALGRIND", "")), program]


def run(*command: str, **env: str) -> str:
    """Runs a program that must succeed without complaints; returns its stdout."""
    done = run_command(*command, **env)
    complaints = [line for line in done.stderr.splitlines() if line not in NOTICES]
    assert (done.exit_code, complaints) == (0, [])
    return done.stdout


class Profile:
    """A `.hatchet` file: nodes by their path below ROOT, states without other data included."""

    def __init__(self, path: str) -> None:
        root, _devices = json.loads(Path(path).read_text())
        self.about = root["marey"]
        self.nodes: dict[tuple[str, ...], dict[str, Any]] = {}
        self._add((), root)

    def _add(self, path: tuple[str, ...], node: dict[str, Any]) -> None:
        assert path not in self.nodes, f"{path} is there twice"
        self.nodes[path] = node
        for child in node["children"]:
            self._add((*path, child["frame"]["name"]), child)
        for state in node["marey"].get("states", ()):
            alone = {"metrics": state["metrics"], "marey": {"kind": "state"}, "children": []}
            self._add((*path, state["name"]), alone)

    def count(self, *path: str) -> int:
        return int(self.nodes[path]["metrics"].get("wall_count", 0))

    def counts(self) -> dict[tuple[str, ...], int]:
        return {path: self.count(*path) for path in self.nodes if path}

    def metrics(self, *path: str) -> dict[str, Any]:
        metrics = self.nodes[path]["metrics"]
        return {key: value for key, value in metrics.items() if not key.startswith("wall_")}

    def kind(self, *path: str) -> str:
        return str(self.nodes[path]["marey"]["kind"])

    def losses(self) -> dict[str, int]:
        return {cause: count for cause, count in self.about["losses"].items() if count}


@both_languages
def test_a_c_program_is_recorded(language: Language, library: str) -> None:
    out = run(*checked(build("alone.c", language)), MAREY_LIB=library)
    profile = Profile("first.hatchet")
    assert profile.counts() == {
        ("outer",): 1,
        # The threads began while `outer` was open.
        ("outer", "work"): 2000,
        ("outer", "metrics"): 1,
        ("outer", "stateful"): 1,
        ("outer", "stateful", "cold"): 1,
        ("outer", "stateful", "warm"): 1,
        ("outer", "seen by both"): 1,
        ("outer", "seen by the first"): 1,
        ("outer", "phase"): 2,
        ("outer", "step"): 3,
        ("outer", "step", "in a step"): 3,
    }
    assert profile.metrics("outer", "metrics") == {
        "items": 40,
        "joules": 0.5,
        "device": "röhre",
        "shape": [2, -4],
        "weights": [0.5, 1.5],
    }
    assert profile.kind("outer", "stateful", "cold") == "state"
    assert profile.kind("outer", "step") == "step"
    assert profile.about["process"]["complete"] is True
    # Two refused values, and the exit of `main` with nothing open.
    assert profile.losses() == {"metrics_refused": 2, "unmatched_exits": 1}

    assert Profile("phased.part_0.hatchet").counts() == {("phase",): 1}
    assert Profile("phased.part_1.hatchet").counts() == {("phase",): 1}

    child = re.fullmatch(r"child (\d+)\n", out)
    assert child is not None
    forked = Profile(f"first.{child[1]}.hatchet")
    # `outer` belongs to the parent; the child is only below it.
    assert forked.counts() == {("outer",): 0, ("outer", "in the child"): 1}
    assert forked.about["process"]["pid"] == int(child[1])


@both_languages
def test_inactive_sessions_record_nothing(language: Language, library: str) -> None:
    msgpack = pytest.importorskip("msgpack")
    run(*checked(build("alone.c", language)), MAREY_LIB=library)
    root, _devices = msgpack.unpackb(Path("second.hatchet_msgpack").read_bytes())
    [node] = root["children"]
    assert node["frame"]["name"] == "seen by both"
    assert node["children"] == []


@both_languages
@pytest.mark.parametrize(
    ("env", "reason"),
    [
        ({"MAREY_LIB": ""}, "libmarey.so was not found; set MAREY_LIB to its path"),
        ({"MAREY_LIB": "./no.so"}, "libmarey.so was not found; set MAREY_LIB to its path"),
        ({"MAREY_DISABLE": "1"}, "MAREY_DISABLE is set"),
    ],
)
def test_a_program_runs_without_libmarey(
    language: Language, library: str, env: dict[str, str], reason: str
) -> None:
    program = build("absent.c", language)
    assert run(*checked(program), **{"MAREY_LIB": library, **env}) == f"-2 -1 {reason}\n"
    assert list(Path().glob("*hatchet*")) == []


def test_an_unwritable_file_is_an_error(library: str) -> None:
    program = build("failing.c", C11)
    done = run_command(*checked(program), MAREY_LIB=library)
    error = f"cannot create {Path('blocked').absolute()}: "
    assert done.exit_code == 0
    # From the call, and at the end for the session that was not finalized.
    assert done.stdout.startswith(f"4 4 {error}")
    assert done.stderr.startswith(f"marey: error: {error}")
    assert [path.name for path in Path().glob("*.hatchet")] == ["written.hatchet"]


@pytest.mark.parametrize("delivery", ["inline", "worker"])
def test_a_program_that_ends_has_its_kernels(library: str, delivery: str) -> None:
    """Libraries that a session has loaded are finalized before the program's own exit handlers."""
    double = environment(Path("lib"), f"delivery {delivery}")
    run(*checked(build("kernels.c", C11)), **{**double, "MAREY_LIB": library})
    metrics = Profile("kernels.hatchet").metrics("step", "kernel")
    assert (metrics["count"], metrics["time (ns)"]) == (1000, 5000)


def test_events_that_are_counted_again_use_no_more_memory(library: str) -> None:
    growth = int(run(*checked(build("events.c", C11)), MAREY_LIB=library))
    profile = Profile("events.hatchet")
    assert profile.count("counted") == 1010
    assert {"page_faults", "task_clock"} <= set(profile.metrics("counted"))
    assert growth < 10_000  # ten bytes a round

    source = "static const struct { unsigned long size; unsigned version; } table = {4096, 999};"
    source += " const void *marey_table(void); const void *marey_table(void) { return &table; }"
    Path("other.c").write_text(source)
    build("../" + os.path.relpath("other.c", HERE), C11, "-shared", "-fPIC", output="other.so")
    out = run(*checked(build("absent.c", C11)), MAREY_LIB="./other.so")
    assert out == "-2 -1 libmarey.so and marey.h have different versions; install matching ones\n"


@both_languages
def test_a_signal_handler_may_enter_scopes(language: Language, library: str) -> None:
    out = run(*checked(build("signals.c", language)), MAREY_LIB=library)
    loops, signals, recorded = map(int, out.split())
    profile = Profile("signals.hatchet")
    counts = profile.counts()
    handled = [count for path, count in counts.items() if path[-2:].count("handled") == 1]
    # The two entries before the first signal are among them.
    assert sum(handled) == recorded + 2
    # An event that was dropped is counted; those after it in the same handler are never tried.
    dropped = signals - recorded
    assert profile.losses() == ({"reentrant_events": dropped} if dropped else {})
    assert counts["looped",] == loops + 1


# Without room for thread-local storage of libraries that are loaded late, they allocate it.
@pytest.mark.parametrize("tunables", ["", "glibc.rtld.optional_static_tls=0"])
def test_sigterm_may_come_in_the_middle_of_an_allocation(tunables: str, library: str) -> None:
    program = checked(build("allocating.c", C11))
    done = run_command(*program, MAREY_LIB=library, GLIBC_TUNABLES=tunables)
    assert (done.exit_code, done.stderr) == (-signal.SIGTERM, "")
    assert Profile("allocating.hatchet").counts() == {("work",): 1}


@both_languages
def test_the_header_matches_the_function_table(language: Language, library: str) -> None:
    lines = run(*checked(build("table.c", language)), MAREY_LIB=library).splitlines()
    places = {name: int(number) for name, number in (line.split() for line in lines)}
    sizes = [places.pop(name) for name in ("header", "library", "error", "metric", "options")]
    assert sizes == [sizes[1], sizes[1], 516, 24, 56]
    declared = re.search(r"pub struct Table \{\n(.*?)\n\}", TABLE.read_text(), re.DOTALL)
    assert declared is not None
    assert list(places) == re.findall(r"^    pub (\w+):", declared[1], re.MULTILINE)
    assert list(places.values()) == [0, 8, 12, *range(16, sizes[1], 8)]


def test_cxx_scopes_end_with_their_block(library: str) -> None:
    run(*checked(build("scopes.cpp", CXX17)), MAREY_LIB=library)
    profile = Profile("scopes.hatchet")
    assert profile.counts() == {
        ("main",): 1,
        ("main", "fails"): 1,
        ("main", "handler"): 1,
        ("main", "handler", "recovering"): 1,
        ("main", "recurse"): 1,
        ("main", "recurse", "recurse"): 1,
        ("main", "recurse", "recurse", "recurse"): 1,
        ("main", "call 0"): 1,
        ("main", "call 0", "layer"): 1,
        ("main", "call 1"): 1,
        ("main", "call 1", "layer"): 1,
        ("main", "on a thread"): 1,
    }
    assert profile.kind("main", "call 0", "layer") == "module"
    assert profile.losses() == {}


@pytest.fixture
def extension() -> None:
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").exists():
        pytest.skip(f"{include} has no Python.h")
    build("extension.c", C11, "-shared", "-fPIC", f"-isystem{include}", output="annotated.abi3.so")


def run_python(program: str, **env: str) -> None:
    Path("program.py").write_text(textwrap.dedent(program))
    run(sys.executable, "program.py", **env)


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("first", ["import marey", "import annotated; annotated.leaf()"])
@pytest.mark.parametrize("starter", ["marey", "annotated"])
def test_c_and_python_record_into_one_run(first: str, starter: str, library: str) -> None:
    run_python(
        f"""
        {first}
        import annotated
        import marey

        session = {starter}.start("one")
        with marey.scope("py_outer"):
            def inner():
                with marey.scope("py_inner"):
                    annotated.leaf()
            annotated.call(inner)
        {starter}.finalize(session)
        with open("/proc/self/maps") as maps:
            libraries = {{line.split()[-1] for line in maps if "libmarey.so" in line}}
        assert len(libraries) == 1, libraries
        """,
        MAREY_LIB=library,
    )
    [path] = Path().glob("*hatchet*")
    profile = Profile(str(path))
    assert profile.counts() == {
        ("py_outer",): 1,
        ("py_outer", "c_outer"): 1,
        ("py_outer", "c_outer", "py_inner"): 1,
        ("py_outer", "c_outer", "py_inner", "c_leaf"): 1,
    }
    assert profile.metrics("py_outer", "c_outer", "py_inner", "c_leaf") == {"c_calls": 1}
    assert profile.losses() == {}


@pytest.mark.usefixtures("extension")
def test_an_extension_finds_the_library_that_python_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAREY_LIB", raising=False)
    run_python(
        """
        import marey
        import annotated

        marey.start("one")
        annotated.leaf()
        """
    )
    assert Profile("one.hatchet").counts() == {("c_leaf",): 1}
