"""The training step of the example, plain and under marey's module hooks, in one process."""

from __future__ import annotations

import importlib.util
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import marey
import marey.torch
import torch
from marey.training import ProfilerConfig, TrainingProfiler
from torch.nn import functional as F

EXAMPLE = Path(__file__).parent.parent / "examples" / "train_gpt.py"
BATCH_SIZE = 4


def plain(steps: int) -> float:
    """Returns the CPU nanoseconds of a step without hooks."""
    return measure(steps)


def hooked(steps: int) -> float:
    """Returns the CPU nanoseconds of a step with hooks and a session, without start and end."""
    marey.torch.enable()
    session = marey.start("training")
    nanos = measure(steps)
    marey.torch.disable()
    marey.finalize(session)
    return nanos


def unrecorded(epochs: int) -> float:
    """Returns the CPU nanoseconds that marey adds to an epoch of a step that it does not record.

    Of the callbacks of a trainer, three regions, and an optimizer without gradients, whose end is
    the end of the step. The step itself would vary by more than these take.
    """
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 0.1)
    plain_nanos = measure_ends(optimizer, None, epochs)
    folder = Path("epochs")
    config = ProfilerConfig(sample_rate=1e-12, adaptive_sampling=False, output_dir=folder)
    with TrainingProfiler(config) as profiler:
        for epoch in range(2):  # the first one is recorded, the second one ends that
            profiler.callback.on_epoch_begin(epoch)
            profiler.callback.on_epoch_end(epoch)
        nanos = measure_ends(optimizer, profiler, epochs)
    shutil.rmtree(folder)
    return nanos - plain_nanos


def measure_ends(
    optimizer: torch.optim.Optimizer, profiler: TrainingProfiler | None, epochs: int
) -> float:
    start_nanos = time.process_time_ns()
    for epoch in range(epochs):
        if profiler is None:
            optimizer.step()
            continue
        profiler.callback.on_epoch_begin(epoch)
        profiler.callback.on_batch_begin(epoch)
        for _ in range(3):
            with profiler.profile_region("x"):
                pass
        optimizer.step()
        profiler.callback.on_batch_end(epoch)
        profiler.callback.on_epoch_end(epoch, loss=1.0)
    return (time.process_time_ns() - start_nanos) / epochs


def measure(steps: int) -> float:
    train()  # the first step after a change has cold caches
    start_nanos = time.process_time_ns()
    for _ in range(steps):
        train()
    return (time.process_time_ns() - start_nanos) / steps


def load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_gpt", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_step() -> Callable[[], None]:
    example = load_example()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = example.Characters(example.CORPUS.read_text(encoding="utf-8"))
    model = example.GPT(data.alphabet_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    windows = [data[start] for start in range(BATCH_SIZE)]
    codes = torch.stack([window for window, _ in windows])
    targets = torch.stack([target for _, target in windows])

    def step() -> None:
        loss: Any = F.cross_entropy(model(codes).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


train = make_step()
