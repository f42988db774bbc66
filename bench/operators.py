"""Measures the cost of recording PyTorch's operators: `python bench/operators.py`.

Each profiler runs in a process of its own, several times in turn: first without it, then with it
and without it in turn. Two programs: one operator in a loop, and the training step of
`examples/train_gpt.py`. All times are CPU times. `--update` writes the table to
`docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from pathlib import Path

from process import run_worker
from table import duration, markdown_table, update_document, verdict

PROCESSES = 5
PROFILERS = {
    "callback": "an empty callback",
    "tree-off": "marey, tree",
    "tree-sampled": "marey, tree, sampled shapes",
    "tree-all": "marey, tree, all shapes",
    "trace-off": "marey, trace",
    "torch": "torch.profiler",
    "torch-shapes": "torch.profiler, all shapes",
}
PEERS = {"tree-off": "torch", "tree-sampled": "torch", "tree-all": "torch-shapes"}
"""The peer with the same detail, for the profilers that have bars."""
MAX_OPERATOR_RATIO = 0.25
MAX_STEP_PERCENT = {"tree-off": 3.0, "tree-sampled": 3.3, "tree-all": 8.0}
MAX_AFTER_PERCENT = 0.1

# Prints, by program, the nanoseconds before the profiler, with it and after it. The blocks with it
# and after it alternate, so that a drift of the machine affects both.
WORKER = """
import ctypes, json, os, statistics, sys, time
sys.path.insert(0, {bench!r})
import torch, marey, marey.torch
import training

kind, _, detail = sys.argv[1].partition("-")
# Each start samples one of the first ten steps, so only long blocks have one sample in a hundred.
BLOCKS, OPERATORS, STEPS = (5, 20_000, 100) if detail == "sampled" else (15, 20_000, 20)
torch.set_num_threads(1)
element = torch.ones(1)

def loop():
    for _ in range(OPERATORS):
        element.add_(element)

def steps():
    for _ in range(STEPS):
        training.train()

def measure(phase):
    for name, run, count in (("operator", loop, OPERATORS), ("step", steps, STEPS)):
        training.train()  # the first step after a change has cold caches
        start = time.process_time_ns()
        run()
        found[phase][name].append((time.process_time_ns() - start) / count)

class Marey:
    def __init__(self, data, shapes):
        self.shapes = shapes
        self.session = marey.start("operators", data=data)
        marey.deactivate(self.session)

    def start(self):
        marey.torch.enable(operators=True, shapes=self.shapes)
        marey.activate(self.session)

    def stop(self):
        marey.deactivate(self.session)
        marey.torch.disable()

class Torch:
    def __init__(self, record_shapes):
        self.record_shapes = record_shapes

    def start(self):
        cpu = [torch.profiler.ProfilerActivity.CPU]
        self.profiler = torch.profiler.profile(activities=cpu, record_shapes=self.record_shapes)
        self.profiler.start()

    def stop(self):
        self.profiler.stop()

class Callback:
    def __init__(self):
        class Registration(ctypes.Structure):
            _fields_ = [("start", ctypes.c_void_p), ("end", ctypes.c_void_p),
                        ("probability", ctypes.c_double), ("kinds", ctypes.c_bool * 10),
                        ("needs", ctypes.c_bool * 6)]
        library = ctypes.CDLL("libtorch_cpu.so", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        self.add = library._ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE
        self.add.restype, self.add.argtypes = ctypes.c_uint64, [Registration]
        self.remove = library._ZN2at14removeCallbackEm
        self.remove.argtypes = [ctypes.c_uint64]
        # `start` may be absent; the end does nothing with its two arguments.
        nothing = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value
        kinds = (ctypes.c_bool * 10)(True, True, False, False, False, False, False, True)
        self.registration = Registration(None, nothing, 1.0, kinds)

    def start(self):
        self.handle = self.add(self.registration)

    def stop(self):
        self.remove(self.handle)

if kind == "callback":
    profiler = Callback()
elif kind == "torch":
    profiler = Torch(detail == "shapes")
else:
    profiler = Marey(kind, detail)
loop(), steps()
found = {{phase: dict(operator=[], step=[]) for phase in ("before", "during", "after")}}
for _ in range(BLOCKS):
    measure("before")
for _ in range(BLOCKS):
    profiler.start()
    measure("during")
    profiler.stop()
    measure("after")
print(json.dumps({{
    phase: {{name: statistics.median(nanos) for name, nanos in programs.items()}}
    for phase, programs in found.items()
}}))
"""

Costs = dict[str, dict[str, float]]
"""Nanoseconds by phase (before, during, after) and program (operator, step)."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures recording of operators.")
    parser.add_argument("--update", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    program = WORKER.format(bench=str(Path(__file__).parent))
    rounds: list[dict[str, Costs]] = [
        {name: run_worker(program, name) for name in PROFILERS} for _ in range(PROCESSES)
    ]
    costs = {name: medians([round_[name] for round_ in rounds]) for name in PROFILERS}
    text = operators_table(costs)
    print(text)
    if options.update:
        update_document("bench/operators.py", [text])
    return 0


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
        ratio = added[name] / added[PEERS[name]] if name in PEERS else None
        step, after = percent(cost, "during", "after"), percent(cost, "after", "before")
        step_bar = MAX_STEP_PERCENT.get(name)
        lines.append(
            (
                PROFILERS[name],
                f"+{duration(added[name])}",
                "" if ratio is None else f"{ratio:.3f}",
                ""
                if ratio is None
                else bar_cell(ratio <= MAX_OPERATOR_RATIO, f"≤ {MAX_OPERATOR_RATIO}"),
                f"{step:+.1f} %",
                "" if step_bar is None else bar_cell(step <= step_bar, f"≤ {step_bar} %"),
                f"{after:+.1f} %",
                bar_cell(after <= MAX_AFTER_PERCENT, f"≤ {MAX_AFTER_PERCENT} %")
                if name in PEERS
                else "",
            )
        )
    return markdown_table(lines)


def added_nanos(cost: Costs, program: str) -> float:
    return cost["during"][program] - cost["after"][program]


def percent(cost: Costs, phase: str, base: str) -> float:
    """Returns what the step takes in a phase above that in another one."""
    return 100 * (cost[phase]["step"] / cost[base]["step"] - 1)


def bar_cell(is_held: bool, bar: str) -> str:
    return f"{bar} {verdict(is_held)}"


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
