"""Runs Proton's own tests on marey, from a folder of Triton's sources, with replaced imports.

    python tests/recording/upstream_proton.py triton/third_party/proton/test [PYTEST ARGUMENTS]

Copies the folder, replaces every `triton.profiler` by `marey`, and runs `test_api.py` and
`test_viewer.py`, which need no GPU. Triton 3.9 and its requirements must be installed beside marey.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

FILES = ("test_api.py", "test_viewer.py")
SWAPS = (("triton.profiler", "marey"), ("proton-viewer", "marey-viewer"))
DIFFERENCES = {
    "test_scope_exclusive": "counts a node's metrics, and marey adds its wall time to each scope",
}
"""Tests that must fail, and why that is meant."""


class Differences:
    """Expects exactly the intended failures."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if reason := DIFFERENCES.get(item.name):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def main(folder: Path, arguments: list[str]) -> int:
    """Returns the exit code of pytest."""
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        print(f"error: {folder} has no {missing[0]}", file=sys.stderr)
        print("hint: name the folder third_party/proton/test of Triton's sources", file=sys.stderr)
        return 2
    # The tests call commands that are installed beside the interpreter.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch, "test")
        shutil.copytree(folder, copy)
        for name in FILES:
            swap_imports(copy / name)
        os.chdir(copy)
        options = ["-ra", "-p", "no:cacheprovider", "--rootdir", str(copy), *arguments]
        return int(pytest.main([*options, *FILES], plugins=[Differences()]))


def swap_imports(file: Path) -> None:
    """Replaces Proton's import and viewer in a file by marey's."""
    text = file.read_text()
    for proton, marey in SWAPS:
        text = text.replace(proton, marey)
    file.write_text(text)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
