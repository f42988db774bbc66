"""C++ programs find marey by `find_package`, `pkg-config`, `marey --cflags`; and `examples/cpp`."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import cpp_programs
import marey
import profiles
import pytest
from trace_files import run_rows

LIB = cpp_programs.PACKAGE / "lib"


@pytest.fixture(autouse=True)
def _no_named_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAREY_LIB", raising=False)


def output(*command: str | Path, **env: str) -> str:
    return cpp_programs.run(*command, **env).stdout.strip()


def marey_options(*options: str) -> str:
    return output(sys.executable, "-m", "marey", *options)


def cmake() -> str:
    if find_spec("cmake") is not None:
        import cmake as package

        return str(Path(package.CMAKE_BIN_DIR) / "cmake")
    return shutil.which("cmake") or pytest.skip("there is no CMake: tests/requirements.txt has it")


def program(name: str, options: str) -> Path:
    """Compiles a program that records one scope; the options are a shell's words."""
    Path("program.cpp").write_text(
        "#include <marey.h>\n#include <marey/proton/context.hpp>\n"
        f'int main() {{ marey_start("{name}", nullptr, nullptr); MAREY_SCOPE("scope"); }}\n'
    )
    output("c++", "-std=c++17", "program.cpp", "-o", name, *shlex.split(options))
    return Path(name).absolute()


def assert_records(path: Path) -> None:
    """Runs a program that must find the library by itself."""
    cpp_programs.run(path, MAREY_LIB="")
    assert profiles.counts(profiles.tree(f"{path.name}.hatchet")) == {"scope": 1}


def test_a_program_is_built_with_the_options_that_marey_prints() -> None:
    assert_records(program("built", marey_options("--cflags", "--libs")))


