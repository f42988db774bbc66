"""Adapters that pass the figures of a collector to TensorBoard, Weights & Biases and MLflow.

Each takes an object that the program has made and calls one of its methods; nothing is imported.
"""

from __future__ import annotations

import math
import re
from typing import Any

from .comparison import Source, report_of

_TIMING = ("mean", "p50", "p99")
_VALUES = ("last", "mean")
_NOT_IN_MLFLOW_KEYS = re.compile(r"[^\w\-. :/]")


def scalars(source: Source) -> dict[str, float]:
    """Returns the numbers that the adapters log: ``timing/forward/mean_ms``, ``values/loss/last``.

    Of each time the mean, p50 and p99 in milliseconds, of each value the last and the mean; memory
    in bytes, and throughput. Unknown numbers are left out.
    """
    found: dict[str, float | None] = {}
    with report_of(source) as report:
        for name, figures in report["timing"].items():
            found |= {f"timing/{name}/{key}_ms": figures[key] for key in _TIMING}
        for name, figures in report["values"].items():
            found |= {f"values/{name}/{key}": figures[key] for key in _VALUES}
        for kind in ("memory", "throughput"):
            found |= {f"{kind}/{key}": number for key, number in report[kind].items()}
    return {
        key: number
        for key, number in found.items()
        if isinstance(number, (int, float)) and math.isfinite(number)
    }


class TensorBoardLogger:
    """Writes scalars by a writer such as `torch.utils.tensorboard.SummaryWriter`.

    Args:
        writer: An object with ``add_scalar(tag, value, global_step)``.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = _with_method(writer, "add_scalar", "TensorBoardLogger(SummaryWriter(…))")

    def log(self, source: Source, step: int | None = None) -> None:
        """Writes the figures of anything that `compare_runs` accepts, at a step."""
        for key, number in scalars(source).items():
            self._writer.add_scalar(key, number, global_step=step)


class WandbLogger:
    """Logs to a run of Weights & Biases.

    Args:
        run: The result of `wandb.init`, an object with ``log(data, step)``.
    """

    def __init__(self, run: Any) -> None:
        self._run = _with_method(run, "log", "WandbLogger(wandb.init(…))")

    def log(self, source: Source, step: int | None = None) -> None:
        """Logs the figures of anything that `compare_runs` accepts, in one call."""
        self._run.log(scalars(source), step=step)


class MLflowLogger:
    """Logs metrics to MLflow. Characters that MLflow refuses in names become ``_``.

    Args:
        client: The module `mlflow`, which logs to its active run, or an `MlflowClient`.
        run_id: The run of a client.
    """

    def __init__(self, client: Any, run_id: str | None = None) -> None:
        if run_id is None:
            self._client = _with_method(
                client, "log_metrics", "MLflowLogger(mlflow) or MLflowLogger(client, run_id)"
            )
        else:
            self._client = _with_method(client, "log_metric", "MLflowLogger(client, run_id)")
        self._run_id = run_id

    def log(self, source: Source, step: int | None = None) -> None:
        """Logs the figures of anything that `compare_runs` accepts, at a step.

        Raises:
            ValueError: Two names differ only in characters that MLflow refuses.
        """
        metrics: dict[str, float] = {}
        for name, number in scalars(source).items():
            key = _NOT_IN_MLFLOW_KEYS.sub("_", name)
            if key in metrics:
                raise ValueError(f"two names are {key!r} in MLflow: rename one of them")
            metrics[key] = number
        if self._run_id is None:
            self._client.log_metrics(metrics, step=step)
        else:
            for key, number in metrics.items():
                self._client.log_metric(self._run_id, key, number, step=step)


def _with_method(target: Any, method: str, example: str) -> Any:
    if not callable(getattr(target, method, None)):
        raise TypeError(f"{type(target).__name__} has no method {method}: use {example}")
    return target
