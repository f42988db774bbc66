"""The measured rows, with their peers and bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NANOS_PER_MILLI = 1e6


@dataclass(frozen=True)
class Side:
    """One of the two programs of a row."""

    label: str
    worker: str
    """A system of `worker.py`, or `native` and a number of sessions."""
    workload: str


@dataclass(frozen=True)
class Bar:
    """A limit of the ratio of our figure to the peer's, of our figure, or of their difference."""

    quantity: Literal["ratio", "speedup", "nanos", "difference"]
    limit: float

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.quantity == "speedup" else value <= self.limit


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    name: str
    description: str
    ours: Side
    peer: Side | None = None
    bar: Bar | None = None
    processes: int = 5
    """Number of processes per side, one after the other."""
    rounds: int = 21
    """Number of rounds of each side per process."""
    round_millis: float = 5
    """Least duration of a round."""
    statistic: Literal["median", "best"] = "median"
    """Statistic over the rounds: `best` for rows whose threads need both cores at the same time."""


def marey(workload: str = "scope", worker: str = "marey") -> Side:
    return Side("marey", worker, workload)


def proton(workload: str = "scope", worker: str = "proton") -> Side:
    return Side("Proton", worker, workload)


def torch(workload: str) -> Side:
    return Side("torch.profiler", "torch", workload)


def native(workload: str, sessions: int) -> Side:
    return Side("marey", f"native {sessions}", workload)


ROWS = (
    Row(
        "scope",
        '`with scope("x")`, session on',
        marey(),
        proton(),
        Bar("ratio", 0.25),
    ),
    Row(
        "scope-off",
        '`with scope("x")`, no session',
        marey(worker="marey-off"),
        proton(worker="proton-off"),
        Bar("ratio", 0.4),
    ),
    Row(
        "python",
        '`context="python"`, 20 frames deep',
        marey("deep-scope", "marey-python"),
        proton("deep-scope", "proton-python"),
        Bar("ratio", 0.1),
    ),
    Row(
        "python-calls",
        "the same, the innermost frame a new call each time",
        marey("deep-calls", "marey-python"),
        proton("deep-calls", "proton-python"),
        Bar("ratio", 0.1),
    ),
    Row(
        "trace",
        '`with scope("x")`, session with `data="trace"`',
        marey("scope", "marey-trace"),
        proton("scope", "proton-trace"),
        Bar("ratio", 0.2),
        round_millis=20,
    ),
    Row(
        "trace-finalize",
        "end of a trace session, a scope",
        marey("finalize", "marey-trace"),
        proton("finalize", "proton-trace"),
        Bar("ratio", 0.1),
        round_millis=100,
        processes=3,
        rounds=5,
    ),
    Row("metrics", '`with scope("x", {"a": 1})`', marey("metrics"), proton("metrics")),
    Row(
        "enter-exit",
        '`enter_scope("x")`, `exit_scope()`',
        marey("enter-exit"),
        proton("enter-exit"),
    ),
    Row("decorator", '`@scope("x")`', marey("decorator"), proton("decorator")),
    Row(
        "record-function",
        "`with record_function` in `torch.profiler.profile`, ours with a session",
        marey(),
        torch("on"),
    ),
    Row(
        "record-function-off",
        "the same, no profiler and no session",
        marey(worker="marey-off"),
        torch("off"),
    ),
    Row(
        "native",
        "scope from C, enter and exit",
        native("scope", 1),
        Side("two clock reads", "native 1", "clock"),
        Bar("difference", 10),
    ),
    Row("native-2-sessions", "the same, two sessions", native("scope", 2)),
    Row("native-off", "the same, no session", native("scope", 0)),
    Row(
        "native-2-threads",
        "scopes from C on two threads, beside one thread (wall time, best round)",
        Side("two threads", "native 1", "2-threads"),
        Side("one thread", "native 1", "1-thread"),
        Bar("speedup", 1.9),
        processes=1,
        rounds=201,
        statistic="best",
    ),
    Row(
        "modules",
        "training step of `examples/train_gpt.py` with module hooks and a session, beside plain",
        Side("marey", "training", "hooked"),
        Side("plain", "training", "plain"),
        Bar("ratio", 1.03),
        round_millis=50,
    ),
    Row(
        "region",
        '`with profiler.profile_region("x")` of `marey.training`, beside `marey.scope` in a trace',
        marey("region", "regions"),
        Side("marey.scope", "marey-trace", "scope"),
        Bar("ratio", 1.3),
        round_millis=20,
    ),
    Row(
        "region-events",
        "the same where events time the GPU, by a double of the events",
        marey("region-events", "regions"),
        Side("marey.scope", "marey-trace", "scope"),
        round_millis=20,
    ),
    Row(
        "skipped-epoch",
        "what `marey.training` adds to an epoch that it does not record: the reports of a trainer,"
        " three regions and the end of a step; beside a step of `examples/train_gpt.py`",
        Side("marey", "training", "unrecorded"),
        Side("plain", "training", "plain"),
        Bar("ratio", 0.001),
        round_millis=50,
    ),
    Row(
        "import",
        "`import marey`, beside `import triton.profiler`",
        marey("marey", "imports"),
        Side("Proton", "imports", "triton.profiler"),
        processes=1,
        rounds=7,
        round_millis=0,
    ),
    Row(
        "import-native",
        "loading `marey._native`",
        marey("marey._native", "imports"),
        bar=Bar("nanos", 5 * NANOS_PER_MILLI),
        processes=1,
        rounds=15,
        round_millis=0,
    ),
)
