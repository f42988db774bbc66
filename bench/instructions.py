"""Counts the instructions of the hot paths: `--check` compares with `instructions.json`.

A clock on a shared machine cannot detect a regression of 10 %. A count of instructions can, because
it is the same in every run. Valgrind's callgrind counts N and 2 N items, so that start and end
cancel out. For the Python scope only instructions inside marey's own libraries are counted, because
those of the interpreter differ between versions. The double of libcupti makes the launches, and
only their thread inside libmarey is counted, without the decoder. A double of libtorch calls
PyTorch's callbacks, because Python and PyTorch under callgrind would take minutes.
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
from functools import partial
from pathlib import Path

from native import LIBRARY, PACKAGE, build, build_cpp, build_torch_callbacks

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import replay

SUPPORT = Path(replay.__file__).parent
BUDGETS = Path(__file__).with_name("instructions.json")
DESCRIPTION = (
    "Measured instructions per item, and the budget of a change. After a change that is "
    "worth more: python bench/instructions.py --update, with the wheel installed"
)
BUDGET_FACTOR = 1.1

ITEMS = 10_000
"""Number of items of the shorter run (N)."""

NATIVE_PATHS = {
    "scope": ("scope", ["1"]),
    "scope, two sessions": ("scope", ["2"]),
    "scope, no session": ("scope", ["0"]),
    "scope, trace": ("scope", ["1", "trace"]),
    "state": ("state", ["1"]),
    "operator": ("operator", ["1"]),
}
"""Workload of `native.c` and its arguments, by path: enter and exit each."""

CPP_PATHS = {
    "RECORD_FUNCTION": ("record_function", "tree", LIBRARY),
    "RECORD_FUNCTION, no session": ("record_function", "none", LIBRARY),
    "RECORD_FUNCTION, no library": ("record_function", "none", Path("no.so")),
    "MAREY_SCOPE": ("plain_scope", "tree", LIBRARY),
    "MAREY_SCOPE, no library": ("plain_scope", "none", Path("no.so")),
}
"""Workload of `cpp_scopes.cpp`, session and library, by path. A loop alone takes three or four."""

TORCH_PATHS: dict[str, tuple[str, list[str]]] = {
    "torch operator": ("operator", []),
    "torch operator, trace": ("operator", ["trace"]),
    "torch autograd node": ("autograd", []),
    "torch user scope": ("user", []),
}
"""Kind of the function and format of the session, by path: both callbacks, and some 30 instructions
of the double of libtorch that calls them and answers."""

PYTHON_SETUPS = {
    "Python scope": 'import marey; marey.start("count")',
    "Python scope, no session": "import marey",
}
"""Setup code before the loop, by path."""

LAUNCH_DATA = {"launch": "tree", "launch, trace": "trace"}
"""Value of `data` of the session, by path."""

LAUNCH_SCRIPT = """
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

