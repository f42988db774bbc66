"""Defaults of `marey run` from `[tool.marey]` in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from programs import Outcome, marey_command

pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")


def run(table: str, *arguments: str) -> Outcome:
    """Runs an empty program below a project with this table."""
    Path("pyproject.toml").write_text(table)
    inner = Path("package")
    inner.mkdir()
    (inner / "program.py").write_text("import marey\nwith marey.scope('s'): pass\n")
    return marey_command("run", *arguments, "program.py", cwd=inner)


def test_the_nearest_project_sets_defaults() -> None:
    done = run('[tool.marey]\ndata = "trace"\nchildren = false\n')
    assert done.exit_code == 0, done.stderr
    assert Path("package/program.chrome_trace").exists()


def test_an_option_overrides_the_project() -> None:
    done = run('[tool.marey]\ndata = "trace"\n', "-d", "tree")
    assert done.exit_code == 0, done.stderr
    assert Path("package/program.hatchet").exists()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[tool.marey]\noperator = true\n", "tool.marey.operator is unknown; did you mean opera"),
        ("[tool.marey]\nname = 'x'\n", "tool.marey.name is unknown; known: backend, context, data"),
        ("[tool.marey]\noperators = 1\n", "tool.marey.operators must be true or false"),
        ("[tool.marey]\ndata = 'tre'\n", "tool.marey.data must be one of tree, trace"),
        ("[tool.marey]\ndata = [\n", "pyproject.toml is not valid TOML: "),
        ("[tool]\nmarey = 1 # [tool.marey]\n", "tool.marey must be a table"),
    ],
)
def test_a_wrong_table_is_refused_with_its_place(table: str, message: str) -> None:
    done = run(table)
    assert done.exit_code == 2
    assert f"error: {Path('pyproject.toml').absolute()}" in done.stderr
    assert message in done.stderr
    assert not list(Path("package").glob("program.[hmc]*"))


def test_a_project_without_a_table_changes_nothing() -> None:
    done = run("[tool.other]\ndata = 'trace'\n")
    assert done.exit_code == 0, done.stderr
    assert Path("package/program.hatchet").exists()


def test_operators_need_the_hooks() -> None:
    done = run("[tool.marey]\noperators = true\n", "--no-torch")
    assert done.exit_code == 2
    assert "--operators needs the hooks that --no-torch leaves out" in done.stderr
