"""Recording of training with the `Trainer` of Hugging Face.

trainer = Trainer(model, arguments, callbacks=[MareyCallback("run")])
"""

from __future__ import annotations

import importlib
from typing import Any

from ._training import Adapter

__all__ = ["MareyCallback"]

_transformers: Any = importlib.import_module("transformers")


class MareyCallback(Adapter, _transformers.TrainerCallback):  # type: ignore[misc]
    """Records `Trainer.train`: a scope for each epoch, steps by the optimizer.

    Args:
        name: Path of the run or profile without its suffix, ``transformers`` if not given.
            Unused if a session records already.
        data: ``"trace"`` writes the run ``<name>.marey``, ``"tree"`` a profile.
        operators: Whether to record PyTorch's operators, see `marey.torch.enable`.
        overhead_target: The time that recording may add to a step, see `marey.torch.enable`.
    """

    _default_name = "transformers"

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._training.begin()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._training.enter("epoch")

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._training.number_batch(int(state.epoch or 0), state.global_step)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._training.leave("epoch")

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._training.end()
