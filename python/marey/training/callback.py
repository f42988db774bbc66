"""The callback of a training loop, under the names that trainers call.

Names are those of Keras, Lightning, Hugging Face and PRISM. Arguments are ignored, because each of
them passes others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .profiler import TrainingProfiler

_EVENTS = {
    "begin_training": (
        "on_train_begin",
        "on_train_start",
        "on_training_begin",
        "on_training_start",
        "on_fit_start",
    ),
    "end_training": (
        "on_train_end",
        "on_training_end",
        "on_fit_end",
        "on_exception",
    ),
    "begin_epoch": (
        "on_epoch_begin",
        "on_epoch_start",
        "on_train_epoch_begin",
        "on_train_epoch_start",
    ),
    "end_epoch": ("on_epoch_end", "on_train_epoch_end"),
    "begin_batch": (
        "on_batch_begin",
        "on_batch_start",
        "on_train_batch_begin",
        "on_train_batch_start",
        "on_step_begin",
    ),
    "end_batch": ("on_batch_end", "on_train_batch_end", "on_step_end"),
    "begin_sample": ("on_sample_begin", "on_sample_start"),
    "end_sample": ("on_sample_end",),
    "begin_validation": (
        "on_validation_begin",
        "on_validation_start",
        "on_test_begin",
        "on_test_start",
    ),
    "end_validation": ("on_validation_end", "on_test_end"),
}
"""Names of callbacks by the method of `Loop` that they call."""


_IGNORED = (
    # of Keras
    "set_model",
    "set_params",
    # of Lightning
    "setup",
    "teardown",
    "state_dict",
    "load_state_dict",
    "configure_sharded_model",
)
"""Other names that trainers call."""


class ProfilerCallback:
    """Passes what a trainer reports to its profiler.

    Other names that begin with ``on_``, and those in `_IGNORED`, are accepted and do nothing.
    """

    state_key = "marey.training"
    """The key of the callback's state in Lightning's checkpoints; there is no state."""

    def __init__(self, profiler: TrainingProfiler) -> None:
        self.profiler = profiler
        for method, names in _EVENTS.items():
            for name in names:
                setattr(self, name, _without_arguments(getattr(profiler.loop, method)))

    def _implements_train_batch_hooks(self) -> bool:
        """Tells the Keras of TensorFlow 2 that it has to report batches."""
        return True

    def _implements_test_batch_hooks(self) -> bool:
        """Tells the Keras of TensorFlow 2 that it need not report batches of tests."""
        return False

    _implements_predict_batch_hooks = _implements_test_batch_hooks

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("on_") or name in _IGNORED:
            return _ignore
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _without_arguments(call: Callable[[], None]) -> Callable[..., None]:
    def report(*_values: Any, **_named: Any) -> None:
        call()

    return report


def _ignore(*_values: Any, **_named: Any) -> None:
    """Does nothing."""
