"""`StreamProfiler`, on the double of NVIDIA's libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import marey
import pytest
from gpu_programs import PROGRAM, run
from marey.metrics import StreamProfiler
from programs import run_program, run_well
from replay import environment
from trace_files import run_rows

# The kernels of the first launches are still running when the last one is launched.
SCRIPT = """
    clock real
    part streams {
        launch a stream 13 duration 500000000
        launch b stream 14 duration 400000000
        launch c stream 15 duration 100000000
        launch d stream 13 duration 100000000 gap 50000000
        copy to-host 64 stream 16 duration 25000000
    }
    part late {
        launch e stream 21 duration 1000
        pass 30000000
        launch f stream 21 duration 1000
    }
    part other {
        launch g stream 30 duration 1000
    }
"""


def profile(body: str, script: str = SCRIPT, **env: str) -> Any:
    """Runs a program that prints a JSON document as its last line."""
    return json.loads(run("import json\n" + body, script, **env).splitlines()[-1])


FOUR_STREAMS = """
profiler = marey.metrics.StreamProfiler(num_streams={count})
with profiler:
    double.play("streams")
print(json.dumps(profiler.get_stream_efficiency()))
"""


def test_busy_time_overlap_and_gaps_of_each_stream() -> None:
    figures = profile(FOUR_STREAMS.format(count=4))
    rows = {row["stream"]: row for row in figures["streams"]}
    assert set(rows) == {13, 14, 15, 16}
    assert rows[13]["activities"] == 2
    assert rows[13]["busy_ms"] == pytest.approx(600)
    assert rows[13]["gaps"] == {"other": pytest.approx(50)}
    window = figures["window_ms"]
    assert window == pytest.approx(650, rel=0.01)
    assert rows[13]["busy_percent"] == pytest.approx(100 * 600 / window)
    assert rows[13]["overlap_percent"] == pytest.approx(100 * 400 / 600, rel=0.05)
    assert rows[15]["overlap_percent"] == pytest.approx(100)
    assert figures["efficiency"] == pytest.approx(1125 / (4 * window))
    assert figures["overlap_percent"] == pytest.approx(100 * 400 / 600, rel=0.05)
    assert figures["mean_busy_streams"] == pytest.approx(1125 / 600, rel=0.05)
    pairs = {tuple(pair["streams"]): pair["overlap_ms"] for pair in figures["pairs"]}
    assert pairs[13, 14] == pytest.approx(400, rel=0.05)
    assert len(pairs) == 6


def test_efficiency_is_relative_to_the_number_of_streams() -> None:
    eight = profile(FOUR_STREAMS.format(count=8))
    assert (eight["num_streams"], eight["used_streams"]) == (8, 4)
    assert eight["efficiency"] == pytest.approx(1125 / (8 * eight["window_ms"]))


def test_a_gap_names_what_the_host_did() -> None:
    figures = profile(
        """
        profiler = marey.metrics.StreamProfiler()
        with profiler:
            double.launch("first", 1000)
            with marey.scope("load data"):
                threading.Event().wait(0.03)
            double.launch("second", 1000)
        profiler.print_stream_efficiency()
        print(json.dumps(profiler.get_stream_efficiency()))
        """.replace("\n        ", "\n")
    )
    [row] = figures["streams"]
    [(cause, millis)] = row["gaps"].items()
    assert cause.startswith("host wait")
    assert 30 <= millis < 5000


def test_only_the_block_is_measured_and_another_session_goes_on() -> None:
    figures = profile(
        """
session = marey.start("profile", data="trace")
double.play("other")
with marey.metrics.StreamProfiler() as profiler:
    double.play("streams")
double.play("late")
with marey.metrics.StreamProfiler() as second:
    double.play("late")
double.play("other")
marey.finalize(session, "marey")
print(json.dumps([profiler.get_stream_efficiency(), second.get_stream_efficiency()]))
"""
    )
    first, second = ([row["stream"] for row in part["streams"]] for part in figures)
    assert (first, second) == ([13, 14, 15, 16], [21])
    # What the stream did before the block is no gap of the block.
    [row] = figures[1]["streams"]
    assert row["busy_ms"] + row["gap_ms"] == pytest.approx(figures[1]["window_ms"])
    with marey.open("profile.marey") as recorded:
        names = recorded.sql("SELECT name FROM gpu_activities WHERE stream = 30").column("name")
    assert names == ["g", "g"]


def test_it_works_under_marey_run_and_keeps_the_named_run() -> None:
    program = PROGRAM + (
        """
from marey.metrics import StreamProfiler
with StreamProfiler(num_streams=2, name="streams") as profiler:
    double.play("streams")
print(profiler.summary())
"""
    )
    Path("inner.py").write_text(program)
    done = run_program(
        """
        import sys
        from marey._cli import main
        sys.argv = ["marey", "run", "inner.py"]
        sys.exit(main())
        """,
        **environment(Path("lib"), SCRIPT),
    )
    assert "4 of 2 streams used" in done.stdout, done.stderr
    assert len(run_rows("streams.marey", "SELECT 1 FROM gpu_activities")) == 5


def test_without_a_name_no_folder_remains(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    figures = profile(FOUR_STREAMS.format(count=4), TMPDIR=str(temporary))
    assert figures["used_streams"] == 4
    assert list(temporary.iterdir()) == []
    assert not list(tmp_path.glob("*.marey"))


def test_the_summary_lists_streams_and_gaps() -> None:
    text = run(
        "with marey.metrics.StreamProfiler(4) as profiler: double.play('streams')\n"
        "profiler.print_stream_efficiency()",
        SCRIPT,
    )
    assert "4 of 4 streams used, efficiency 43." in text
    assert "Gaps of 0:13: 50.000 ms other" in text
    assert "0:16" in text


def test_without_a_gpu_the_reason_is_given() -> None:
    output = run_well(
        """
        import marey.metrics
        with marey.metrics.StreamProfiler() as profiler:
            pass
        print(profiler.summary())
        try:
            profiler.get_stream_efficiency()
        except RuntimeError as error:
            print(error)
        print("x" in profiler._repr_html_())
        """
    )
    assert output.count("no GPU was found") + output.count("used no NVIDIA GPU") == 2


def test_a_disabled_marey_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAREY_DISABLE", "1")
    with StreamProfiler() as profiler:
        pass
    assert "MAREY_DISABLE is set" in profiler.summary()


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ValueError, match="num_streams must be at least 1, not 0"):
        StreamProfiler(num_streams=0)
    profiler = StreamProfiler()
    with pytest.raises(RuntimeError, match="nothing was profiled yet"):
        profiler.get_stream_efficiency()
    with pytest.raises(RuntimeError, match="profiles no block"):
        profiler.__exit__(None, None, None)
    with profiler, pytest.raises(RuntimeError, match="profiles a block already"):
        profiler.__enter__()