def test_pkg_config_finds_marey_wherever_the_package_lies() -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("there is no pkg-config here")
    folder = marey_options("--pkgconfigdir")
    options = output("pkg-config", "--cflags", "--libs", "marey", PKG_CONFIG_PATH=folder)
    assert_records(program("packaged", options))
    version = output("pkg-config", "--modversion", "marey", PKG_CONFIG_PATH=folder)
    assert version == marey.__version__
    moved = Path("moved").absolute()
    shutil.copytree(folder, moved / "lib" / "pkgconfig")
    options = output(
        "pkg-config", "--cflags", "marey", PKG_CONFIG_PATH=str(moved / "lib" / "pkgconfig")
    )
    assert Path(options.removeprefix("-I")).resolve() == moved / "include"


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the project of `examples/cpp`, with libtorch if PyTorch is installed."""
    build = tmp_path_factory.mktemp("examples")
    torch = find_spec("torch")
    root = "" if torch is None or torch.origin is None else str(Path(torch.origin).parent)
    configure: list[str | Path] = [
        cmake(),
        "-S",
        cpp_programs.EXAMPLES,
        "-B",
        build,
        f"-Dmarey_DIR={marey_options('--cmakedir')}",
    ]
    cpp_programs.run(*configure, f"-DTORCH_ROOT={root}", "-DCMAKE_BUILD_TYPE=Debug")
    targets = ["profiler_basic", "profiler_advanced", "scopes", "sessions"]
    targets += ["torch_training"] if root else []
    for target in targets:  # each within the deadline of a command
        cpp_programs.run(cmake(), "--build", build, "--target", target)
    return build


def paths(run: str) -> list[str]:
    """Returns the paths of the spans of a run."""
    return [path for (path,) in run_rows(run, "SELECT path FROM spans")]


def test_cmake_accepts_versions_up_to_the_installed_one() -> None:
    Path("CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(versions CXX)\n"
        f"find_package(marey {marey.__version__} EXACT REQUIRED)\n"
        "find_package(marey 0.0.1 REQUIRED)\nfind_package(marey 99)\n"
        'message("newer: ${marey_FOUND}")\n'
    )
    command = [cmake(), "-S", ".", "-B", "build", f"-Dmarey_DIR={marey_options('--cmakedir')}"]
    assert "newer: 0" in cpp_programs.run(*command).stderr


def test_the_basic_example_profiles_operators(examples: Path) -> None:
    done = cpp_programs.run(examples / "profiler_basic", MAREY_LIB="")
    operators = [line.split() for line in done.stdout.splitlines() if "aten::mm" in line]
    assert [fields[3] for fields in operators] == [str(2 * 16 * 64 * 32)] * 3
    args = cpp_programs.Trace("profiler_basic.json").args("aten::mm")
    assert args["Input Dims"] == [[16, 64], [64, 32]]
    assert (args["Module Hierarchy"], args["Call stack"]) == ("encoder", "step")
    assert Counter(paths("profiler_basic.marey")) == {
        "step": 3,
        "step/encoder": 3,
        "step/encoder/aten::mm": 3,
        "step/encoder/aten::relu": 3,
    }


def test_the_advanced_example_has_counters_values_memory_and_links(examples: Path) -> None:
    done = cpp_programs.run(examples / "profiler_advanced", MAREY_LIB="")
    assert done.stdout == "6 operators observed\n"
    trace = cpp_programs.Trace("profiler_advanced.json")
    args = trace.args("aten::mul")
    values = f"tensor([{', '.join(['1.5'] * 8)}])"
    assert (args["Concrete Inputs"], args["Input Strides"]) == ([values, "2.0"], [[1], []])
    assert (args["Module Hierarchy"], args["Sequence number"]) == ("model.scale", 2)
    assert "main" in args["Call stack"]
    assert "page_faults" in args
    assert trace.args("MulBackward0")["Fwd thread id"] == trace.scopes["aten::mul"]["tid"]
    assert trace.args("aten::sum")["keepdim"] == "False"
    memory = [event["args"]["Bytes"] for event in trace.events if event["name"] == "[memory]"]
    assert memory.count(32) == memory.count(-32) + 1, "the input outlives the profile"
    calls = run_rows("profiler_advanced.marey", "SELECT forward_name, name FROM autograd_calls")
    assert calls == [("aten::mul", "MulBackward0")] * 3


def test_the_example_of_scopes_records_them_on_its_threads(examples: Path) -> None:
    cpp_programs.run(examples / "scopes", MAREY_LIB="")
    root = profiles.tree("scopes.hatchet")
    counts = profiles.counts(root)
    assert counts["step"] == 4
    assert sum(count for path, count in counts.items() if path.endswith("solve")) == 8
    elements = [node["metrics"].get("elements", 0) for _, node in profiles.walk(root)]
    assert sum(elements) == 8 * 10000


def test_the_example_of_sessions_sums_up_by_tenant_and_traces_its_second_half(
    examples: Path,
) -> None:
    cpp_programs.run(examples / "sessions", MAREY_LIB="")
    tree, tenants = (profiles.tree(f"{name}.hatchet") for name in ("advanced", "tenants"))
    assert profiles.counts(tree) == {"handle": 6, "handle/decode": 6}
    assert profiles.metrics(profiles.find(tree, "handle")) == {"requests": 6, "last request": 5}
    assert profiles.metrics(profiles.find(tree, "handle/decode")) == {"tokens": 16 * 21}
    requests = {
        path: profiles.metrics(node).get("requests") for path, node in profiles.walk(tenants)
    }
    assert requests == {
        "batch": None,
        "batch/handle": 2,
        "interactive": None,
        "interactive/handle": 4,
    }
    events = json.loads(Path("half.chrome_trace").read_text())["traceEvents"]
    stacks = [
        event["args"]["call_stack"][1:] for event in events if "call_stack" in event.get("args", {})
    ]
    assert stacks.count(["handle", "decode"]) == 3


def test_operators_of_libtorch_are_below_the_scopes_of_cxx(examples: Path) -> None:
    if not (examples / "torch_training").exists():
        pytest.skip("PyTorch is not installed")
    done = cpp_programs.run(examples / "torch_training", MAREY_LIB="")
    assert done.stderr == ""
    counts = Counter(paths("torch_training.marey"))
    assert counts["step/forward/aten::mm"] == 3
    backward = [path for path in counts if path.startswith("step/backward/")]
    assert any(path.endswith("MmBackward0/aten::mm") for path in backward)
    assert counts["step/update/aten::detach"] == 3
