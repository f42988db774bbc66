"""`make gpu-check` without a device, and on the double of NVIDIA's libraries."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from programs import run_program
from replay import environment

pytest.importorskip("triton")

CHECK = Path(__file__).with_name("check.py")
LIMIT_SECS = 900

MACHINE = """
clock real offset 5000 drift 20
delivery worker
"""

SKIPPED_ON_THE_DOUBLE = {
    "nvml",  # it is another library, which may be there
    "overhead",  # these compare times
    "stop-leaves-nothing",
}


def check(folder: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs the program in this folder, without PyTorch."""
    return subprocess.run(
        [sys.executable, str(CHECK), "--without-torch", "--untimed", "--output", "out", *options],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECS,
        cwd=folder,
        env={**os.environ, "TRITON_DEFAULT_FP_FUSION": "1", **env},
    )


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of the program after all checks on the double."""
    folder = tmp_path_factory.mktemp("gpu-check")
    done = check(folder, **environment(folder / "lib", MACHINE))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "out"


def test_without_a_device_the_check_succeeds_with_a_message(tmp_path: Path) -> None:
    done = check(tmp_path, CUDA_VISIBLE_DEVICES="", LD_LIBRARY_PATH="")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("gpu-check: skipped, there is no device that opens: ")
    assert list(tmp_path.iterdir()) == []


def test_every_check_that_needs_no_framework_passes_on_the_double(checked: Path) -> None:
    document = json.loads((checked / "nvidia-h200-replayed.json").read_text())
    made = [it for it in document["checks"] if it["world"] == "triton"]
    assert {it["name"] for it in made if it["outcome"] == "skipped"} <= SKIPPED_ON_THE_DOUBLE
    assert [it for it in document["checks"] if it["outcome"] == "failed"] == []
    assert len([it for it in made if it["outcome"] == "ok"]) >= 17
    assert document["device"] == "NVIDIA H200 (replayed)"
    assert document["versions"]["cuda_driver"] == 13000
    assert str(Path.home()) not in json.dumps(document)


def test_a_check_that_fails_fails_the_program(tmp_path: Path) -> None:
    env = environment(tmp_path / "lib", "fail cuptiActivityEnable 35")
    done = check(tmp_path, "--only", "eager-tree", **env)
    assert done.returncode == 1
    assert "failed" in done.stdout
    assert "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" in done.stdout


def test_records_that_are_lost_fail_the_checks(tmp_path: Path) -> None:
    env = environment(tmp_path / "lib", "fail cuptiActivityGetNextRecord 999 at 100")
    done = check(tmp_path, "--only", "eager-tree", "--only", "graph-tree", **env)
    assert done.returncode == 1
    assert done.stdout.count("\nfailed") == 2, done.stdout


def test_a_check_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    env = environment(tmp_path / "lib", MACHINE)
    done = check(tmp_path, "--only", "eager-tree", "--seconds", "0", **env)
    assert done.returncode == 0
    assert "skipped" in done.stdout
    assert "0 s were over" in done.stdout


def test_launches_that_cost_more_after_a_session_fail_the_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(CHECK.parent)
    cost = importlib.import_module("checks.cost")
    even = [0.998, 1.001, 1.0, 1.002]
    assert cost.judge(even)["after_by_never_ratio"] == pytest.approx(1.0, abs=0.002)
    with pytest.raises(AssertionError, match="longer than without a session"):
        cost.judge([ratio + 0.05 for ratio in even])
    noisy = [0.8, 1.3, 0.9, 1.2]
    for ratios in (noisy, even[:3], []):
        with pytest.raises(cost.Skipped, match="vary too much"):
            cost.judge(ratios)


def test_the_replay_script_reproduces_the_recording(checked: Path, tmp_path: Path) -> None:
    script = checked / "nvidia-h200-replayed.replay"
    done = run_program(
        """
        import json
        import sys

        import marey
        from replay import Double

        double = Double()
        session = marey.start("x", data="trace", backend="cupti")
        double.run()
        marey.finalize(session, "marey")
        query = '''
            SELECT kind, name, stream, duration_nanos, bytes, grid FROM gpu_activities
            WHERE kind IN ('kernel', 'memcpy', 'memset')
        '''
        print(json.dumps(marey.open("x.marey").sql(query).rows()))
        """,
        **{**environment(tmp_path / "lib"), "MAREY_REPLAY": str(script)},
    )
    assert done.exit_code == 0, done.stderr
    played = [tuple(row) for row in json.loads(done.stdout)]
    assert Counter(_as_written(*row) for row in played) == _operations(script.read_text())


def _as_written(
    kind: str, name: str, stream: int, nanos: int, size_bytes: int | None, grid: str | None
) -> tuple[Any, ...]:
    """Returns the properties of an activity that a script stores."""
    what = name if kind == "kernel" else size_bytes
    return (kind, what, stream, nanos, grid)


def _operations(script: str) -> Counter[tuple[Any, ...]]:
    """Returns the operations of a script, those of graphs once per launch."""
    kinds = {"launch": "kernel", "copy": "memcpy", "set": "memset"}
    graphs: dict[str, list[tuple[Any, ...]]] = {}
    found: Counter[tuple[Any, ...]] = Counter()
    captured: list[tuple[Any, ...]] | None = None
    for line in script.splitlines():
        word, *words = line.split()
        options = dict(re.findall(r"(stream|duration|grid) (\S+)", line))
        if word == "capture":
            captured = graphs.setdefault(words[0], [])
        elif word == "}":
            captured = None
        elif word == "graph":
            found.update((*it[:2], int(options["stream"]), *it[3:]) for it in graphs[words[0]])
        elif word in kinds:
            what = words[0].strip('"') if word == "launch" else int(words[word == "copy"])
            stream = int(options.get("stream", 0))
            it = (kinds[word], what, stream, int(options["duration"]), options.get("grid"))
            if captured is None:
                found[it] += 1
            else:
                captured.append(it)
    return found
