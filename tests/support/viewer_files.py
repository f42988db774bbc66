"""The input files of the viewer tests, and the arguments for each.

Small files are in `tests/data/viewer`; the others are generated here.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import marey
import pytest
from profiles import Node

libproton = pytest.importorskip("triton._C.libproton").proton


@dataclass(frozen=True)
class Subject:
    """A file and its arguments. Each metric is one value of `-m`.

    `shared` are metrics that `partner`, the file for diffs, has too. A subject that `is_brief` is
    skipped in tests that do not depend on the file.
    """

    metrics: list[str]
    shared: list[str]
    partner: str
    includes: list[str]
    excludes: list[str]
    is_brief: bool = False


UNITS = ["s", "ms", "us", "ns"]
RATES = [f"{scale}{rate}/s" for rate in ("flop", "byte") for scale in ("", "g", "t")]
WIDE_RATES = [f"{scale}flop{width}/s" for scale in ("", "g", "t") for width in (8, 16, 32, 64)]
TIMES = [f"{kind}/{unit}" for kind in ("time", "avg_time") for unit in UNITS]
CPU_TIMES = [f"{kind}/{unit}" for kind in ("cpu_time", "avg_cpu_time") for unit in UNITS]

SUBJECTS = {
    # `optimized` is a later version of it: nodes went, came and got faster.
    "kernels": Subject(
        metrics=[
            *TIMES, *RATES, *WIDE_RATES,
            "util", "time", "TIME", "Time (ns)", "bytes", "flops", "FLOPS16", "tokens",
            "time/%", "Count/%", "bytes/%", "flops32/%", "tokens/%",
            "time,count", "util,tflop16/s", "time,time", "tokens,time/ms",
            "count,TOKENS,bytes/%,util",
        ],
        shared=["time", "time/us,gbyte/s", "util,tokens", "avg_time/us", "bytes"],
        partner="optimized",
        includes=[
            "gemm", ".*gemm_128", "gemm.*f(16|64)$", r"reduce\.2", r"\w+\.\d", "[a-f]", "(?i)ADAMW",
            r"layer .q. é", "日|warm", r"gemm(?!_128)", r"^attention<\d+, true>\(float", r"\S+\Z",
            "st{",
        ],
        excludes=["gemm", "forward", ".*(e|k)$", "日本", "[^a-s]"],
    ),
    # Its flops and bytes are not on ROOT, so they are not summed.
    "hip": Subject(
        metrics=[
            *WIDE_RATES[:3], "util", "byte/s", "bytes", "bytes/%", "flops16/%", "time/us",
            "flops16,time", "util,util,flops8",
        ],
        shared=["time", "util,gbyte/s", "time/us,count"],
        partner="hip",
        includes=["Cijk", r"block\.1", r"block[.]\d$", "model$"],
        excludes=["block.0", "vector|memset"],
    ),
    # Names of every shape, for the formats.
    "frames": Subject(
        metrics=["time", "count", "avg_time/ns", "count/%,time"],
        shared=["time", "count,time/%", "avg_time/ns"],
        partner="metadata",
        includes=[
            "/home", r".*\.py:\d+@", ".*@<module>$", "ns::", "it's", r".*\[?/d", "[/:]", "brace{",
            "tail $", r"[^\W\d_]+@host",
        ],
        excludes=["/home/me/train", ".*@", r"\W", ".*_call_impl"],
    ),
    # Metrics of the user and of `cpu_timed_scope`, on ROOT and not, whole and real.
    "cpu": Subject(
        metrics=[
            *CPU_TIMES, "cpu_time", "tokens", "loss", "lr", "peak memory", "Peak memory",
            "temperature", "lr/%", "tokens/%", "loss/%", "tokens,lr,loss", "cpu_time,cpu_time/s",
        ],
        shared=["cpu_time/ms,tokens", "tokens", "loss", "lr"],
        partner="cpu",
        includes=["data", "e(poch|val)", "save|model"],
        excludes=["data", "eval", "batch"],
    ),
    # Frames of launch metadata, and nodes without data.
    "metadata": Subject(
        metrics=["time", "tokens", "time/%,count"],
        shared=["time", "avg_time/ns"],
        partner="frames",
        includes=["__proton", "matmul", "c$"],
        excludes=["a", "z_"],
        is_brief=True,
    ),
    "samples": Subject(
        metrics=["num_samples", "stalled_long_scoreboard", "STALLED_NOT_SELECTED,num_samples",
                 "num_stalled_samples/%", "time/us"],
        shared=["time", "time/us", "count/%"],
        partner="kernels",
        includes=[r"/w/matmul\.py:3[15]@", "matmul_kernel"],
        excludes=["/w/"],
        is_brief=True,
    ),
    # Negative bytes, no time, null, values near the limits of what is printed.
    "negative": Subject(
        metrics=[
            "bytes", "byte/s", "gbyte/s", "flop16/s", "util", "avg_time/ns", "bytes/%",
            "time,bytes", "drift", "loss", "drift/%", "loss/%",
        ],
        shared=["bytes", "byte/s", "flop16/s", "time,bytes"],
        partner="kernels",
        includes=["s", "no", "overflow"],
        excludes=["t$", "overflow", "u"],
    ),
    "deep": Subject(
        metrics=["time", "time/%"],
        shared=["time/us", "time"],
        partner="deep",
        includes=["level 99$", "level 119"],
        excludes=["level 50"],
        is_brief=True,
    ),
    # More children than one step of a pairwise sum takes.
    "wide": Subject(
        metrics=["flops", "flop/s", "flops/%", "own", "own/%", "flops,time"],
        shared=["flop/s", "flops"],
        partner="wide later",
        includes=["kernel [0-9]$", "kernel .*7"],
        excludes=["kernel 1", "group 1"],
        is_brief=True,
    ),
    "proton": Subject(
        metrics=["tokens", "loss", "tokens/%,loss", "wait", "cpu_time/us", "gib per s"],
        shared=["tokens", "loss"],
        partner="proton later",
        includes=["step", r"step \d", ".*step 1|leaf"],
        excludes=["inner", "step 1"],
    ),
    "marey": Subject(
        metrics=["tokens", "loss", "cpu_time/us", "wall_count", "wall_total", "wall_total/%"],
        shared=["tokens", "loss,wall_total"],
        partner="marey later",
        includes=["step", "timed|late"],
        excludes=["step 0", "timed"],
    ),
}  # fmt: skip


def make_files(folder: Path) -> None:
    """Writes the files that are too large for the repository, and files of both recorders."""
    write(folder / "deep", deep(120))
    for is_later in (False, True):
        write(folder / versioned_name("wide", is_later), wide(is_later))
        record_with_proton(folder / versioned_name("proton", is_later), is_later)
        record_with_marey(folder / versioned_name("marey", is_later), is_later)


def versioned_name(file: str, is_later: bool) -> str:
    return f"{file} later" if is_later else file


def write(path: Path, root: Node) -> None:
    path.with_suffix(".hatchet").write_text(json.dumps([root, {}]))


def node(label: str, values: dict[str, Any], *children: Node) -> Node:
    frame = {"name": label, "type": "function"}
    return {"frame": frame, "metrics": values, "children": [*children]}


def deep(levels: int) -> Node:
    below: list[Node] = []
    for level in reversed(range(levels)):
        below = [node(f"level {level}", {"time (ns)": level} if level % 7 != 1 else {}, *below)]
    return node("ROOT", {"time (ns)": 0}, *below)


def wide(is_later: bool) -> Node:
    rng = random.Random(is_later)
    groups = []
    for count in (5, 6, 7, 8, 20, 140 - is_later):
        metrics = {"flops": rng.uniform(0, 1e15)} if count % 2 else {}
        groups.append(node(f"group {count}", metrics, *kernels(rng, count)))
    return node("ROOT", {"flops": 0, "time (ns)": 0}, *groups)


def kernels(rng: random.Random, count: int) -> Iterator[Node]:
    for number in range(count):
        values = {"flops": rng.uniform(-1e3, 1e15), "time (ns)": rng.randrange(1, 10**9)}
        partial = {"own": rng.uniform(0, 1e14)} if rng.random() < 0.7 else {}
        yield node(f"kernel {number}", values | partial)


def record_with_proton(path: Path, is_later: bool) -> None:
    """Records the steps with Proton, without a GPU."""
    session = libproton.start(str(path), "shadow", "tree", "instrumentation", "cuda")
    for step in range(2 + is_later):
        scopes = []
        for label in (f"step {step}", 'inner "é"', "leaf"):
            scopes.append((libproton.record_scope(), label))
            libproton.enter_scope(*scopes[-1])
        outer, inner, leaf = (scope for scope, _ in scopes)
        libproton.add_metrics(outer, {"wait (ns)(exc)": 70 + is_later, "ids": [1, 2]})
        libproton.add_metrics(inner, {"tokens": 3 + step, "loss": 0.25})
        libproton.add_metrics(leaf, {"tokens": 1, "cpu_time (ns)(exc)": 12345, "GiB per s": 1.5})
        for scope in reversed(scopes):
            libproton.exit_scope(*scope)
    libproton.finalize(session, "hatchet")


def record_with_marey(path: Path, is_later: bool) -> None:
    """Records the steps with marey."""
    session = marey.start(path)
    for step in range(2 + is_later):
        step_scope = marey.scope(f"step {step}", {"loss": 0.25 + is_later})
        inner_scope = marey.scope("inner", {"tokens": 5, "ids": [1, 2]})
        with step_scope, marey.cpu_timed_scope("timed"), inner_scope:
            pass
    if is_later:
        marey.enter_scope("late")
        marey.exit_scope("late")
    marey.finalize(session)
