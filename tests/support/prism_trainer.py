"""A trainer that calls its callbacks as PRISM's does, and what its examples need beside it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import Any

EPOCHS = 3
CENTERS = ((0, 0), (1, 1), (2, 2), (3, 3))


class PRISMTrainer:
    """Trains a model on a few samples, a few epochs each."""

    def __init__(
        self,
        *,
        model: Any,
        optimizer: Any,
        scheduler: Any,
        measurement_system: Any,
        args: Any,
        device: Any,
        callbacks: Sequence[Any],
    ) -> None:
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.measurement_system = measurement_system
        self.callbacks = callbacks

    def run_progressive_training(
        self, target_image: Any = None, sample_centers: Sequence[Any] = CENTERS
    ) -> None:
        for sample_idx, center in enumerate(sample_centers):
            self._call("on_sample_start", sample_idx)
            measurement = self.measurement_system.measure(target_image, None, [center])
            for epoch in range(EPOCHS):
                self._call("on_epoch_start", epoch)
                self.optimizer.zero_grad()
                loss = (self.model() - measurement).square().mean()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                self._call("on_epoch_end", epoch, float(loss.detach()))
            self._call("on_sample_end", sample_idx, {"loss": float(loss.detach())})
        self._call("on_training_end")

    def _call(self, name: str, *values: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, name)(*values)


class ConvergenceMonitor:
    """A callback that has converged after some epochs."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.epochs = 0
        self.callback = self

    @property
    def has_converged(self) -> bool:
        return self.epochs >= self.patience

    def on_epoch_end(self, epoch: int, loss: float) -> None:
        self.epochs += 1

    def __getattr__(self, name: str) -> Any:
        return lambda *_values: None


class MeasurementSystem:
    def measure(self, image: Any, reconstruction: Any, centers: Sequence[Any]) -> Any:
        import torch

        return torch.full((4,), float(sum(map(sum, centers))))


def environment() -> dict[str, Any]:
    """Returns the names that PRISM's examples use without defining them."""
    import torch

    class Model(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self) -> Any:
            return self.layer(torch.ones(4))

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return {
        "PRISMTrainer": PRISMTrainer,
        "ConvergenceMonitor": ConvergenceMonitor,
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 10),
        "measurement_system": MeasurementSystem(),
        "criterion": torch.nn.MSELoss(),
        "args": None,
        "device": torch.device("cpu"),
        "target": torch.ones(4),
        "image": torch.ones(4),
        "reconstruction": torch.ones(4),
        "sample_centers": CENTERS,
        "n_epochs": EPOCHS,
    }


def run_listing(listing: str, **names: Any) -> tuple[str, dict[str, Any]]:
    """Runs a listing with `environment` and `names`; returns what it printed, and its names."""
    scope = {**environment(), **names}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(listing, "listing", "exec"), scope)
    return printed.getvalue(), scope
