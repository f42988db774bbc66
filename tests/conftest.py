"""Fixtures of all folders. Helpers that tests import are modules of `support/`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import marey
import pytest

# Helpers assert as tests do, and their failures must show the values too.
pytest.register_assert_rewrite(
    "analyses",
    "attaching",
    "cpp_programs",
    "profiles",
    "programs",
    "rules",
    "scripts",
    "trace_files",
    "viewer_graphs",
    "viewers",
)

from attaching import busy  # noqa: E402, F401 - fixture
from browser import Browser, Unavailable  # noqa: E402
from triton_wheels import triton_36, triton_path  # noqa: E402, F401 - fixtures

# Programs inherit ignored signals: a suite that runs in the background ignores these two.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs a test in its own directory, as no rank, and ends the sessions that it leaves open."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for name in ("MAREY_DISABLE", "MAREY_RUN", "RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    yield
    marey.finalize()


@pytest.fixture
def session() -> int:
    """A session of the tree of scopes."""
    number = marey.start("x")
    assert number is not None
    return number


@pytest.fixture
def spools_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disables collection in a test that reads spools."""
    monkeypatch.setenv("MAREY_COLLECT", "0")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A started browser; skips the test where none can be had."""
    try:
        with Browser() as started:
            yield started
    except Unavailable as reason:
        pytest.skip(str(reason))
