"""Recording of training with Hugging Face Accelerate.

accelerator = Accelerator(log_with=MareyTracker("run"))
accelerator.init_trackers("project")  # begins to record
...
accelerator.end_training()            # writes the run
"""

from __future__ import annotations

import importlib
from typing import Any

from ._training import Adapter, Training

__all__ = ["MareyTracker"]

_tracking: Any = importlib.import_module("accelerate.tracking")


class MareyTracker(Adapter, _tracking.GeneralTracker):  # type: ignore[misc]
    """Records from `init_trackers` to `end_training`, in each process; steps by the optimizer.

    Numbers that the program logs are values of the trace.

    Args:
        name: Path of the run or profile without its suffix, ``accelerate`` if not given.
            Unused if a session records already.
        data: ``"trace"`` writes the run ``<name>.marey``, ``"tree"`` a profile.
        operators: Whether to record PyTorch's operators, see `marey.torch.enable`.
        overhead_target: The time that recording may add to a step, see `marey.torch.enable`.
    """

    _default_name = "accelerate"

    name = "marey"
    requires_logging_directory = False
    main_process_only = False

    @property
    def tracker(self) -> Training:
        """The object that records."""
        return self._training

    def start(self) -> None:
        self._training.begin()

    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        self._training.record_values(values)

    def finish(self) -> None:
        self._training.end()
