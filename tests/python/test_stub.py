"""`_native.pyi` matches the module: the same names, with the same parameters."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from marey import _native


def test_the_stub_matches_the_module(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    allowed = tmp_path / "allowed"
    allowed.write_text("marey._native.__all__\n")  # made by PyO3, and not used
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "marey._native", "--allowlist", str(allowed)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_function_has_a_signature_and_a_docstring() -> None:
    functions = [each for each in vars(_native).values() if inspect.isbuiltin(each)]
    assert len(functions) > 20
    for function in functions:
        assert inspect.signature(function) is not None
        assert (function.__doc__ or "").strip().endswith("."), function.__name__
