"""Tries a wheel on every supported CPython that is here: `python .ci/smoke.py dist/marey-*.whl`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MINORS = (10, 11, 12, 13)


def main(arguments: list[str]) -> None:
    """Installs the wheel into a venv of each interpreter and probes it there."""
    if arguments == ["--probe"]:
        probe()
        return
    (wheel,) = arguments
    found = [python for minor in MINORS if (python := interpreter(minor)) is not None]
    if not found:
        sys.exit("error: no CPython from 3.10 to 3.13 is here")
    for python in found:
        with tempfile.TemporaryDirectory() as folder:
            try_wheel(Path(wheel), python, Path(folder))


def interpreter(minor: int) -> Path | None:
    """The path of a CPython 3.`minor` that runs, from PATH or from pyenv."""
    name = f"python3.{minor}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(name)
    candidates = [Path(on_path)] if on_path else []
    candidates += sorted(pyenv.glob(f"3.{minor}.*/bin/{name}"), reverse=True)
    return next((candidate for candidate in candidates if runs(candidate)), None)


def runs(python: Path) -> bool:
    """Whether `python` starts and can make virtual environments."""
    command = [str(python), "-c", "import ensurepip, venv"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def try_wheel(wheel: Path, python: Path, folder: Path) -> None:
    """Installs `wheel` for `python` below `folder`, then runs `probe` with it."""
    subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
    inside = folder / "venv/bin/python"
    pip = [str(inside), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, str(wheel.resolve())], check=True)
    subprocess.run([inside, Path(__file__).resolve(), "--probe"], cwd=folder, check=True)


def probe() -> None:
    """Profiles a little program in each context and by each door, and reads the files back."""
    for context in ("shadow", "python"):
        names = record(context)
        assert {"ROOT", "outer", "inner"} <= names, (context, names)
        frames = any(name.endswith("@work") for name in names)
        assert frames == (context == "python"), (context, names)
    run_and_view()
    print(f"CPython {sys.version.split()[0]}: the wheel works")


def record(context: str) -> set[str]:
    """Profiles `work` in this process; returns the names in the file."""
    import marey

    marey.start(f"recorded_{context}", context=context)
    with marey.scope("outer", {"items": 3}):
        work()
    marey.finalize()
    return names_in(f"recorded_{context}")


def work() -> None:
    """A function whose frame is to be found again."""
    import marey

    with marey.scope("inner"):
        sum(range(1000))


def run_and_view() -> None:
    """Profiles a script by `marey run` and reads the file with `marey view`."""
    script = Path("script.py")
    script.write_text("import marey\nwith marey.scope('scripted'):\n    print('from the script')\n")
    marey = Path(sys.executable).with_name("marey")
    ran = subprocess.run(
        [marey, "run", "-n", "ran", script], stdout=subprocess.PIPE, text=True, check=True
    )
    assert ran.stdout == "from the script\n", ran.stdout
    assert "scripted" in names_in("ran")
    (file,) = Path.cwd().glob("ran*.hatchet")
    viewed = subprocess.run([marey, "view", file], stdout=subprocess.PIPE, text=True, check=True)
    assert "scripted" in viewed.stdout, viewed.stdout


def names_in(start: str) -> set[str]:
    """The names of all nodes in the one profile whose file name begins with `start`."""
    (file,) = Path.cwd().glob(f"{start}*.hatchet")
    return set(walk(json.loads(file.read_text())[0]))


def walk(node: dict[str, Any]) -> Iterator[str]:
    """The names of `node` and of everything below it."""
    yield node["frame"]["name"]
    for child in node["children"]:
        yield from walk(child)


if __name__ == "__main__":
    main(sys.argv[1:])
