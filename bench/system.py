"""Cost of reading the counters of the process: the CPU time of the thread that reads them.

    python bench/system.py [--threads 200] [--seconds 10]

Reads every 50 ms, the shortest interval, and prints the time of one reading and its share of a
core at the default interval of one second.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
from pathlib import Path

INTERVAL_SECS = 0.05
THREAD_NAME = "marey-system"


def reader_cpu_secs() -> float:
    """Returns the CPU time of the thread that reads the counters."""
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().strip() == THREAD_NAME:
            nanos, _ = (task / "schedstat").read_text().split(" ", 1)
            return int(nanos) / 1e9
    raise LookupError(f"there is no thread {THREAD_NAME}")


def reading_secs(thread_count: int, seconds: float) -> float:
    """Returns the CPU time of one reading in a process with this many more threads."""
    os.environ["MAREY_SYSTEM_METRICS_SECS"] = str(INTERVAL_SECS)
    import marey

    ended = threading.Event()
    for _ in range(thread_count):
        threading.Thread(target=ended.wait, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        session = marey.start(os.path.join(folder, "run"), data="trace")
        ended.wait(1)
        before = reader_cpu_secs()
        ended.wait(seconds)
        reading = (reader_cpu_secs() - before) / (seconds / INTERVAL_SECS)
        marey.finalize(session, output_format="marey")
    ended.set()
    return reading


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    reading = reading_secs(options.threads, options.seconds)
    print(
        f"{options.threads} threads: {reading * 1e6:.0f} us for each reading, "
        f"{reading:.4%} of a core at one reading each second"
    )


if __name__ == "__main__":
    main()
