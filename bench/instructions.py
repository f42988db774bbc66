"""Counts the instructions of the hot paths: `--check` compares with `instructions.json`.

A clock on a shared machine cannot tell a regression of 10 %; a count of instructions can, and is
the same in every run. Valgrind's callgrind counts N and 2 N items, so what comes before and after
them cancels out. Of the Python scope only the instructions inside marey's own libraries are
counted: the interpreter's own differ from version to version. Launches are made by the double of
libcupti, and counted is what their thread does in libmarey, without the decoder.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from native import LIBRARY, PACKAGE, build

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import replay

SUPPORT = Path(replay.__file__).parent
BUDGETS = Path(__file__).with_name("instructions.json")
ABOUT = (
    "Instructions of one item, and the most that a change may make of them. After a change that is "
    "worth more: python bench/instructions.py --update, with the wheel installed"
)
MARGIN = 1.1

COUNT = 10_000
"""N, items of the shorter run."""

NATIVE_PATHS = {
    "scope": ("scope", ["1"]),
    "scope, two sessions": ("scope", ["2"]),
    "scope, no session": ("scope", ["0"]),
    "scope, trace": ("scope", ["1", "trace"]),
    "state": ("state", ["1"]),
    "operator": ("operator", ["1"]),
}
"""Workload of `native.c` and its arguments, by path: enter and exit each."""

PYTHON_SCRIPTS = {
    "Python scope": 'import marey; marey.start("count")',
    "Python scope, no session": "import marey",
}
"""What comes before the loop, by path."""

LAUNCH_DATA = {"launch": "tree", "launch, trace": "trace"}
"""What the session keeps of GPUs, by path."""

LAUNCHES = """
import os, sys
sys.path[:0] = {folders!r}
from replay import Double
double = Double()
import marey
marey.start("count", backend="cupti", data={data!r})
with marey.scope("x"):
    double.launch("kernel", 1000, times={count})
os._exit(0)
"""

# Writing a profile takes as many instructions as it has buckets, which are not the same every time.
PYTHON_LOOP = """
import os
scope = marey.scope
for _ in range({count}):
    with scope("x"):
        pass
os._exit(0)
"""


def main() -> int:
    options = parse_options()
    with tempfile.TemporaryDirectory(prefix="marey-bench-") as scratch:
        measured = measure(Path(scratch))
    if options.update:
        write(measured)
    if options.check:
        return check(measured)
    for path, instructions in measured.items():
        print(f"{path:28} {instructions:8.1f}")
    return 0


def measure(folder: Path) -> dict[str, float]:
    """Instructions of one item, by path."""
    program = build(folder)

    def native(workload: str, arguments: list[str]) -> float:
        command = [str(program), *arguments]
        return per_item(
            lambda count: total(callgrind(folder, command, f"{workload} {count}", "measured"))
        )

    def python(setup: str) -> float:
        def run(count: int) -> int:
            path = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); "
            script = path + setup + PYTHON_LOOP.format(count=count)
            # -I: nothing of the user's, so the same in every run.
            return in_marey(callgrind(folder, [sys.executable, "-I", "-c", script]))

        return per_item(run)

    variables = replay.environment(folder / "double")

    def launch(data: str) -> float:
        def run(count: int) -> int:
            folders = [str(PACKAGE.parent), str(SUPPORT)]
            script = LAUNCHES.format(folders=folders, data=data, count=count)
            command = [sys.executable, "-I", "-c", script]
            profile = callgrind(folder, command, "", "replay_launch", variables)
            return in_marey(profile)

        return per_item(run)

    figures = {path: native(*arguments) for path, arguments in NATIVE_PATHS.items()}
    figures |= {path: python(setup) for path, setup in PYTHON_SCRIPTS.items()}
    return figures | {path: launch(data) for path, data in LAUNCH_DATA.items()}


def per_item(run: Callable[[int], int]) -> float:
    """Difference of two runs, which the start and the end of both have no part in."""
    return (run(2 * COUNT) - run(COUNT)) / COUNT


def callgrind(
    folder: Path,
    command: list[str],
    standard_input: str = "",
    only_inside: str | None = None,
    variables: dict[str, str] | None = None,
) -> str:
    """Runs a command under callgrind; returns what it wrote.

    Args:
        only_inside: A function: only what its thread runs between its entry and its exit counts.
        variables: More variables of the command's environment.
    """
    output = folder / "callgrind.out"
    flags = ["--tool=callgrind", "--compress-strings=no", f"--callgrind-out-file={output}"]
    if only_inside is not None:
        flags.append(f"--toggle-collect={only_inside}")
    subprocess.run(
        ["valgrind", "--quiet", *flags, *command],
        cwd=folder,
        env={
            **os.environ,
            "MAREY_LIB": str(LIBRARY),
            "PYTHONHASHSEED": "0",
            **(variables or {}),
        },
        input=standard_input,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
    )
    return output.read_text(encoding="utf-8", errors="replace")


def total(profile: str) -> int:
    return sum(instructions for _, instructions in costs(profile))


def in_marey(profile: str) -> int:
    """Instructions inside the package's libraries."""
    by_object: defaultdict[str, int] = defaultdict(int)
    for name, instructions in costs(profile):
        by_object[name] += instructions
    ours = (LIBRARY.name, "_native.abi3.so")
    return sum(count for name, count in by_object.items() if name.endswith(ours))


def costs(profile: str) -> Iterator[tuple[str, int]]:
    """Object files and instructions of the lines of a callgrind file, calls' own costs left out."""
    name, is_call = "", False
    for line in profile.splitlines():
        if line.startswith("ob="):
            name = line.removeprefix("ob=")
        elif line.startswith("calls="):
            is_call = True  # the next line holds what the callee took
        elif re.match(r"[0-9+*-]", line):
            if not is_call:
                yield name, int(line.split()[-1])
            is_call = False


def check(measured: dict[str, float]) -> int:
    """Prints each path beside its budget; 1 if one is above or has none."""
    budgets = json.loads(BUDGETS.read_text(encoding="utf-8"))["paths"]
    is_above = False
    for path, instructions in measured.items():
        budget = budgets.get(path, {}).get("budget", 0)
        verdict = "" if instructions <= budget else "  above the budget"
        is_above |= instructions > budget
        print(f"{path:28} {instructions:8.1f} of {budget:5}{verdict}")
    if is_above:
        print(
            "error: a hot path takes more instructions than its budget\n"
            "hint: if they are worth it, run python bench/instructions.py --update",
            file=sys.stderr,
        )
    return int(is_above)


def write(measured: dict[str, float]) -> None:
    paths = {
        path: {"measured": round(count, 1), "budget": math.ceil(count * MARGIN)}
        for path, count in measured.items()
    }
    text = json.dumps({"about": ABOUT, "paths": paths}, indent=2)
    BUDGETS.write_text(text + "\n", encoding="utf-8")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Counts the instructions of the hot paths.")
    parser.add_argument("--check", action="store_true", help="fail above a budget")
    parser.add_argument("--update", action="store_true", help="write instructions.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
