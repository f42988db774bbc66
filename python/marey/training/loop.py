"""A training loop: its epochs, of which some are recorded, and the scopes around them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from marey import _native, _torch_hooks, _torch_scopes
from marey._decorator import wrap_each
from marey._gpu_times import cuda_in_use
from marey._names import KIND_SCOPE

from .config import ProfilerConfig
from .gpu_regions import GpuRegions
from .recording import Recording
from .sampling import Draw, Sampler

EPOCH = "epoch"
"""The scope of a recorded epoch."""

EPOCH_METRIC = "sampled_epoch"
"""The value with the number of an epoch, recorded at the end of a recorded epoch."""

PROBABILITY_METRIC = "sample_probability"
"""The value with the probability with which the epoch was drawn, recorded with the number."""

OPERATORS_METRIC = "sampled_operators"
"""1 if operators were recorded in the epoch, else 0; recorded with the number."""

F = TypeVar("F", bound=Callable[..., Any])


class Region(AbstractContextManager[Any], Protocol):
    """A context manager and decorator, such as that of `marey.scope`."""

    def __call__(self, func: F, /) -> F: ...


MakeRegion = Callable[..., Region]
"""Returns a region with a name and, optionally, metrics."""


class Loop:
    """Records the epochs that are drawn, and nothing in the others.

    What happens between two epochs is recorded like the epoch before it. A session that was not
    started here records all epochs.
    """

    def __init__(self, config: ProfilerConfig, use_region: Callable[[MakeRegion], None]) -> None:
        self._config = config
        self._use_region = use_region
        self._sampler = Sampler(config.sample_rate, is_adaptive=config.adaptive_sampling)
        self.recording = Recording(config)
        self._gpu_regions: GpuRegions | None = None
        self._draw: Draw | None = None
        self._is_begun_by_step = False
        self._epochs = 0
        self._sampled_epochs = 0
        self._steps_before = 0  # the epoch
        self._is_without_optimizer = False
        self._scopes: list[str] = []
        self._reset_region()

    # Reports of trainers.

    def begin_training(self) -> None:
        """Starts to record, if nothing is recorded yet."""
        if not self._config.enabled or self.recording.is_open:
            return
        with _beginning:
            if self.recording.is_open:
                return  # another thread has just begun
            self.recording.begin()
            if self.recording.is_open:
                _torch_scopes.listen_to_steps(_count_step)
                self._begin_regions()
                self._read_memory()

    def end_training(self) -> None:
        """Leaves the open scopes and ends the recording. Safe to call twice."""
        if not self.recording.is_open:
            self.recording.end()
            return
        if self._is_begun_by_step:
            self._draw = None  # the epoch after the last step has nothing in it
        self.end_epoch()
        self.recording.resume()
        while self._scopes:
            _native.pop(self._scopes.pop())
        self._read_memory()
        if self._gpu_regions is not None:
            self._gpu_regions.read(waits=True)
        self.recording.note(self._epochs)
        self.recording.end()
        self._reset_region()

    def begin_epoch(self) -> None:
        """Draws whether the next epoch is recorded, and records it."""
        self.end_epoch()
        self.begin_training()
        if not self.recording.is_open:
            return
        draw = self._sampler.draw()
        if not self.recording.is_own:
            draw = draw._replace(probability=1.0, is_sampled=True)
        self._draw = draw
        self._is_begun_by_step = False
        if not draw.is_sampled:
            self.recording.pause()
            return
        self.recording.resume()
        self._switch_operators()
        self._begin_regions()
        self._enter(EPOCH)
        self._begin_step()
        self._steps_before = _ended_steps

    def end_epoch(self) -> None:
        """Ends an epoch; without effect if none is open."""
        draw, self._draw = self._draw, None
        if draw is None:
            return
        self._epochs = draw.number + 1
        if not draw.is_sampled:
            return
        self._sampled_epochs += 1
        if _ended_steps == self._steps_before:
            self._end_step()  # without an optimizer, the epoch is a step
            self._is_without_optimizer = True
        if self._config.cuda_sync_per_epoch and (cuda := cuda_in_use()) is not None:
            cuda.synchronize()
        self._read_memory()
        if self._gpu_regions is not None:
            self._gpu_regions.read(waits=False)
        _native.add_metrics(
            {
                EPOCH_METRIC: draw.number,
                PROBABILITY_METRIC: draw.probability,
                OPERATORS_METRIC: int(_torch_hooks.records_operators()),
            }
        )
        self._leave(EPOCH)
        self.recording.note(self._epochs)

    def step(self) -> None:
        """Ends an epoch and begins the next, in a loop that reports nothing."""
        self.begin_epoch()
        self._is_begun_by_step = True

    def begin_batch(self) -> None:
        """Begins a training step, so that the step contains the batch from its first region on."""
        if self._draw is not None and self._draw.is_sampled:
            self._begin_step()

    def end_batch(self) -> None:
        """Ends a training step where no optimizer of PyTorch does: in a program that has made none,
        and after an epoch in which none did."""
        if self._draw is not None and self._draw.is_sampled and self._are_batches_steps():
            self._end_step()

    def begin_sample(self) -> None:
        """Enters the scope of a sample: a section of the training with several epochs."""
        self.begin_training()
        self._enter("sample")

    def end_sample(self) -> None:
        """Leaves the scope of a sample."""
        self._leave("sample")

    def begin_validation(self) -> None:
        """Enters the scope of a validation."""
        self._enter("validation")

    def end_validation(self) -> None:
        """Leaves the scope of a validation."""
        self._leave("validation")

    def progress(self) -> dict[str, int | bool]:
        """Returns whether something is being recorded, and the epochs so far."""
        return {
            "is_recording": self.recording.is_open,
            "epochs": self._epochs,
            "recorded_epochs": self._sampled_epochs,
        }

    # Effects of the reports.

    def _records_scopes(self) -> bool:
        return self._config.collect_timing and self.recording.is_open

    def _enter(self, name: str) -> None:
        if self._records_scopes():
            self._scopes.append(name)
            _native.push(name, KIND_SCOPE)

    def _leave(self, name: str) -> None:
        """Leaves the innermost scope of a name and the scopes in it; without effect if none is."""
        if name in self._scopes:
            last = None
            while last != name:
                last = self._scopes.pop()
                _native.pop(last)

    def _are_batches_steps(self) -> bool:
        return self._is_without_optimizer or not _torch_scopes.has_optimizers()

    def _begin_step(self) -> None:
        if self._records_scopes():
            _native.step_begin()

    def _end_step(self) -> None:
        if self._records_scopes():
            _native.step_end()
            _count_step()

    def _read_memory(self) -> None:
        if self._config.collect_memory:
            self.recording.read_memory()

    def _switch_operators(self) -> None:
        """Records operators in `active_samples` sampled epochs after `warmup_samples`."""
        config = self._config
        if config.collect_gpu_ops and config.active_samples:
            if self._sampled_epochs == config.warmup_samples:
                self.recording.record_operators(is_wanted=True)
            elif self._sampled_epochs == config.warmup_samples + config.active_samples:
                self.recording.record_operators(is_wanted=False)

    # Regions. The profiler calls their factory directly: a region costs as much as a scope.

    def _reset_region(self) -> None:
        is_recorded = self._config.enabled and self._config.collect_timing
        self._use_region(self._first_region if is_recorded else NoRegion)

    def _first_region(self, name: str, metrics: dict[str, Any] | None = None) -> Region:
        """Returns a region that starts to record when it is entered."""
        _native.scope(name, metrics)  # which checks them
        return _FirstRegion(self._begin, name, metrics)

    def _begin(self) -> MakeRegion:
        """Starts to record, if nothing is recorded yet, and returns what makes regions."""
        self.begin_training()
        return self._region()

    def _begin_regions(self) -> None:
        if self._config.collect_timing:
            self._use_region(self._region())

    def _region(self) -> MakeRegion:
        is_possible = self._gpu_regions is None and self._config.use_cuda_events
        if is_possible and cuda_in_use() is not None and _native.gpu_level()[0] != "cupti":
            self._gpu_regions = GpuRegions()
        return _native.scope if self._gpu_regions is None else self._gpu_regions.region


_beginning = threading.Lock()
"""Held while a recording begins: the first regions of two threads begin one."""


def _replace_lock_in_child() -> None:
    """Replaces the lock, which another thread of the parent may have held."""
    global _beginning
    _beginning = threading.Lock()


os.register_at_fork(after_in_child=_replace_lock_in_child)

_ended_steps = 0
"""Training steps of the process that have ended."""


def _count_step() -> None:
    global _ended_steps
    _ended_steps += 1


class _FirstRegion:
    """A region that was made before the recording began, such as a decorator at import."""

    def __init__(
        self, begin: Callable[[], MakeRegion], name: str, metrics: dict[str, Any] | None
    ) -> None:
        self._begin = begin
        self._name = name
        self._metrics = metrics
        self._entered: list[Region] = []

    def __enter__(self) -> _FirstRegion:
        region = self._begin()(self._name, self._metrics)
        region.__enter__()
        self._entered.append(region)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._entered.pop().__exit__(*exception)

    def __call__(self, func: F) -> F:
        # Each call makes its region: the recording of an earlier one may have ended.
        return wrap_each(lambda: self._begin()(self._name, self._metrics), func)


class NoRegion:
    """A region that records nothing."""

    def __init__(self, name: str, metrics: dict[str, Any] | None = None) -> None:
        pass

    def __enter__(self) -> NoRegion:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, func: F) -> F:
        return func
