"""Measures the cost of a window of torch.profiler in a recording: `python bench/windows.py`.

Each profiler runs in a process of its own, several times in turn, with the same switches: first
without it, then with it, then its end, which writes the trace, then after it. The program is the
training step of `examples/train_gpt.py`. All times are CPU times. `--update` writes the table to
`docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from pathlib import Path

from process import run_worker
from table import duration, markdown_table, update_document

PROCESSES = 5
PROFILERS = {
    "window": "marey, window",
    "operators": "marey, window and operators",
    "torch": "torch.profiler",
}

# Prints the nanoseconds of a step before, with and after the profiler, and those of its end.
WORKER = """
import contextlib, json, statistics, sys, time
sys.path.insert(0, {bench!r})
import torch, marey, marey.torch
import training

BLOCKS, STEPS = 9, 3
torch.set_num_threads(1)

def measure():
    nanos = []
    for _ in range(BLOCKS):
        start = time.process_time_ns()
        for _ in range(STEPS):
            training.train()
        nanos.append((time.process_time_ns() - start) / STEPS)
    return statistics.median(nanos)

class Torch:
    def __enter__(self):
        self.profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            record_shapes=True, profile_memory=True, with_stack=True,
            experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True),
        )
        self.profiler.__enter__()

    def __exit__(self, *_):
        self.profiler.__exit__(None, None, None)
        self.profiler.export_chrome_trace("trace.json")

which = sys.argv[1]
if which != "torch":
    marey.torch.enable(operators=which == "operators")
    session = marey.start("window", data="trace")
for _ in range(20):
    training.train()
before = measure()
profiler = Torch() if which == "torch" else marey.torch.window()
profiler.__enter__()
during = measure()
start = time.process_time_ns()
profiler.__exit__(None, None, None)
end = (time.process_time_ns() - start) / (BLOCKS * STEPS)
print(json.dumps(dict(before=before, during=during, end=end, after=measure())))
"""

Costs = dict[str, float]
"""Nanoseconds of a step by phase; `end` is the end's share of each step of the window."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures windows of torch.profiler.")
    parser.add_argument("--update", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    program = WORKER.format(bench=str(Path(__file__).parent))
    rounds: list[dict[str, Costs]] = [
        {name: run_worker(program, name) for name in PROFILERS} for _ in range(PROCESSES)
    ]
    costs = {
        name: {
            phase: statistics.median(round_[name][phase] for round_ in rounds)
            for phase in rounds[0][name]
        }
        for name in PROFILERS
    }
    text = windows_table(costs)
    print(text)
    if options.update:
        update_document("bench/windows.py", [text])
    return 0


def windows_table(costs: dict[str, Costs]) -> str:
    """Returns the table: what each profiler adds to a step, at its end and afterwards."""
    lines = [("profiler", "a step without", "a step in the window", "the end, by step", "after")]
    for name, cost in costs.items():
        lines.append(
            (
                PROFILERS[name],
                duration(cost["before"]),
                f"{percent(cost, 'during'):+.0f} %",
                f"+{duration(cost['end'])}",
                f"{percent(cost, 'after'):+.1f} %",
            )
        )
    return markdown_table(lines)


def percent(cost: Costs, phase: str) -> float:
    """Returns what a phase takes above the one without the profiler."""
    return 100 * (cost[phase] / cost["before"] - 1)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
