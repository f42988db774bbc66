"""Measures the cost of a window of torch.profiler in a recording: `python bench/windows.py`.

Each profiler runs in a process of its own, several times in turn, with the same switches: first
without it, then with it, then its end, which writes the trace, then after it. The program is the
training step of `examples/train_gpt.py`. All times are CPU times, figures are medians over the
rounds, and ratios are medians of what marey adds in a round divided by what torch.profiler adds in
the same round. `--update` writes the table to `docs/benchmarks.md`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from statistics import median

from process import run_worker
from table import document_parser, duration, markdown_table, publish

PROCESSES = 5
PROFILERS = {
    "window": "marey, window",
    "off": "marey, window and operators, names",
    "sampled": "marey, window and operators, sampled shapes",
    "torch": "torch.profiler",
}
PEER = "torch"

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
if which == "window":
    marey.torch.enable()
elif which != "torch":
    marey.torch.enable(operators=True, shapes=which)
if which != "torch":
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


def main() -> None:
    parser = document_parser("Measures windows of torch.profiler.")
    parser.add_argument("--rounds", type=int, default=PROCESSES, metavar="N", help="rounds of each")
    options = parser.parse_args()
    program = WORKER.format(bench=str(Path(__file__).parent))
    names = list(PROFILERS)
    rounds: list[dict[str, Costs]] = []
    for number in range(options.rounds):
        first = number % len(names)  # each is the first one in its turn
        order = names[first:] + names[:first]
        rounds.append({name: run_worker(program, name) for name in order})
    publish("bench/windows.py", [windows_table(rounds)], is_update=options.update)


def windows_table(rounds: list[dict[str, Costs]]) -> str:
    """Returns the table: what each profiler adds to a step, at its end and afterwards."""
    headings = ("profiler", "a step without", "a step in the window", "ratio")
    lines = [(*headings, "the end, by step", "ratio", "after")]
    for name, label in PROFILERS.items():
        is_peer = name == PEER
        costs = [round_[name] for round_ in rounds]
        lines.append(
            (
                label,
                duration(median(cost["before"] for cost in costs)),
                f"{median(percent(cost, 'during') for cost in costs):+.0f} %",
                "" if is_peer else f"{added_ratio(rounds, name):.2f}",
                f"+{duration(median(cost['end'] for cost in costs))}",
                "" if is_peer else f"{end_ratio(rounds, name):.2f}",
                f"{median(percent(cost, 'after') for cost in costs):+.1f} %",
            )
        )
    return markdown_table(lines)


def added_ratio(rounds: list[dict[str, Costs]], name: str) -> float:
    """Returns the ratio of what a window adds to a step to what torch.profiler adds."""

    def added(cost: Costs) -> float:
        return cost["during"] - cost["before"]

    return median(added(round_[name]) / added(round_[PEER]) for round_ in rounds)


def end_ratio(rounds: list[dict[str, Costs]], name: str) -> float:
    """Returns the ratio of the ends of a window and of torch.profiler."""
    return median(round_[name]["end"] / round_[PEER]["end"] for round_ in rounds)


def percent(cost: Costs, phase: str) -> float:
    """Returns what a phase takes above the one without the profiler."""
    return 100 * (cost[phase] / cost["before"] - 1)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
