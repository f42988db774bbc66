"""Reports under a memory limit: queries beyond the limit are reported, the others run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import marey
import pytest
from programs import marey_command, run_command

SPANS = 300_000
LIMIT_MIB = 48


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one activity and many host spans, all of which are on the critical path."""
    folder = tmp_path_factory.mktemp("memory")
    event = '{{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":1,"ts":{},"dur":{}{}}}'.format
    events = [
        event("cpu_op", f"aten::op{number % 50}", 1, number, 0.9, "") for number in range(SPANS)
    ]
    of_device = ',"args":{"device":0,"stream":7,"correlation":1}'
    events.append(event("kernel", "gemm", 0, SPANS // 2, 10, of_device))
    trace = folder / "trace.json"
    trace.write_text(f'{{"schemaVersion":1,"traceEvents":[{",".join(events)}]}}')
    marey.import_files(trace, folder / "trace.marey")
    return folder / "trace.marey"


# A process counts the memory of the one that it was forked from, so a small one starts it.
MEASURED = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, file=sys.stderr)
sys.exit(status)
"""


def analysed(run: Path, *options: str, **variables: str) -> tuple[dict[str, Any], int]:
    """Returns a report and the peak of resident memory in bytes."""
    analyze = [sys.executable, "-m", "marey", "analyze", str(run), "-f", "json", *options]
    done = run_command(sys.executable, "-c", MEASURED, *analyze, **variables)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout), int(done.stderr.split()[-1])


def tables(report: dict[str, Any]) -> dict[str, Any]:
    return {table["name"]: table for table in report["tables"]}


def test_a_query_beyond_the_limit_is_reported_and_the_others_run(run: Path) -> None:
    whole, max_bytes = analysed(run)
    assert [table["missing"] for table in whole["tables"]] == [None] * len(whole["tables"])
    small, bytes_ = analysed(run, "--memory-limit", f"{LIMIT_MIB}MiB")
    assert f"needs more than {LIMIT_MIB} MiB of memory" in tables(small)["critical_path"]["missing"]
    assert small["summary"] == whole["summary"]
    for name in ("operations", "kernels", "devices"):
        assert tables(small)[name]["rows"] == tables(whole)[name]["rows"] != []
    # The path takes 140 MB; the rest is the program and what it reads.
    _, little_bytes = analysed(run, "--section", "devices")
    assert bytes_ < little_bytes + (LIMIT_MIB << 20) < max_bytes


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "RUN", "RUN"),
        ("check", "RUN", "--baseline", "RUN", "--fail-on", "gpu_idle.percent>30"),
    ],
)
def test_comparisons_and_gates_have_the_memory_limit(command: tuple[str, ...], run: Path) -> None:
    words = [str(run) if word == "RUN" else word for word in command]
    done = marey_command(*words, MAREY_MEMORY_LIMIT="16KiB")
    assert done.exit_code == 2, done.stdout
    assert "needs more than 16 KiB of memory" in done.stderr


def test_an_opened_run_has_the_memory_limit(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    window = "SELECT sum(duration_nanos) OVER () FROM spans"
    monkeypatch.setenv("MAREY_MEMORY_LIMIT", "1MiB")
    with marey.open(run) as opened, pytest.raises(marey.QueryError, match="more than 1 MiB"):
        opened.sql(window)
    with marey.open(run, memory_limit=1 << 30) as opened:
        opened.sql(window)


def test_reports_and_queries_have_the_memory_limit(run: Path) -> None:
    report, _ = analysed(run, MAREY_MEMORY_LIMIT=f"{LIMIT_MIB}MiB")
    assert f"{LIMIT_MIB} MiB" in tables(report)["critical_path"]["missing"]
    window = "SELECT sum(duration_nanos) OVER () FROM spans"
    for limit, says in (
        ("1MiB", "needs more than 1 MiB of memory"),
        ("much", "invalid value of MAREY_MEMORY_LIMIT"),
    ):
        asked = marey_command("query", run, window, MAREY_MEMORY_LIMIT=limit)
        assert asked.exit_code == 2
        assert says in asked.stderr
