"""The training step of the example, plain and under marey's module hooks, in one process."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import marey
import marey.torch
import torch
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
