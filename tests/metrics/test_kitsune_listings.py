"""The listings of Kitsune's documentation run, on a small PyTorch model, and do what they say."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kitsune_listings as listings
import pytest
from gpu_programs import run
from marey.metrics import CUDATimer, MetricsCollector, Reporter

torch = pytest.importorskip("torch")

Names = dict[str, Any]


@pytest.fixture
def names() -> Names:
    """The objects that the listings use without defining them."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    batches = [(torch.randn(16, 8), torch.randn(16, 2)) for _ in range(6)]
    return {
        "model": model,
        "input": batches[0][0],
        "criterion": torch.nn.MSELoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.01),
        "loss": torch.ones((), requires_grad=True),
        "num_epochs": 2,
        "train_loader": batches,
        "torch": torch,
    }


def execute(listing: str, names: Names) -> Names:
    exec(compile(listing, "listing", "exec"), names)
    return names


def test_basic_profiling(names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    execute(listings.BASIC, names)
    assert names["elapsed"] > 0
    assert capsys.readouterr().out == f"Forward pass: {names['elapsed']:.2f} ms\n"


def test_memory_profiling(names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    names["dataloader"] = [data for data, _ in names["train_loader"]]
    execute(listings.MEMORY, names)
    summary, peak = capsys.readouterr().out.splitlines()
    assert summary.startswith("host: peak ")
    assert peak == f"Peak memory: {names['stats']['peak_allocated'] / 1e9:.2f} GB"
    assert names["stats"]["peak_allocated"] > 1e7


def test_comprehensive_metrics(names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    execute(listings.COLLECTOR, names)
    report = names["report"]
    assert report["timing"]["iteration"]["count"] == 12
    assert report["values"]["batch_size"]["mean"] == 16
    assert report["values"]["loss"]["last"] < report["values"]["loss"]["max"]
    assert report["throughput"]["samples_per_sec"] > 0
    assert capsys.readouterr().out == f"{report}\n"


def test_custom_reporter(names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    execute(listings.REPORTER, names)
    assert json.loads(Path("metrics.json").read_text())["timing"] == {}
    assert Path("metrics.csv").read_text().startswith("kind,name,unit,count,mean")
    assert Path("report.html").read_text().startswith("<!doctype html>")
    assert "peak_allocated" in capsys.readouterr().out


def test_event_timing(names: Names) -> None:
    execute(listings.EVENTS, names)
    assert names["elapsed"] == names["timer"].results["kernel_launch"].mean


def test_memory_tracking(names: Names) -> None:
    def randn(*size: int, device: str) -> Any:
        assert device == "cuda"
        return torch.randn(*size)  # there is no GPU

    names["torch"] = SimpleNamespace(randn=randn, matmul=torch.matmul)
    execute(listings.ALLOCATIONS, names)
    assert len(names["timeline"]) >= 2
    assert {entry["memory"] for entry in names["timeline"]} == {"host"}


def test_stream_profiling() -> None:
    # A stream of the double is a number; PyTorch's context manager selects it.
    prelude = """
from types import SimpleNamespace

class stream:
    def __init__(self, number):
        self.number = number
    def __enter__(self):
        stream.current = self.number
    def __exit__(self, *error):
        stream.current = 7

torch = SimpleNamespace(cuda=SimpleNamespace(stream=stream))
streams = [13, 14, 15]
tasks = [3000000, 2000000, 1000000]

def execute_task(task):
    double.launch("task", task, stream=stream.current)
"""
    output = run(prelude + listings.STREAMS, "clock real")
    assert "3 of 4 streams used" in output
    busy = [line.split()[:3] for line in output.splitlines()[2:5]]
    assert busy == [["0:13", "1", "3.000"], ["0:14", "1", "2.000"], ["0:15", "1", "1.000"]]


def test_identifying_bottlenecks(names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    names["dataloader"] = itertools.cycle([names["input"]])
    execute(listings.BOTTLENECKS, names)
    assert {part["name"] for part in names["analysis"]["components"]} == {
        "data_loading",
        "forward",
        "backward",
    }
    assert capsys.readouterr().out == f"Bottleneck: {names['analysis']['bottleneck']}\n"


def test_comparing_configurations(names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    def profile_training(work: int) -> MetricsCollector:
        collector = MetricsCollector()
        for _ in range(10):
            with collector.measure_time("iteration"):
                sum(range(work))
        return collector

    names |= {"profile_training": profile_training, "config1": 50_000, "config2": 500}
    execute(listings.COMPARISON, names)
    assert names["comparison"]["speedup"] > 3
    assert capsys.readouterr().out == f"Speedup: {names['comparison']['speedup']:.2f}x\n"


def same_structure(value: Any, documented: Any) -> bool:
    if isinstance(documented, dict):
        return all(same_structure(value[key], part) for key, part in documented.items())
    return value is None or isinstance(value, type(documented))


def test_report_formats(names: Names) -> None:
    collector = MetricsCollector()
    collector.record("batch_size", 16)
    with collector.measure_time("iteration"):
        for name in ("forward_pass", "backward_pass"):
            with collector.measure_time(name):
                names["model"](names["input"])
    names["reporter"] = Reporter(collector)
    for listing in (listings.JSON_REPORT, listings.HTML_REPORT, listings.CSV_EXPORT):
        execute(listing, names)
    document = json.loads(Path("profile.json").read_text())
    assert same_structure(document, json.loads(listings.JSON_STRUCTURE))
    assert document["throughput"]["samples_per_sec"] > 0
    assert "backward_pass" in Path("report.html").read_text()
    assert "backward_pass" in Path("metrics.csv").read_text()


def test_several_epochs(names: Names) -> None:
    names["MetricsCollector"] = MetricsCollector
    execute(listings.EPOCHS, names)
    assert names["report"]["timing"] == {}


def test_end_to_end(names: Names) -> None:
    names |= {"timer": CUDATimer(), "dataloader": iter([names["input"]])}
    execute(listings.END_TO_END, names)
    results = names["timer"].results
    assert set(results) == {"full_iteration", "data_loading", "forward", "backward", "optimizer"}
    inner = sum(result.total for name, result in results.items() if name != "full_iteration")
    assert inner <= results["full_iteration"].total


def test_comparing_against_a_baseline(names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    def run_with_profiling(use_kitsune: bool) -> dict[str, float]:
        timer = CUDATimer(repeat=5, warmup=1)
        work = 500 if use_kitsune else 50_000
        return {"time": timer.time_iterations("iteration", lambda: sum(range(work))).mean}

    names["run_with_profiling"] = run_with_profiling
    execute(listings.BASELINE, names)
    assert names["speedup"] > 3
    assert capsys.readouterr().out == f"Speedup: {names['speedup']:.2f}x\n"
