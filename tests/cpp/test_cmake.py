"""C++ programs find marey by `find_package`, `pkg-config`, `marey --cflags`; and `examples/cpp`."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import cpp_programs
import marey
import profiles
import pytest

LIB = cpp_programs.PACKAGE / "lib"


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("MAREY_DISABLE", "MAREY_LIB", "MAREY_RUN", "RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)


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
    done = subprocess.run(
        ["c++", "-std=c++17", "program.cpp", "-o", name, *shlex.split(options)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
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
    targets = ["profiler_basic", "profiler_advanced", *(["torch_training"] if root else [])]
    cpp_programs.run(cmake(), "--build", build, "--parallel", "2", "--target", *targets)
    return build


def test_cmake_accepts_versions_up_to_the_installed_one() -> None:
    Path("CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(versions CXX)\n"
        f"find_package(marey {marey.__version__} EXACT REQUIRED)\n"
        "find_package(marey 0.0.1 REQUIRED)\nfind_package(marey 99)\n"
        'message("newer: ${marey_FOUND}")\n'
    )
    command = [cmake(), "-S", ".", "-B", "build", f"-Dmarey_DIR={marey_options('--cmakedir')}"]
    assert "newer: 0" in cpp_programs.run(*command).stderr


def test_the_basic_example_records_scopes_of_its_threads(examples: Path) -> None:
    cpp_programs.run(examples / "profiler_basic", MAREY_LIB="")
    root = profiles.tree("profiler_basic.hatchet")
    counts = profiles.counts(root)
    assert counts["step"] == 4
    assert sum(count for path, count in counts.items() if path.endswith("solve")) == 8
    elements = [node["metrics"].get("elements", 0) for _, node in profiles.walk(root)]
    assert sum(elements) == 8 * 10000


def test_the_advanced_example_sums_up_by_tenant_and_traces_its_second_half(examples: Path) -> None:
    cpp_programs.run(examples / "profiler_advanced", MAREY_LIB="")
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
    cpp_programs.run(examples / "torch_training", MAREY_LIB="")
    counts = profiles.counts(profiles.tree("torch_training.hatchet"))
    assert counts["step/forward/aten::mm"] == 3
    backward = [path for path in counts if path.startswith("step/backward/")]
    assert any(path.endswith("MmBackward0/aten::mm") for path in backward)
    assert counts["step/update/aten::detach"] == 3
