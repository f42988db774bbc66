"""Measures the cost of recording PyTorch's operators: `python bench/operators.py`.

Two processes are forked from one that has trained already: one records, the other one does not.
They work in turn, a few training steps of `examples/train_gpt.py` and a loop of one operator each,
so that a drift of the machine affects both; then the recording stops, and they go on in turn. A
figure is the median of the ratios of neighbouring blocks, with the 95 % confidence interval of a
median. All times are CPU times. `--update` writes the table to `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

from process import run_worker
from table import duration, markdown_table, update_document, verdict

ROUNDS = 60
PROFILERS = {
    "control": "nothing: two equal processes",
    "callback": "PyTorch's callbacks alone, which do nothing",
    "modules": "marey, tree, modules alone",
    "tree-off": "marey, tree, names",
    "tree-all": "marey, tree, all shapes",
    "trace-off": "marey, trace, names",
    "torch": "torch.profiler, names",
    "torch-shapes": "torch.profiler, all shapes",
}
PEERS = {"tree-off": "torch", "tree-all": "torch-shapes", "trace-off": "torch"}
"""The peer with the same detail."""
MAX_OPERATOR_RATIO = 0.25
MAX_STEP_PERCENT = {"tree-off": 3.0, "tree-all": 8.0}
MAX_SAMPLED_PERCENT = 0.3
STEPS_PER_SAMPLE = 100
"""With sampled shapes one step in so many is recorded as with all shapes, and no other step."""
MAX_AFTER_PERCENT = 0.1

# Prints, by phase (during, after), for each round the nanoseconds of an operator and of a step
# with the profiler and without it.
WORKER = """
import ctypes, json, os, statistics, sys, time
sys.path.insert(0, {bench!r})
import torch, marey, marey.torch
import training

kind, _, detail = sys.argv[1].partition("-")
ROUNDS, STEPS, OPERATORS = {rounds}, 5, 5000
torch.set_num_threads(1)
element = torch.ones(1)

class Nothing:
    def start(self):
        pass

    def stop(self):
        pass

class Marey:
    def __init__(self, data, **details):
        self.data, self.details = data, details

    def start(self):
        self.session = marey.start("operators", data=self.data)
        marey.torch.enable(**self.details)

    def stop(self):
        marey.deactivate(self.session)
        marey.torch.disable()

class Torch:
    def start(self):
        cpu = [torch.profiler.ProfilerActivity.CPU]
        self.profiler = torch.profiler.profile(activities=cpu, record_shapes=detail == "shapes")
        self.profiler.start()

    def stop(self):
        self.profiler.stop()

