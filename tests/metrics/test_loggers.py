"""Adapters to TensorBoard, Weights & Biases and MLflow.

TensorBoard's writer is the real one. The doubles of the other two have the signatures of
`wandb.Run.log`, `mlflow.log_metrics` and `MlflowClient.log_metric`, and record the calls.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from marey.metrics import MetricsCollector, MLflowLogger, TensorBoardLogger, WandbLogger


class WandbRun:
    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, Any], int | None]] = []

    def log(
        self, data: dict[str, Any], step: int | None = None, commit: bool | None = None
    ) -> None:
        assert commit is None
        self.calls.append((data, step))


class Mlflow:
    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, float], int | None]] = []

    def log_metrics(
        self,
        metrics: dict[str, float],
        step: int | None = None,
        synchronous: bool | None = None,
        run_id: str | None = None,
        timestamp: int | None = None,
    ) -> None:
        self.calls.append((metrics, step))


class MlflowClient:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str, float, int | None]] = []

    def log_metric(
        self,
        run_id: str,
        key: str,
        value: float,
        timestamp: int | None = None,
        step: int | None = None,
        synchronous: bool | None = None,
    ) -> None:
        self.calls.append((run_id, key, value, step))


@pytest.fixture
def collector() -> MetricsCollector:
    collector = MetricsCollector()
    for loss in (1.0, 0.5):
        collector.record("loss", loss)
        with collector.measure_time("iteration"):
            pass
    return collector


EXPECTED = {
    "timing/iteration/mean_ms",
    "timing/iteration/p50_ms",
    "timing/iteration/p99_ms",
    "values/loss/last",
    "values/loss/mean",
    "memory/peak_allocated",
    "throughput/iterations_per_sec",
}


def test_weights_and_biases_get_one_call_a_step(collector: MetricsCollector) -> None:
    run = WandbRun()
    WandbLogger(run).log(collector, step=7)
    [(data, step)] = run.calls
    assert (set(data), step) == (EXPECTED, 7)
    assert (data["values/loss/last"], data["values/loss/mean"]) == (0.5, 0.75)


def test_mlflow_logs_to_its_active_run(collector: MetricsCollector) -> None:
    client = Mlflow()
    MLflowLogger(client).log(collector, step=7)
    [(data, step)] = client.calls
    assert (set(data), step) == (EXPECTED, 7)


def test_mlflow_clients_log_to_a_run_by_allowed_names(collector: MetricsCollector) -> None:
    collector.record("loss (pty)", 2.0)
    client = MlflowClient()
    MLflowLogger(client, "run 1").log(collector.generate_report(), step=3)
    assert {(run, step) for run, _, _, step in client.calls} == {("run 1", 3)}
    values = {key: value for _, key, value, _ in client.calls}
    assert values["values/loss _pty_/last"] == 2.0


def test_mlflow_names_that_become_equal_are_refused(collector: MetricsCollector) -> None:
    collector.record("loss?", 1)
    collector.record("loss!", 1)
    client = Mlflow()
    with pytest.raises(ValueError, match=r"two names are 'values/loss_/last' in MLflow"):
        MLflowLogger(client).log(collector)
    assert client.calls == []


def test_tensorboard_files_have_the_scalars(collector: MetricsCollector, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with tensorboard.SummaryWriter(tmp_path) as writer:
        for step in (1, 2):
            TensorBoardLogger(writer).log(collector, step=step)
    read = events.EventAccumulator(str(tmp_path))
    read.Reload()
    assert set(read.Tags()["scalars"]) == EXPECTED
    assert [(event.step, event.value) for event in read.Scalars("values/loss/last")] == [
        (1, 0.5),
        (2, 0.5),
    ]


def test_numbers_that_are_not_finite_are_left_out() -> None:
    collector = MetricsCollector()
    with pytest.warns(UserWarning, match="loss"):
        collector.record("loss", float("nan"))
    run = WandbRun()
    WandbLogger(run).log(collector)
    assert {key for key in run.calls[0][0] if key.startswith("values")} == set()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WandbLogger(3), r"int has no method log: use WandbLogger\(wandb.init"),
        (lambda: TensorBoardLogger(None), "NoneType has no method add_scalar"),
        (lambda: MLflowLogger(object()), "object has no method log_metrics"),
        (lambda: MLflowLogger(Mlflow(), "run"), "Mlflow has no method log_metric: use"),
    ],
)
def test_something_else_is_refused(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()
