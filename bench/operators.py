"""Measures the cost of recording PyTorch's operators: `python bench/operators.py`.

Processes are forked from one that has trained already: one records with marey, one with
torch.profiler and the same detail, and one does not record. They work in turn, a few training steps
of `examples/train_gpt.py` and a loop of one operator each, so that a drift of the machine affects
all; then the recording stops, and they go on in turn. A figure is the median over the rounds, with
the 95 % confidence interval of a median; a ratio divides what the two add in a round. With
sampled shapes a round has as many steps as one is sampled of, and its figure is their mean. All
times are CPU times. `--update` writes the table to `docs/benchmarks.md`.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from pathlib import Path
from typing import NamedTuple

from process import run_worker
from table import document_parser, duration, markdown_table, publish, verdict

PROFILERS = {
    "control": "nothing: two equal processes",
    "callback": "PyTorch's callbacks alone, which do nothing",
    "modules": "marey, tree, modules alone",
    "tree-off": "marey, tree, names",
    "tree-sampled": "marey, tree, sampled shapes",
    "tree-all": "marey, tree, all shapes",
    "trace-off": "marey, trace, names",
    "trace-sampled": "marey, trace, sampled shapes",
    "trace-all": "marey, trace, all shapes",
}
PEERS = {
    "tree-off": "torch",
    "tree-sampled": "torch-shapes",
    "tree-all": "torch-shapes",
    "trace-off": "torch",
    "trace-sampled": "torch-shapes",
    "trace-all": "torch-shapes",
}
"""torch.profiler with the same detail: with names, or with all shapes, as it samples none."""
MAX_OPERATOR_RATIO = 0.25
MAX_STEP_PERCENT = {"tree-off": 3.0, "tree-sampled": 3.3, "tree-all": 8.0}
"""Bars of a step in percent; sampled shapes may add 0.3 % to names."""
MAX_AFTER_PERCENT = 0.1


class Rounds(NamedTuple):
    """The amount of work under a profiler."""

    rounds: int
    steps: int
    """Steps of a round."""
    statistic: str
    """The function of `statistics` that makes one figure of them."""


FEW_STEPS = Rounds(60, 5, "median")
SAMPLED_STEPS = Rounds(12, 100, "mean")
"""With sampled shapes one step in a hundred is read, which a median would leave out."""

# Prints, by phase (during, after), for each round the nanoseconds of an operator and of a step of
# each of the profilers in the first argument, and last without any.
WORKER = """
import ctypes, json, os, statistics, sys, time
sys.path.insert(0, {bench!r})
import torch, marey, marey.torch
import training

names = sys.argv[1].split(",")
ROUNDS, STEPS, OPERATORS = int(sys.argv[2]), int(sys.argv[3]), 5000
statistic = getattr(statistics, sys.argv[4])
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
    def __init__(self, record_shapes):
        self.record_shapes = record_shapes

    def start(self):
        cpu = [torch.profiler.ProfilerActivity.CPU]
        self.profiler = torch.profiler.profile(activities=cpu, record_shapes=self.record_shapes)
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

def make_profiler(name):
    kind, _, detail = name.partition("-")
    if kind in ("tree", "trace"):
        return Marey(kind, operators=True, shapes=detail)
    if kind == "torch":
        return Torch(detail == "shapes")
    others = dict(control=Nothing, callback=Callback, modules=lambda: Marey("tree"))
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
    return (time.process_time_ns() - start) / OPERATORS, statistic(steps)

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
workers = [Worker(make_profiler(name)) for name in names]
workers.append(Worker(Nothing()))
# torch.profiler keeps each event in memory until it stops, so it begins anew in each round.
is_renewed = [name.startswith("torch") for name in names] + [False]
found = {{}}
for phase, command in (("during", b"s"), ("after", b"e")):
    for worker in workers[:-1]:
        worker.ask(command)
    for worker in workers:
        worker.ask(b"b")
    found[phase] = []
    for number in range(ROUNDS):
        # Each is the first one in its turn.
        first = number % len(workers)
        answers = {{}}
        for worker in workers[first:] + workers[:first]:
            answers[worker] = worker.ask(b"b")
        found[phase].append([answers[worker] for worker in workers])
        for worker, renews in zip(workers, is_renewed):
            if renews and phase == "during":
                worker.ask(b"e"), worker.ask(b"s")
