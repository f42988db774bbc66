"""Measures the cost of recording PyTorch's operators: `python bench/operators.py`.

Each profiler runs in a process of its own, several times in turn: first without it, then with it,
then after it has stopped. Two programs: one operator in a loop, and the training step of
`examples/train_gpt.py`. All times are CPU times. `--update` writes the table to
`docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from table import duration, markdown_table, update_document, verdict

PROCESSES = 5
PROFILERS = {
    "tree": "marey, tree",
    "trace": "marey, trace",
    "torch": "torch.profiler",
}
MAX_OPERATOR_RATIO = 0.25
MAX_STEP_PERCENT = 3.0
MAX_AFTER_PERCENT = 0.1

# Prints, by program, the nanoseconds of each block before, with and after the profiler. Blocks of
# both programs alternate.
WORKER = """
import contextlib, json, statistics, sys, time
sys.path.insert(0, {bench!r})
import torch, marey, marey.torch
import training

BLOCKS, OPERATORS, STEPS = 15, 20_000, 20
torch.set_num_threads(1)
element = torch.ones(1)

def loop():
    for _ in range(OPERATORS):
        element.add_(element)

def steps():
    for _ in range(STEPS):
        training.train()

def measure():
    found = dict(operator=[], step=[])
    for _ in range(BLOCKS):
        for name, run, count in (("operator", loop, OPERATORS), ("step", steps, STEPS)):
            start = time.process_time_ns()
            run()
            found[name].append((time.process_time_ns() - start) / count)
    return {{name: statistics.median(nanos) for name, nanos in found.items()}}

@contextlib.contextmanager
def marey_session(data):
    marey.torch.enable(operators=True)
    session = marey.start("operators", data=data)
    yield
    marey.torch.disable()
    marey.finalize(session)

def torch_profiler():
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])

loop(), steps()
before = measure()
profiler = sys.argv[1]
with torch_profiler() if profiler == "torch" else marey_session(profiler):
    during = measure()
print(json.dumps(dict(before=before, during=during, after=measure())))
"""

Costs = dict[str, dict[str, float]]
"""Nanoseconds by phase (before, during, after) and program (operator, step)."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures recording of operators.")
    parser.add_argument("--update", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    rounds = [{name: run(name) for name in PROFILERS} for _ in range(PROCESSES)]
    costs = {name: medians([round_[name] for round_ in rounds]) for name in PROFILERS}
    text = operators_table(costs)
    print(text)
    if options.update:
        update_document("bench/operators.py", [text])
    return 0


def run(profiler: str) -> Costs:
    """Runs a process, in a folder of its own."""
    program = WORKER.format(bench=str(Path(__file__).parent))
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", program, profiler],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
    costs: Costs = json.loads(done.stdout.splitlines()[-1])
    return costs


def medians(runs: list[Costs]) -> Costs:
    return {
        phase: {
            program: statistics.median(run[phase][program] for run in runs)
            for program in runs[0][phase]
        }
        for phase in runs[0]
    }


def operators_table(costs: dict[str, Costs]) -> str:
    """Returns the table: what each profiler adds to the operator and to the step."""
    added = {name: added_nanos(cost, "operator") for name, cost in costs.items()}
    lines = [("profiler", "an operator", "of torch.profiler's", "", "a step", "", "after stop", "")]
    for name, cost in costs.items():
        is_ours = name != "torch"
        ratio = added[name] / added["torch"]
        step = percent(cost, "step", "during")
        after = percent(cost, "step", "after")
        lines.append(
            (
                PROFILERS[name],
                f"+{duration(added[name])}",
                f"{ratio:.3f}" if is_ours else "",
                bar_cell(ratio <= MAX_OPERATOR_RATIO, f"≤ {MAX_OPERATOR_RATIO}") if is_ours else "",
                f"{step:+.1f} %",
                bar_cell(step <= MAX_STEP_PERCENT, f"≤ {MAX_STEP_PERCENT} %")
                if name == "tree"
                else "",
                f"{after:+.1f} %",
                bar_cell(after <= MAX_AFTER_PERCENT, f"≤ {MAX_AFTER_PERCENT} %") if is_ours else "",
            )
        )
    return markdown_table(lines)


def added_nanos(cost: Costs, program: str) -> float:
    return cost["during"][program] - cost["before"][program]


def percent(cost: Costs, program: str, phase: str) -> float:
    """Returns what a phase takes above the one without the profiler."""
    return 100 * (cost[phase][program] / cost["before"][program] - 1)


def bar_cell(is_held: bool, bar: str) -> str:
    return f"{bar} {verdict(is_held)}"


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