# Without `finalize`, because the cost of writing depends on the number of buckets, which varies.
PYTHON_SCOPE_LOOP = """
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
        write_budgets(measured)
    if options.check:
        return check_budgets(measured)
    for path, instructions in measured.items():
        print(f"{path:28} {instructions:8.1f}")
    return 0


def measure(folder: Path) -> dict[str, float]:
    """Returns the instructions per item, by path: start and end of two runs cancel out."""
    runs = workloads(folder)
    return {path: (run(2 * ITEMS) - run(ITEMS)) / ITEMS for path, run in runs.items()}


def workloads(folder: Path) -> dict[str, Callable[[int], int]]:
    """Returns, by path, the function from a number of items to the instructions of a run."""
    program, cpp_program = build(folder), build_cpp(folder)
    torch_program = build_torch_callbacks(folder)
    # With CUPTI, too, the launching thread does not complete buffers.
    variables = replay.environment(folder / "double", "delivery worker")

    def native_workload(workload: str, arguments: list[str], count: int) -> int:
        command = [str(program), *arguments]
        return count_all(callgrind(folder, command, f"{workload} {count}", "measured"))

    def cpp_workload(workload: str, session: str, library: Path, count: int) -> int:
        command = [str(cpp_program), workload, str(count), session]
        return count_all(callgrind(folder, command, "", "measured", {"MAREY_LIB": str(library)}))

    def torch_function(kind: str, session: list[str], count: int) -> int:
        command = [str(torch_program), kind, str(count), *session]
        return count_all(callgrind(folder, command, "", "measured"))

    def python_scope(setup: str, count: int) -> int:
        import_path = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); "
        script = import_path + setup + PYTHON_SCOPE_LOOP.format(count=count)
        # -I ignores the user's environment, so that every run is the same.
        return count_in_marey(callgrind(folder, [sys.executable, "-I", "-c", script]))

    def kernel_launch(data: str, count: int) -> int:
        folders = [str(PACKAGE.parent), str(SUPPORT)]
        script = LAUNCH_SCRIPT.format(folders=folders, data=data, count=count)
        command = [sys.executable, "-I", "-c", script]
        return count_in_marey(callgrind(folder, command, "", "replay_launch", variables))

    return {
        **{path: partial(native_workload, *arguments) for path, arguments in NATIVE_PATHS.items()},
        **{path: partial(cpp_workload, *arguments) for path, arguments in CPP_PATHS.items()},
        **{path: partial(torch_function, *arguments) for path, arguments in TORCH_PATHS.items()},
        **{path: partial(python_scope, setup) for path, setup in PYTHON_SETUPS.items()},
        **{path: partial(kernel_launch, data) for path, data in LAUNCH_DATA.items()},
    }


def callgrind(
    folder: Path,
    command: list[str],
    standard_input: str = "",
    only_inside: str | None = None,
    variables: dict[str, str] | None = None,
) -> str:
    """Runs a command under callgrind; returns the profile.

    Args:
        only_inside: A function; only instructions of its thread between entry and exit are counted.
        variables: Additional environment variables.
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


def count_all(profile: str) -> int:
    return sum(instructions for _, instructions in line_costs(profile))


def count_in_marey(profile: str) -> int:
    """Returns the instructions inside the package's libraries."""
    by_object: defaultdict[str, int] = defaultdict(int)
    for name, instructions in line_costs(profile):
        by_object[name] += instructions
    our_libraries = (LIBRARY.name, "_native.abi3.so")
    return sum(count for name, count in by_object.items() if name.endswith(our_libraries))


def line_costs(profile: str) -> Iterator[tuple[str, int]]:
    """Yields object file and instructions of each line of a callgrind file, without callees."""
    object_name, is_call = "", False
    for line in profile.splitlines():
        if line.startswith("ob="):
            object_name = line.removeprefix("ob=")
        elif line.startswith("calls="):
            is_call = True  # the next line has the cost of the callee
        elif re.match(r"[0-9+*-]", line):
            if not is_call:
                yield object_name, int(line.split()[-1])
            is_call = False


def check_budgets(measured: dict[str, float]) -> int:
    """Prints each path with its budget; returns 1 if one is above its budget or has none."""
    budgets = json.loads(BUDGETS.read_text(encoding="utf-8"))["paths"]
    has_excess = False
    for path, instructions in measured.items():
        budget = budgets.get(path, {}).get("budget", 0)
        verdict = "" if instructions <= budget else "  above the budget"
        has_excess |= instructions > budget
        print(f"{path:28} {instructions:8.1f} of {budget:5}{verdict}")
    if has_excess:
        print(
            "error: a hot path needs more instructions than its budget\n"
            "hint: if the change is worth them, run python bench/instructions.py --update",
            file=sys.stderr,
        )
    return int(has_excess)


def write_budgets(measured: dict[str, float]) -> None:
    paths = {
        path: {"measured": round(count, 1), "budget": math.ceil(count * BUDGET_FACTOR)}
        for path, count in measured.items()
    }
    text = json.dumps({"about": DESCRIPTION, "paths": paths}, indent=2)
    BUDGETS.write_text(text + "\n", encoding="utf-8")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Counts the instructions of the hot paths.")
    parser.add_argument("--check", action="store_true", help="fail above a budget")
    parser.add_argument("--update", action="store_true", help="write instructions.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
