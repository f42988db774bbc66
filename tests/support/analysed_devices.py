"""Traces with properties of devices, in the format of torch.profiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import marey
from analyses import Event, kernel, open_run

Properties = dict[str, Any]

A100: Properties = {
    "name": "NVIDIA A100-SXM4-40GB",
    "computeMajor": 8,
    "computeMinor": 0,
    "numSms": 108,
    "warpSize": 32,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerMultiprocessor": 65536,
    "sharedMemPerMultiprocessor": 167936,
}
V100: Properties = {
    **A100,
    "name": "Tesla V100-SXM2-32GB",
    "computeMajor": 7,
    "numSms": 80,
    "sharedMemPerMultiprocessor": 98304,
}
RTX_4090: Properties = {
    **A100,
    "name": "NVIDIA GeForce RTX 4090",
    "computeMinor": 9,
    "numSms": 128,
    "maxThreadsPerMultiprocessor": 1536,
    "sharedMemPerMultiprocessor": 102400,
}
MI250: Properties = {
    **A100,
    "name": "AMD Instinct MI250X",
    "computeMajor": 9,
    "numSms": 104,
    "warpSize": 64,
}
P100: Properties = {**V100, "name": "Tesla P100", "computeMajor": 6}


def shaped(
    number: int, start: float, duration: float, blocks: int, threads: int, **more: Any
) -> Event:
    """Returns a kernel of so many blocks, each of so many threads."""
    registers, shared = more.pop("registers", 16), more.pop("shared", 0)
    return kernel(
        number,
        start,
        duration,
        grid=[blocks, 1, 1],
        block=[threads, 1, 1],
        **{"registers per thread": registers, "shared memory": shared},
        **more,
    )


def run_on(events: list[Event], *devices: Properties, **metadata: str) -> marey.run.Run:
    """Makes a run of a trace with these events, in microseconds, on these devices."""
    trace = {
        "schemaVersion": 1,
        **metadata,
        "baseTimeNanoseconds": 0,
        "deviceProperties": [{"id": index, **device} for index, device in enumerate(devices)],
        "traceEvents": events,
    }
    path = Path("trace.json")
    path.write_text(json.dumps(trace))
    return open_run(path)
