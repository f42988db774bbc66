"""`Reporter`: JSON, CSV, text, and files that cannot be written."""

from __future__ import annotations

import csv
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from marey.metrics import MetricsCollector, Report, Reporter
from paths import ROOT
from programs import run_well

SAVES = ("save_json", "save_csv", "save_html")

# The structure that Kitsune documents, with the types of its values.
DOCUMENTED = {
    "timing": {"forward_pass": {"mean": float, "std": float, "min": float, "max": float}},
    "memory": {"peak_allocated": int, "peak_reserved": (int, type(None))},
    "throughput": {"samples_per_sec": float, "iterations_per_sec": float},
}


@pytest.fixture
def collector() -> MetricsCollector:
    collector = MetricsCollector("training")
    for number in range(10):
        collector.record("batch_size", 4)
        with collector.measure_time("iteration"), collector.measure_time("forward_pass"):
            sum(range(1000))
        collector.record("loss", 1 / (number + 1))
    return collector


def check_structure(value: Any, documented: Any) -> None:
    if isinstance(documented, dict):
        for key, expected in documented.items():
            check_structure(value[key], expected)
    else:
        assert isinstance(value, documented)


def test_json_has_the_documented_structure(collector: MetricsCollector) -> None:
    path = Reporter(collector).save_json("metrics.json")
    assert path == str(Path("metrics.json").absolute())
    document = json.loads(Path(path).read_text())
    check_structure(document, DOCUMENTED)
    timing = document["timing"]["forward_pass"]
    assert {"p50", "p99", "count", "total"} <= timing.keys()
    assert timing["min"] <= timing["p50"] <= timing["p99"] <= timing["max"]
    assert document["memory"]["peak_allocated"] > 1_000_000
    assert list(document)[:3] == ["timing", "memory", "throughput"]


def test_json_is_valid_with_values_that_are_not_finite(collector: MetricsCollector) -> None:
    collector.record("huge", 1e308)
    collector.record("huge", 1e308)
    with pytest.warns(UserWarning, match="bad"):
        collector.record("bad", float("inf"))

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    path = Reporter(collector).save_json("metrics.json")
    document = json.loads(Path(path).read_text(), parse_constant=refuse)
    assert document["values"]["bad"] == {**dict.fromkeys(document["values"]["bad"])} | {
        "count": 0,
        "not_finite": 1,
    }
    assert document["values"]["huge"]["max"] == 1e308


def test_csv_has_a_row_for_each_figure(collector: MetricsCollector) -> None:
    path = Reporter(collector).save_csv("metrics.csv")
    with open(path, newline="") as file:
        rows = {(row["kind"], row["name"]): row for row in csv.DictReader(file)}
    assert rows["timing", "forward_pass"]["unit"] == "ms"
    assert float(rows["timing", "forward_pass"]["mean"]) > 0
    assert float(rows["values", "loss"]["last"]) == pytest.approx(0.1)
    assert float(rows["throughput", "samples_per_sec"]["last"]) > 0
    assert int(rows["memory", "peak_allocated"]["last"]) > 0


def test_csv_quotes_names(collector: MetricsCollector) -> None:
    name = 'a,"b"\nc'
    collector.record(name, 1)
    with open(Reporter(collector).save_csv("metrics.csv"), newline="") as file:
        assert name in [row["name"] for row in csv.DictReader(file)]


def test_the_summary_has_times_values_memory_and_throughput(
    collector: MetricsCollector, capsys: pytest.CaptureFixture[str]
) -> None:
    Reporter(collector).print_summary()
    output = capsys.readouterr().out
    assert "peak_allocated" in output
    for word in ("Times (ms)", "forward_pass", "Values", "loss", "GB (host)", "samples_per_sec"):
        assert word in output


def test_an_empty_collector_has_a_report() -> None:
    reporter = Reporter(MetricsCollector())
    reporter.save_json("metrics.json")
    reporter.save_csv("metrics.csv")
    reporter.save_html("metrics.html")
    assert "peak_allocated" in str(reporter.report())
    assert json.loads(Path("metrics.json").read_text())["timing"] == {}


def test_a_report_is_a_dict(collector: MetricsCollector) -> None:
    report = collector.generate_report()
    assert isinstance(report, Report)
    assert isinstance(report, dict)
    assert json.loads(report.to_json())["values"] == report["values"]


def test_the_five_lines_of_the_readme_save_a_report() -> None:
    section = (ROOT / "README.md").read_text().partition("## Measure and report")[2]
    listing = section.partition("```python\n")[2].partition("```")[0]
    assert len(listing.splitlines()) <= 5
    exec(listing, {"loader": range(3), "train_step": float})
    page = Path("report.html").read_text()
    assert "iteration: 3 from" in page
    assert "loss: 3 from" in page


# Files that cannot be written


@pytest.mark.parametrize("save", SAVES)
def test_a_full_disk_names_the_file_and_keeps_figures(
    collector: MetricsCollector, save: str
) -> None:
    with pytest.raises(OSError, match=r"cannot write the report: No space left.*/dev/full"):
        getattr(Reporter(collector), save)("/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    assert collector.generate_report()["timing"]["iteration"]["count"] == 10


def test_a_disk_that_becomes_full_leaves_the_old_file() -> None:
    program = """
    import os, resource, signal
    from marey.metrics import MetricsCollector, Reporter
    collector = MetricsCollector()
    reporter = Reporter(collector)
    collector.record("loss", 1)
    path = reporter.save_json("metrics.json")
    old = open(path).read()
    for number in range(1000):
        collector.record(f"value {number}", 1)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    try:
        reporter.save_json("metrics.json")
    except OSError as error:
        print(error.filename == path, "File too large" in str(error))
    print(open(path).read() == old, os.listdir())
    print(len(collector.values()))
    """
    lines = run_well(program).splitlines()
    assert lines[0] == "True True"
    assert lines[1].startswith("True ")
    assert ".tmp" not in lines[1]
    assert lines[2] == "1001"


@pytest.mark.parametrize("save", SAVES)
def test_a_missing_folder_names_the_file(collector: MetricsCollector, save: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"cannot write the report: .*missing/metrics"):
        getattr(Reporter(collector), save)("missing/metrics")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to read-only folders")
def test_a_read_only_folder_names_the_file(collector: MetricsCollector) -> None:
    Path("folder").mkdir(mode=0o500)
    with pytest.raises(PermissionError, match=r"cannot write the report: .*folder/metrics.json"):
        Reporter(collector).save_json("folder/metrics.json")


def test_a_read_only_file_system_names_the_file(collector: MetricsCollector) -> None:
    # The one that every Linux machine has, also for root.
    with pytest.raises(OSError, match=r"cannot write the report: .*/proc/self/metrics.json"):
        Reporter(collector).save_json("/proc/self/metrics.json")


def test_the_file_can_be_read_by_others(collector: MetricsCollector) -> None:
    umask = os.umask(0o022)
    try:
        path = Reporter(collector).save_json("metrics.json")
    finally:
        os.umask(umask)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o644


def test_a_reporter_needs_a_collector() -> None:
    with pytest.raises(TypeError, match="a Reporter needs a MetricsCollector, not dict"):
        Reporter({})  # type: ignore[arg-type]
