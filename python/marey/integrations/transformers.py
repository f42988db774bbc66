"""Recording of training with the `Trainer` of Hugging Face.

trainer = Trainer(model, arguments, callbacks=[MareyCallback("run")])
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Literal

from ._training import Training

__all__ = ["MareyCallback"]

_transformers: Any = importlib.import_module("transformers")


class MareyCallback(_transformers.TrainerCallback):  # type: ignore[misc]
    """Records `Trainer.train`: a scope for each epoch, steps by the optimizer.

    Args:
        name: Path of the run or profile without its suffix. Unused if a session records already.
        data: ``"trace"`` writes the run ``<name>.marey``, ``"tree"`` a profile.
        operators: Whether to record PyTorch's operators, see `marey.torch.enable`.
        overhead_target: The time that recording may add to a step, see `marey.torch.enable`.
    """

    def __init__(
        self,
        name: str | os.PathLike[str] = "transformers",
        *,
        data: Literal["tree", "trace"] = "trace",
        operators: bool = False,
        overhead_target: str | None = None,
    ) -> None:
        self._training = Training(
            name, data=data, operators=operators, overhead_target=overhead_target
        )

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