print(json.dumps(found))
os._exit(0)
"""


class Figure(NamedTuple):
    """A median, and the ends of its 95 % confidence interval."""

    median: float
    low: float
    high: float


class Added(NamedTuple):
    """Time that a profiler adds while it records."""

    operator_nanos: Figure
    """To an operator, in nanoseconds."""
    step_percent: Figure
    """To a step, in percent of a step without the profiler."""


class Cost(NamedTuple):
    """The cost of a profiler, and that of its peer in the same rounds."""

    ours: Added
    peer: Added | None
    operator_ratio: Figure | None
    """Time added to an operator, divided by the time that the peer adds."""
    step_ratio: Figure | None
    """Time added to a step, divided by the time that the peer adds."""
    after_percent: Figure
    """Time added to a step after the profiler has stopped, in percent."""
    plain_nanos: float
    """Time of a step without the profiler, in nanoseconds."""


def main() -> None:
    parser = document_parser("Measures recording of operators.")
    parser.add_argument("--only", metavar="NAME", choices=PROFILERS, help="measure one profiler")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each, to try it out")
    options = parser.parse_args()
    if options.update and (options.only or options.rounds):
        parser.error("--update needs all profilers and rounds")
    names = [options.only] if options.only else list(PROFILERS)
    costs = {name: measure(name, options.rounds) for name in names}
    texts = [operators_table(costs), conclusion(costs)]
    publish("bench/operators.py", texts, is_update=options.update)


def measure(name: str, rounds: int | None) -> Cost:
    """Returns the cost of a profiler, in `rounds` rounds or in as many as it needs."""
    amount = SAMPLED_STEPS if name.endswith("sampled") else FEW_STEPS
    names = [name, PEERS[name]] if name in PEERS else [name]
    program = WORKER.format(bench=str(Path(__file__).parent))
    arguments = (str(rounds or amount.rounds), str(amount.steps), amount.statistic)
    return evaluate(run_worker(program, ",".join(names), *arguments))


def evaluate(found: dict[str, list[list[tuple[float, float]]]]) -> Cost:
    """Returns the cost from the rounds by phase: operator and step of each, without any last."""
    during = found["during"]
    ours = added(during, 0)
    has_peer = len(during[0]) > 2
    after = median([100 * (round_[0][1] / round_[-1][1] - 1) for round_ in found["after"]])
    return Cost(
        ours,
        added(during, 1) if has_peer else None,
        ratio(during, 0) if has_peer else None,
        ratio(during, 1) if has_peer else None,
        after,
        statistics.median(round_[-1][1] for round_ in during),
    )


def added(rounds: list[list[tuple[float, float]]], which: int) -> Added:
    """Returns what one of the profilers adds."""
    return Added(
        median([round_[which][0] - round_[-1][0] for round_ in rounds]),
        median([100 * (round_[which][1] / round_[-1][1] - 1) for round_ in rounds]),
    )


def ratio(rounds: list[list[tuple[float, float]]], quantity: int) -> Figure:
    """Returns what the first profiler adds to a quantity, divided by what the second one adds."""
    ratios = []
    for ours, peer, plain in rounds:
        peer_added = peer[quantity] - plain[quantity]
        # A round in which the peer added nothing counts as one in which marey added more.
        ours_added = ours[quantity] - plain[quantity]
        ratios.append(ours_added / peer_added if peer_added > 0 else math.inf)
    return median(ratios)


def median(values: list[float]) -> Figure:
    """Returns the median with its interval, between two order statistics (binomial, 95 %)."""
    ordered, count = sorted(values), len(values)
    margin = 0.98 * math.sqrt(count)
    low = max(0, math.floor(count / 2 - margin))
    high = min(count - 1, math.ceil(count / 2 + margin))
    return Figure(statistics.median(ordered), ordered[low], ordered[high])


def operators_table(costs: dict[str, Cost]) -> str:
    """Returns the table: what each profiler adds to the operator and to the step."""
    of_operators = ("an operator", "torch.profiler", "ratio", "")
    of_steps = ("a step", "torch.profiler", "ratio", "")
    lines = [("profiler", *of_operators, *of_steps, "after stop", "")]
    for name, cost in costs.items():
        operator, step = cost.ours
        has_bar = name.startswith("tree")
        step_bar = MAX_STEP_PERCENT.get(name)
        lines.append(
            (
                PROFILERS[name],
                "" if name in ("control", "modules") else f"+{duration(operator.median)}",
                "" if cost.peer is None else f"+{duration(cost.peer.operator_nanos.median)}",
                "" if cost.operator_ratio is None else ratio_text(cost.operator_ratio),
                ""
                if cost.operator_ratio is None or not has_bar
                else bar_text(cost.operator_ratio, MAX_OPERATOR_RATIO, ""),
                percent_text(step),
                "" if cost.peer is None else percent_text(cost.peer.step_percent),
                "" if cost.step_ratio is None else ratio_text(cost.step_ratio),
                "" if step_bar is None else bar_text(step, step_bar, " %"),
                percent_text(cost.after_percent),
                bar_text(cost.after_percent, MAX_AFTER_PERCENT, " %") if has_bar else "",
            )
        )
    return markdown_table(lines)


def conclusion(costs: dict[str, Cost]) -> str:
    """Returns the step that the percentages refer to."""
    plain = statistics.median(cost.plain_nanos for cost in costs.values())
    return (
        f"A step without a profiler takes {duration(plain)}. In parentheses: 95 % confidence "
        "intervals."
    )


def ratio_text(figure: Figure) -> str:
    return f"{figure.median:.2f} ({figure.low:.2f} to {figure.high:.2f})"


def percent_text(figure: Figure) -> str:
    return f"{figure.median:+.1f} % ({figure.low:+.1f} to {figure.high:+.1f})"


def bar_text(figure: Figure, limit: float, unit: str) -> str:
    """Returns the bar with its verdict; `open` if the interval allows both."""
    if figure.low <= limit < figure.high:
        return f"≤ {limit}{unit} open"
    return f"≤ {limit}{unit} {verdict(figure.median <= limit)}"


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
