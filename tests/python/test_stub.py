"""The stubs match their modules: the same names, with the same parameters."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest
from marey import _native
from programs import run_command

MODULES = ("marey._native", "marey._engine")


def test_the_stubs_match_the_modules(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    # `__all__` is made by PyO3 and not used.
    (tmp_path / "allowed").write_text("".join(f"{module}.__all__\n" for module in MODULES))
    # Only the stubs are checked: mypy would also read PyTorch, which the package imports.
    (tmp_path / "mypy.ini").write_text("[mypy]\nfollow_imports = skip\n")
    options = ["--allowlist", "allowed", "--mypy-config-file", "mypy.ini"]
    done = run_command(sys.executable, "-m", "mypy.stubtest", *MODULES, *options, cwd=tmp_path)
    assert done.exit_code == 0, done.stdout + done.stderr


def test_every_function_has_a_signature_and_a_docstring() -> None:
    functions = [each for each in vars(_native).values() if inspect.isbuiltin(each)]
    assert len(functions) > 20
    for function in functions:
        assert inspect.signature(function) is not None
        assert (function.__doc__ or "").strip().endswith("."), function.__name__
