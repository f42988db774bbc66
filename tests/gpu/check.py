"""Checks marey on the GPU of this machine, with PyTorch and Triton: `check.py --output FOLDER`.

Requires an installed marey and Triton or PyTorch or both; no Rust, no network and no pytest. Each
check runs in its own process with a time limit, so a crash or a hang is a failure of that check.
Two files are written: `DEVICE.json`, with versions, outcomes and figures, and `DEVICE.replay`, a
script of the device's records that the double can play in tests.

The exit code is 1 if a check failed, else 0. Without a device it is 0, with a message.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import machine
from case import CHECKS, Check
from worlds import available

HERE = Path(__file__).parent
CHILD = HERE / "child.py"
STREAM_CHECK = "recorded-stream"
STREAM_WORLDS = ("torch+triton", "torch", "triton")
"""The stream that is kept is that of the first of these."""

DEFAULT_SECS = 570
"""So that all of it takes less than ten minutes."""


class Result(NamedTuple):
    """The outcome of a check in a world."""

    name: str
    world: str
    promise: str
    outcome: str
    """``ok``, ``failed`` or ``skipped``."""

    secs: float
    why: str
    figures: dict[str, Any]


def main() -> int:
    options = _options()
    register_checks()
    if options.list:
        for check in CHECKS:
            print(f"{check.name:24} {check.promise}")
        return 0
    end_secs = time.monotonic() + options.seconds
    found = machine.probe(with_torch=not options.without_torch)
    if "problem" in found:
        print(f"gpu-check: skipped, there is no device that opens: {found['problem']}")
        return 0
    print(f"{found['device']}, {found['versions']}")
    worlds = available(with_torch="torch_problem" not in found)
    if "torch_problem" in found:
        print(f"PyTorch is not checked: {found['torch_problem']}")
    with tempfile.TemporaryDirectory(prefix="marey-gpu-check-") as folder:
        results = run(options, worlds, Path(folder), end_secs)
        write(options.output, found, results, Path(folder))
    return summary(results)


def register_checks() -> None:
    """Imports the checks, which need marey, and sorts them."""
    if importlib.util.find_spec("marey") is None:
        sys.exit("gpu-check: marey is not installed: pip install its wheel")
    import checks

    modules = [module.__name__ for module in checks.ORDER]
    CHECKS.sort(key=lambda check: modules.index(check.function.__module__))


def run(
    options: argparse.Namespace, worlds: list[str], folder: Path, end_secs: float
) -> list[Result]:
    """Runs the selected checks in each of their worlds that is available."""
    results = []
    wanted = [check for check in CHECKS if not options.only or check.name in options.only]
    pairs = []
    for check in wanted:
        here = [world for world in check.worlds if world in worlds]
        pairs += [(check, world) for world in (here[:1] if check.is_made_once else here)]
        if not here:
            results.append(_skipped(check, "", f"it needs {' or '.join(check.worlds)}"))

    def make(pair: tuple[Check, str]) -> Result:
        check, world = pair
        left_secs = end_secs - time.monotonic()
        if check.is_timed and options.untimed:
            result = _skipped(check, world, "times are not compared")
        elif left_secs < 1:
            result = _skipped(check, world, f"{options.seconds} s were over")
        else:
            result = run_one(check, world, folder, min(left_secs, check.limit_secs))
        print(_line(result), flush=True)
        return result

    with ThreadPoolExecutor(jobs()) as pool:
        results += pool.map(make, [pair for pair in pairs if not pair[0].is_timed])
    results += map(make, [pair for pair in pairs if pair[0].is_timed])
    return results


def jobs() -> int:
    """Returns the number of parallel checks; most of them wait for Python to import packages."""
    return max(1, min(4, len(os.sched_getaffinity(0)) // 4))


def run_one(check: Check, world: str, folder: Path, limit_secs: float) -> Result:
    """Runs a check in its own process and directory."""
    place = _place(folder, check.name, world)
    place.mkdir()
    command = [sys.executable, str(CHILD), check.name, world, "result.json"]
    start_secs = time.monotonic()
    with (place / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=place, stdout=log, stderr=log)
        try:
            code = process.wait(limit_secs)
            problem = f"the process ended with {code}"
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            problem = f"it took more than {limit_secs:.0f} s"
    secs = round(time.monotonic() - start_secs, 1)
    path = place / "result.json"
    if path.exists():
        said = json.loads(path.read_text())
        figures = said.get("figures", {})
        why = said.get("why", "")
        return Result(check.name, world, check.promise, said["outcome"], secs, why, figures)
    last = "\n".join((place / "log").read_text().splitlines()[-5:])
    why = f"{problem}: {last}" if last else problem
    return Result(check.name, world, check.promise, "failed", secs, why, {})


def _skipped(check: Check, world: str, why: str) -> Result:
    return Result(check.name, world, check.promise, "skipped", 0.0, why, {})


def _place(folder: Path, name: str, world: str) -> Path:
    return folder / f"{name}.{world}"


def _line(result: Result) -> str:
    line = f"{result.outcome:8} {result.secs:6.1f} s  {result.name} [{result.world}]"
    return f"{line}: {result.why}" if result.why else line


def write(output: Path, found: dict[str, Any], results: list[Result], folder: Path) -> None:
    """Writes both files."""
    output.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "-", found["device"].lower()).strip("-")
    document = {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        **found,
        "checks": [result._asdict() for result in results],
    }
    text = _without_places(json.dumps(document, indent=2), folder)
    (output / f"{name}.json").write_text(text + "\n")
    print(f"wrote {output / name}.json")
    for world in STREAM_WORLDS:
        stream = _place(folder, STREAM_CHECK, world) / "stream.replay"
        if stream.exists():
            (output / f"{name}.replay").write_text(stream.read_text())
            print(f"wrote {output / name}.replay")
            return


def _without_places(text: str, folder: Path) -> str:
    """Removes the paths of this machine's packages from a text."""
    places = sorted({*sys.path, sys.prefix, str(folder), str(Path.home())}, key=len, reverse=True)
    for place in filter(None, places):
        text = text.replace(f"{place}/", "")
    return text


def summary(results: list[Result]) -> int:
    """Prints the number of outcomes of each kind; returns the exit code."""
    outcomes = [result.outcome for result in results]
    counts = ", ".join(f"{outcomes.count(it)} {it}" for it in ("ok", "failed", "skipped"))
    print(f"gpu-check: {counts}")
    return int("failed" in outcomes)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Check marey on the GPU of this machine.")
    parser.add_argument("--output", type=Path, default=Path("gpu-check"), metavar="FOLDER")
    parser.add_argument("--only", action="append", metavar="CHECK", help="may be repeated")
    parser.add_argument("--list", action="store_true", help="list the checks")
    parser.add_argument(
        "--without-torch", action="store_true", help="only what Triton and the driver can do alone"
    )
    parser.add_argument(
        "--untimed", action="store_true", help="no checks that compare times: the machine is busy"
    )
    parser.add_argument(
        "--seconds", type=int, default=DEFAULT_SECS, help="checks that come later are skipped"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
