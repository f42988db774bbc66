"""Measures the cost of reading memory at a module call: `python bench/memory.py`.

A module that does nothing is called in a loop, in blocks that alternate between hooks, hooks with
memory, and no hooks. Times are CPU times of one call: the median of the blocks, and the difference
to the hooks alone. `off` is after `disable`, in the same process.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import marey
import marey.torch
import torch

BLOCKS = 31
CALLS = 5_000


class Nothing(torch.nn.Module):
    """A module that returns its input."""

    def forward(self, x: Any) -> Any:
        return x


def block(module: Any) -> float:
    """Returns the nanoseconds of a call."""
    start = time.process_time_ns()
    for _ in range(CALLS):
        module(None)
    return (time.process_time_ns() - start) / CALLS


def measure(data: str, folder: str) -> dict[str, float]:
    """Returns the median nanoseconds of a call by what is enabled, in a session of this kind."""
    module = Nothing()
    found: dict[str, list[float]] = {"off": [], "hooks": [], "memory": []}
    session = marey.start(str(Path(folder, data)), data=data)
    with torch.no_grad():
        block(module)
        for _ in range(BLOCKS):
            for name, nanos in found.items():
                if name != "off":
                    marey.torch.enable(memory=name == "memory")
                nanos.append(block(module))
                marey.torch.disable()
    marey.finalize(session)
    return {name: statistics.median(nanos) for name, nanos in found.items()}


def main() -> None:
    """Prints a line for each kind of session."""
    before = statistics.median(block(Nothing()) for _ in range(BLOCKS))
    print(f"never enabled: {before:.0f} ns")
    with tempfile.TemporaryDirectory() as folder:
        for data in ("tree", "trace"):
            nanos = measure(data, folder)
            readings = nanos["memory"] - nanos["hooks"]
            print(
                f"{data}: off {nanos['off']:.0f} ns, hooks {nanos['hooks']:.0f} ns, with memory "
                f"{nanos['memory']:.0f} ns: {readings / 2:.0f} ns a reading, two a call"
            )


if __name__ == "__main__":
    main()
