"""The Makefile, with fast stand-ins for slow programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from paths import ROOT

MAKEFILE = ROOT / "Makefile"
INPUTS = ("README.md", "Cargo.toml", "clippy.toml", "pyproject.toml", "setup.py")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="Rust is not installed")


@pytest.fixture(autouse=True)
def without_options_of_an_outer_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps options such as `-k`, with which these tests may be run, from the inner `make`."""
    monkeypatch.delenv("MAKEFLAGS", raising=False)


@pytest.fixture
def make(tmp_path: Path) -> list[str]:
    """A command for a checkout whose `pip` prints a line of Cargo's and waits for its exit code."""
    shutil.copy(MAKEFILE, tmp_path)
    (tmp_path / ".cargo").mkdir()
    for path in (*INPUTS, ".cargo/config.toml"):
        (tmp_path / path).touch()
    os.mkfifo(tmp_path / "ending")
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(
        "#!/bin/sh\n"
        "echo '  Running command Preparing metadata'\n"
        "echo '     Compiling first v1.0.0' >&2\n"
        'read -r ending < ending && echo "ends with $ending" && exit "$ending"\n'
    )
    python.chmod(0o755)
    return ["make", "--directory", str(tmp_path), f"VENV={tmp_path}/venv"]


@pytest.mark.parametrize(
    ("target", "ending", "exit_code"),
    [
        ("wheel", "0", 0),
        ("wheel", "1", 2),
        ("demo", "1", 2),
        ("target/stamps/demo-wheel", "0", 0),
        ("target/stamps/local-wheel", "0", 0),
    ],
)
def test_building_the_wheel_shows_progress(
    make: list[str], tmp_path: Path, target: str, ending: str, exit_code: int
) -> None:
    command = [*make, target]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as build:
        assert build.stdout is not None
        shown = []
        for line in build.stdout:
            shown.append(line)
            if "Compiling first" in line:
                break
        (tmp_path / "ending").write_text(f"{ending}\n")  # only now can the build end
        shown += build.stdout
    assert any(line.startswith("compiling marey") for line in shown)
    assert sum("Compiling first" in line for line in shown) == 1 + (ending != "0")
    # The full output is only shown after a failure.
    assert any("Preparing metadata" in line for line in shown) == (ending != "0")
    assert build.returncode == exit_code


# `make check` tests a changed crate together with these, which have no tests.
COMPANIONS = ("--package=marey-capi", "--package=marey-engine", "--package=marey-py")


def test_check_repeats_only_what_a_change_affects(tmp_path: Path) -> None:
    shutil.copy(MAKEFILE, tmp_path)
    inputs = (*INPUTS, "Cargo.lock", "rustfmt.toml", ".cargo/config.toml", "tests/requirements.txt")
    for path in inputs:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    sources = [tmp_path / f"crates/{name}/src/lib.rs" for name in ("first", "second")]
    for source in sources:
        source.parent.mkdir(parents=True)
        source.touch()
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    cargo = tmp_path / "cargo"
    for program in (python, cargo):
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/commands\n')
        program.chmod(0o755)

    def check() -> list[str]:
        """Returns what `make check` starts."""
        log = tmp_path / "commands"
        log.write_text("")
        command = ["make", "--directory", str(tmp_path), f"VENV={python.parent.parent}"]
        subprocess.run([*command, f"CARGO={cargo}", "check"], check=True, timeout=60)
        return log.read_text().splitlines()

    def tested(started: list[str]) -> set[str]:
        """Returns the crates whose tests are run, as Cargo's options."""
        [tests] = [line for line in started if line.startswith("nextest run")]
        return {option for option in tests.split() if option.startswith(("--package", "--work"))}

    def change(source: Path) -> None:
        """Makes `source` newer than each stamp: the clock of files ticks every few milliseconds."""
        stamps = (tmp_path / "target/stamps").iterdir()
        newest = max(stamp.stat().st_mtime_ns for stamp in stamps)
        while source.stat().st_mtime_ns <= newest:
            source.touch()

    started = check()
    assert any(line.startswith("clippy --workspace") for line in started)
    assert tested(started) == {"--workspace"}
    assert check() == []

    change(sources[1])
    started = check()
    assert any(line.startswith("clippy --workspace") for line in started)
    assert tested(started) == {"--package=second", *COMPANIONS}
    assert not any("mypy" in line for line in started)

    for source in sources:
        change(source)
    assert tested(check()) == {"--package=first", "--package=second", *COMPANIONS}


@needs_cargo
def test_check_compiles_no_library_again_with_other_features() -> None:
    assert features(*COMPANIONS) <= features("--workspace")


@needs_cargo
def test_the_wheel_compiles_no_library_again_after_the_tests() -> None:
    assert features("--package=marey-engine", edges="normal,build") <= features("--workspace")


def test_the_tests_compile_each_crate_of_the_workspace_without_optimisation() -> None:
    profile = (ROOT / "Cargo.toml").read_text().partition("[profile.bench.package]")[2]
    unoptimised = re.findall(r"^([a-z-]+) = { opt-level = 0,", profile, re.MULTILINE)
    crates = [path.parent.name for path in ROOT.glob("crates/*/Cargo.toml")]
    assert unoptimised == sorted([*crates, "xtask"])


def features(*selection: str, edges: str = "normal,build,dev") -> set[str]:
    """Returns what Cargo compiles for a selection of crates: each package with its features."""
    command = ["cargo", "tree", "--locked", "--offline", *selection]
    command += [f"--edges={edges}", "--prefix=none", "--format={p} {f}"]
    tree = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return {line.removesuffix(" (*)") for line in tree.stdout.splitlines()}
