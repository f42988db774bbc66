"""Runs workloads under one profiler: `cost_worker.py PROFILER WORLD`, in its own directory.

Each line `WORK COUNT` on standard input is answered with the nanoseconds of one item: wall time,
and CPU time of the whole process. `end 0` ends the session and is answered with the duration of
that, and with the peak of resident memory.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worlds import WORLDS, World

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
BATCH = 4

Work = Callable[[int], None]
"""Does so many items, and waits for the device."""

End = Callable[[], None]


def main() -> None:
    profiler, name = sys.argv[1:]
    world = WORLDS[name]()
    works = {"launch": launches(world)}
    if name == "torch" and EXAMPLES.exists():
        works["step"] = steps()
    for work in works.values():
        work(10)
    end = PROFILERS[profiler]()
    for line in sys.stdin:
        what, count = line.split()
        if what == "end":
            start_nanos = time.perf_counter_ns()
            end()
            end_nanos = time.perf_counter_ns() - start_nanos
            memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            answer = {"end_nanos": float(end_nanos), "memory_bytes": float(memory_bytes)}
        elif what in works:
            answer = timed(works[what], int(count))
        else:
            answer = {}
        print(json.dumps(answer), flush=True)


def timed(work: Work, count: int) -> dict[str, float]:
    start_nanos, start_cpu_nanos = time.perf_counter_ns(), time.process_time_ns()
    work(count)
    return {
        "wall_nanos": (time.perf_counter_ns() - start_nanos) / count,
        "cpu_nanos": (time.process_time_ns() - start_cpu_nanos) / count,
    }


def launches(world: World) -> Work:
    def work(count: int) -> None:
        world.launch(count)
        world.synchronize()

    return work


def steps() -> Work:
    """Runs training steps of the example GPT."""
    import torch

    sys.path.insert(0, str(EXAMPLES))
    train_gpt: Any = importlib.import_module("train_gpt")
    alphabet = 64
    model = train_gpt.GPT(alphabet).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    codes = torch.randint(alphabet, (BATCH, train_gpt.CONTEXT), device="cuda")

    def work(count: int) -> None:
        for _ in range(count):
            logits = model(codes)
            loss: Any = torch.nn.functional.cross_entropy(logits.flatten(0, 1), codes.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()

    return work


def marey(data: str) -> Callable[[], End]:
    def start() -> End:
        import marey

        session = marey.start("marey", data=data, backend="cupti")
        return lambda: marey.finalize(session)

    return start


def proton(data: str) -> Callable[[], End]:
    def start() -> End:
        import triton.profiler

        session = triton.profiler.start("proton", data=data, backend="cupti")
        output_format = "chrome_trace" if data == "trace" else "hatchet"
        return lambda: triton.profiler.finalize(session, output_format)

    return start


def torch_profiler() -> End:
    import torch

    profiler = torch.profiler.profile()
    profiler.start()

    def end() -> None:
        profiler.stop()
        profiler.export_chrome_trace("torch.json")

    return end


def nothing() -> End:
    return lambda: None


PROFILERS: dict[str, Callable[[], End]] = {
    "nothing": nothing,
    "marey-tree": marey("tree"),
    "marey-trace": marey("trace"),
    "proton-tree": proton("tree"),
    "proton-trace": proton("trace"),
    "torch.profiler": torch_profiler,
}

if __name__ == "__main__":
    main()
