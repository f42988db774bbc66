"""Recording of training with Lightning.

trainer = Trainer(callbacks=[MareyCallback("run")])  # epochs and validation as scopes
trainer = Trainer(profiler=MareyProfiler("run"))     # each action of Lightning as a scope
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from marey import _native

from ._training import Adapter

__all__ = ["MareyCallback", "MareyProfiler"]


def _import_lightning() -> Any:
    """Returns the package that the program uses; both have the same classes, under two names."""
    names = ("lightning.pytorch", "pytorch_lightning")
    for name in names:
        if name in sys.modules:
            return sys.modules[name]
    try:
        return importlib.import_module(names[0])
    except ModuleNotFoundError:
        return importlib.import_module(names[1])


_lightning = _import_lightning()
_profilers = importlib.import_module(f"{_lightning.__name__}.profilers")

_TRAINING_BATCH = "run_training_batch"
"""Lightning's action that contains forward, backward and the optimizer's step of a batch."""


class MareyCallback(Adapter, _lightning.Callback):  # type: ignore[misc,name-defined]
    """Records `Trainer.fit`: scopes for epochs and validation, steps by the optimizer.

    Args:
        name: Path of the run or profile without its suffix, ``lightning`` if not given.
            Unused if a session records already.
        data: ``"trace"`` writes the run ``<name>.marey``, ``"tree"`` a profile.
        operators: Whether to record PyTorch's operators, see `marey.torch.enable`.
        overhead_target: The time that recording may add to a step, see `marey.torch.enable`.
    """

    _default_name = "lightning"

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self._training.begin()

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._training.enter("epoch")

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        self._training.number_batch(trainer.current_epoch, batch_idx)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._training.leave("epoch")

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._training.enter("validation")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._training.leave("validation")

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._training.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._training.end()


class MareyProfiler(Adapter, _profilers.Profiler):  # type: ignore[misc,name-defined]
    """Records each action of Lightning as a scope, and the steps of training.

    Takes the arguments of `MareyCallback`.
    """

    _default_name = "lightning"

    def setup(self, stage: str, local_rank: int | None = None, log_dir: str | None = None) -> None:
        super().setup(stage, local_rank, log_dir)
        self._training.begin()

    def start(self, action_name: str) -> None:
        if action_name == _TRAINING_BATCH:
            # So that the step contains the action; else it would begin in it and end with it.
            _native.step_begin()
        self._training.enter(action_name)

    def stop(self, action_name: str) -> None:
        self._training.leave(action_name)

    def teardown(self, stage: str | None) -> None:
        self._training.end()
        super().teardown(stage)
