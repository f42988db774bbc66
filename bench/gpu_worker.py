"""One process of `bench/gpu.py`: launches kernels on the double under one profiler.

    python gpu_worker.py {nothing|marey|proton} {tree|trace|run} KERNELS

The kind `run` is a trace in marey's run directory; `trace` is written as a Chrome trace.

Prints a JSON object: CPU nanoseconds per launch (all threads), per kernel (marey's decoder) and per
kernel for the end of the session; dropped records; and the peak of resident memory in bytes.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from replay import Double, use_driver

KERNELS_PER_BATCH = 100_000
KERNEL_NANOS = 1000
WARM_UP_KERNELS = 1000

Scope = Callable[[str], AbstractContextManager[object]]


def start_session(profiler: str, kind: str) -> tuple[Scope, Callable[[], object]]:
    """Starts the profiler; returns its scope and a function that ends the session."""
    if profiler == "marey":
        import marey

        data = "tree" if kind == "tree" else "trace"
        session = marey.start("marey", backend="cupti", data=data)
        file_format = "marey" if kind == "run" else ""
        return marey.scope, lambda: marey.finalize(session, file_format)
    if profiler == "proton":
        use_driver()
        import triton.profiler as proton

        session = proton.start("proton", backend="cupti", data=kind)
        file_format = "chrome_trace" if kind == "trace" else "hatchet"
        return proton.scope, lambda: proton.finalize(session, file_format)
    return lambda name: contextlib.nullcontext(), lambda: None


def decoder_nanos() -> float:
    """Returns the CPU time of marey's decoder so far."""
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().strip() == "marey-gpu":
            return float((task / "schedstat").read_text().split()[0])
    return 0.0


def main(profiler: str, kind: str, kernels: int) -> None:
    double = Double()
    scope, end_session = start_session(profiler, kind)
    double.launch("kernel", KERNEL_NANOS, times=WARM_UP_KERNELS)
    start = time.process_time_ns()
    with scope("step"):
        for _ in range(kernels // KERNELS_PER_BATCH):
            double.launch("kernel", KERNEL_NANOS, times=KERNELS_PER_BATCH)
    launch_end = time.process_time_ns()
    decoding_nanos = decoder_nanos()
    end_session()
    session_end = time.process_time_ns()
    print(
        json.dumps(
            {
                "launch_nanos": (launch_end - start) / kernels,
                "decoder_nanos": decoding_nanos / kernels,
                "end_nanos": (session_end - launch_end) / kernels,
                "dropped": double.stats().dropped,
                "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