class Callback:
    def start(self):
        class Registration(ctypes.Structure):
            _fields_ = [("start", ctypes.c_void_p), ("end", ctypes.c_void_p),
                        ("probability", ctypes.c_double), ("kinds", ctypes.c_bool * 10),
                        ("needs", ctypes.c_bool * 6)]
        self.library = ctypes.CDLL("libtorch_cpu.so", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        add = self.library._ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE
        add.restype, add.argtypes = ctypes.c_uint64, [Registration]
        # `start` may be absent; the end does nothing with its two arguments.
        nothing = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value
        kinds = (ctypes.c_bool * 10)(True, True, False, False, False, False, False, True)
        self.handle = add(Registration(None, nothing, 1.0, kinds))

    def stop(self):
        remove = self.library._ZN2at14removeCallbackEm
        remove.argtypes = [ctypes.c_uint64]
        remove(self.handle)

def make_profiler():
    if kind in ("tree", "trace"):
        return Marey(kind, operators=True, shapes=detail)
    others = dict(control=Nothing, callback=Callback, torch=Torch, modules=lambda: Marey("tree"))
    return others[kind]()

def block():
    training.train()  # the first step after the other process's block has cold caches
    steps = []
    for _ in range(STEPS):
        start = time.process_time_ns()
        training.train()
        steps.append(time.process_time_ns() - start)
    start = time.process_time_ns()
    for _ in range(OPERATORS):
        element.add_(element)
    return (time.process_time_ns() - start) / OPERATORS, statistics.median(steps)

class Worker:
    def __init__(self, profiler):
        (child_in, self.out), (self.answers, child_out) = os.pipe(), os.pipe()
        if os.fork():
            os.close(child_in), os.close(child_out)
            self.answers = os.fdopen(self.answers)
            return
        os.close(self.out), os.close(self.answers)
        actions = dict(s=profiler.start, e=profiler.stop, b=block)
        while command := os.read(child_in, 1):
            result = actions[command.decode()]()
            os.write(child_out, (json.dumps(result) + "\\n").encode())
        os._exit(0)

    def ask(self, command):
        os.write(self.out, command)
        return json.loads(self.answers.readline())

for _ in range(30):
    training.train()
profiled = Worker(make_profiler())
plain = Worker(Nothing())
found = {{}}
for phase, command in (("during", b"s"), ("after", b"e")):
    profiled.ask(command), profiled.ask(b"b"), plain.ask(b"b")
    found[phase] = []
    for number in range(ROUNDS):
        # Each is the first one in every other round.
        pair = [profiled, plain] if number % 2 else [plain, profiled]
        answers = {{worker: worker.ask(b"b") for worker in pair}}
        found[phase].append([answers[profiled], answers[plain]])
print(json.dumps(found))
os._exit(0)
"""


class Figure(NamedTuple):
    """A median, and the ends of its 95 % confidence interval."""

    median: float
    low: float
    high: float


class Cost(NamedTuple):
    """The cost of a profiler."""

    operator_nanos: Figure
    """Time added to an operator, in nanoseconds."""
    step_percent: Figure
    """Time added to a step, in percent of a step without the profiler."""
    after_percent: Figure
    """Time added to a step after the profiler has stopped, in percent."""
    plain_nanos: float
    """Time of a step without the profiler, in nanoseconds."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures recording of operators.")
    parser.add_argument("--update", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    program = WORKER.format(bench=str(Path(__file__).parent), rounds=ROUNDS)
    costs = {name: evaluate(run_worker(program, name)) for name in PROFILERS}
    text = "\n\n".join([operators_table(costs), conclusion(costs)])
    print(text)
    if options.update:
        update_document("bench/operators.py", [text])
    return 0


def evaluate(found: dict[str, Any]) -> Cost:
    """Returns the cost from the pairs of blocks by phase."""

    def percents(phase: str) -> list[float]:
        return [100 * (ours[1] / plain[1] - 1) for ours, plain in found[phase]]

    added = [ours[0] - plain[0] for ours, plain in found["during"]]
    plain_nanos = statistics.median(plain[1] for _, plain in found["during"])
    during, after = median(percents("during")), median(percents("after"))
    return Cost(median(added), during, after, plain_nanos)


def median(values: list[float]) -> Figure:
    """Returns the median with its interval, between two order statistics (binomial, 95 %)."""
    ordered, count = sorted(values), len(values)
    margin = 0.98 * math.sqrt(count)
    low = max(0, math.floor(count / 2 - margin))
    high = min(count - 1, math.ceil(count / 2 + margin))
    return Figure(statistics.median(ordered), ordered[low], ordered[high])


def operators_table(costs: dict[str, Cost]) -> str:
    """Returns the table: what each profiler adds to the operator and to the step."""
    lines = [("profiler", "an operator", "of torch.profiler's", "", "a step", "", "after stop", "")]
    for name, cost in costs.items():
        added, ratio = cost.operator_nanos.median, None
        if name in PEERS:
            ratio = added / costs[PEERS[name]].operator_nanos.median
        has_bar = name.startswith("tree")
        step_bar = MAX_STEP_PERCENT.get(name)
        lines.append(
            (
                PROFILERS[name],
                "" if name in ("control", "modules") else f"+{duration(added)}",
                "" if ratio is None else f"{ratio:.3f}",
                ""
                if ratio is None or not has_bar
                else f"≤ {MAX_OPERATOR_RATIO} {verdict(ratio <= MAX_OPERATOR_RATIO)}",
                percent_text(cost.step_percent),
                "" if step_bar is None else percent_bar(cost.step_percent, step_bar),
                percent_text(cost.after_percent),
                percent_bar(cost.after_percent, MAX_AFTER_PERCENT) if has_bar else "",
            )
        )
    return markdown_table(lines)


def conclusion(costs: dict[str, Cost]) -> str:
    """Returns what sampled shapes add, and the step that the percentages refer to."""
    all_shapes, names = costs["tree-all"].step_percent, costs["tree-off"].step_percent
    sampled = (all_shapes.median - names.median) / STEPS_PER_SAMPLE
    plain = statistics.median(cost.plain_nanos for cost in costs.values())
    return (
        f"A step without a profiler takes {duration(plain)}. Sampled shapes add {sampled:.2f} % to "
        f"names, a {STEPS_PER_SAMPLE}th of what all shapes add (≤ {MAX_SAMPLED_PERCENT} % "
        f"{verdict(sampled <= MAX_SAMPLED_PERCENT)}). In parentheses: 95 % confidence intervals."
    )


def percent_text(figure: Figure) -> str:
    return f"{figure.median:+.1f} % ({figure.low:+.1f} to {figure.high:+.1f})"


def percent_bar(figure: Figure, limit: float) -> str:
    """Returns the bar with its verdict; `open` if the interval allows both."""
    if figure.low <= limit < figure.high:
        return f"≤ {limit} % open"
    return f"≤ {limit} % {verdict(figure.median <= limit)}"


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
