"""`marey view` prints the same as Proton's viewer: a matrix of files and options.

Cases in which the peer fails are in `test_corrections.py`.
"""

from __future__ import annotations

import itertools
import math
import random
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from paths import DATA
from viewer_files import SUBJECTS, Subject, make_files
from viewers import difference, is_refusal, run_marey, run_proton, run_proton_with_reals, viewer

T = TypeVar("T")
Argv = list[str]

# How the peer fails within the matrix. It cannot print whole numbers in a sorted list, and has no
# answer where a filter leaves nothing.
NO_WHOLE_NUMBERS = "ValueError: Precision not allowed in integer format specifier"
NOTHING_LEFT = "EmptyFilter: "


class Asker:
    """Generates argument lists for one subject."""

    def __init__(self, subject: Subject, path: str, partner: str) -> None:
        self.subject, self.path, self.partner = subject, path, partner
        self.first, *_ = subject.shared

    def ask(self, *options: str) -> Argv:
        return [*options, self.path]

    def threshold(self, metrics: str, which: str) -> str:
        """Returns a value of the first metric, or one between two values."""
        frame, columns = viewer.parse(metrics.split(","), self.path)
        found = sorted(x for x in map(float, frame.dataframe[columns[0]]) if math.isfinite(x))
        middle = found[len(found) // 2]
        return repr(middle if which == "exact" else math.nextafter(middle, math.inf))


def lists(of: Asker) -> Iterator[Argv]:
    yield of.ask("-l")
    yield of.ask("--list", "--metrics", of.first, "-d", "1")


def metrics(of: Asker) -> Iterator[Argv]:
    for metric in of.subject.metrics:
        yield of.ask("-m", metric)


def includes(of: Asker) -> Iterator[Argv]:
    for regex in ["^", "ROOT", "nothing like it", *of.subject.includes]:
        yield of.ask("-m", of.first, "-i", regex)
    for metric, regex in zip(of.subject.metrics[:5], of.subject.includes, strict=False):
        yield of.ask(f"--include={regex}", "--metrics", metric)


def excludes(of: Asker) -> Iterator[Argv]:
    for regex in ["ROOT", "nothing like it", *of.subject.excludes]:
        yield of.ask("-m", of.first, "-e", regex)
    for metric, regex in zip(of.subject.metrics[:5], of.subject.excludes, strict=False):
        yield of.ask(f"--exclude={regex}", "--metrics", metric)


def thresholds(of: Asker) -> Iterator[Argv]:
    for metric in of.subject.shared:
        for which in ("exact", "above"):
            yield of.ask("-m", metric, "-t", of.threshold(metric, which))
    for number in ("0", "-0.0", "-1e300", "1e300"):
        yield of.ask("-m", of.first, f"--threshold={number}")


def depths(of: Asker) -> Iterator[Argv]:
    for depth in ("0", "1", "2", "1000", "-1"):
        yield of.ask("-m", of.first, "-d", depth)


FORMATS = ["full", "file_function_line", "function_line", "file_function"]


def formats(of: Asker) -> Iterator[Argv]:
    for form in FORMATS:
        yield of.ask("-m", of.first, "--format", form, "--print-sorted")
    yield of.ask("-m", of.first, "-f", "function_line", "-i", of.subject.includes[0])


def sorted_lists(of: Asker) -> Iterator[Argv]:
    for metric in of.subject.metrics[:12]:
        yield of.ask("--print-sorted", "-m", metric)


def diffs(of: Asker) -> Iterator[Argv]:
    for metric in of.subject.shared:
        yield of.ask("-m", metric, "-diff", of.partner)
        yield ["-m", metric, f"--diff-profile={of.path}", of.partner]
        yield of.ask("-m", metric, "-diff", of.partner, "-t", of.threshold(metric, "exact"))
    for regex in of.subject.includes[:2]:
        yield of.ask("-m", of.first, "-diff", of.partner, "-i", regex)
    for regex in of.subject.excludes[:2]:
        yield of.ask("-m", of.first, "-diff", of.partner, "-e", regex, "-d", "3")
    yield of.ask("-m", of.first, "-diff", of.path)
    yield of.ask("-m", of.first, "-diff", of.partner, "--print-sorted", "-f", "file_function")


def spellings(of: Asker) -> Iterator[Argv]:
    """Returns an option in each spelling of the command line."""
    metric = of.subject.metrics[0]
    yield [of.path, "-m", metric]
    yield of.ask(f"-m{metric}", "-d2")
    yield of.ask(f"-m={metric}", "-d=2")
    yield of.ask(f"--metrics={metric}", "--depth=2", f"-diff={of.path}")
    yield of.ask("-m", "count", "-m", metric, "-f", "full", "-f", "function_line")
    yield of.ask("-m", metric, "-i", "", "-e", "")
    yield ["-m", metric, of.path, "-t-1"]
    yield of.ask("--met", metric, "--dif", of.path, "--print", "--dep", "1")
    yield of.ask("-lm", metric)


def pairs(of: Asker) -> Iterator[Argv]:
    """Returns few argument lists that contain every pair of values of different options."""
    subject = of.subject
    include, other, *_ = subject.includes
    options: list[list[tuple[str, str]]] = [
        [("-m", metric) for metric in subject.shared[:4]],
        [("", ""), ("-i", include), ("-i", other), ("-e", subject.excludes[0])],
        [("", ""), ("-t", "exact"), ("-t", "above"), ("-t", "-1")],
        [("", ""), ("-d", "1"), ("-d", "2"), ("-d", "1000")],
        [("-f", form) for form in FORMATS],
        [("", ""), ("--print-sorted", "")],
        [("", ""), ("-diff", of.partner)],
    ]
    for chosen in all_pairs(options):
        argv = [part for option in chosen for part in option if part]
        for which in {"exact", "above"} & {*argv}:
            argv[argv.index(which)] = of.threshold(argv[1], which)
        yield of.ask(*argv)


def all_pairs(options: list[list[T]]) -> Iterator[list[T]]:
    """Returns few rows that contain every pair of values of different options."""
    rng = random.Random(1)
    cells = [[(at, value) for value in range(len(values))] for at, values in enumerate(options)]
    open_pairs = {
        pair for a, b in itertools.combinations(cells, 2) for pair in itertools.product(a, b)
    }
    while open_pairs:
        # A row with an open pair, and chance for the rest: the best of a few.
        rows = []
        for _ in range(30):
            row = dict(rng.choice(column) for column in cells)
            row.update(rng.choice(sorted(open_pairs)))
            rows.append(sorted(row.items()))
        best = max(rows, key=lambda row: len(open_pairs & {*itertools.combinations(row, 2)}))
        open_pairs -= {*itertools.combinations(best, 2)}
        yield [options[at][value] for at, value in best]


FAMILIES: dict[str, Callable[[Asker], Iterator[Argv]]] = {
    "list": lists,
    "metrics": metrics,
    "include": includes,
    "exclude": excludes,
    "threshold": thresholds,
    "depth": depths,
    "format": formats,
    "sorted": sorted_lists,
    "diff": diffs,
    "spelling": spellings,
    "pairs": pairs,
}
NOT_IN_BRIEF = {"depth", "format", "spelling", "pairs"}


# --- the test -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files."""
    folder = tmp_path_factory.mktemp("viewer")
    for path in (DATA / "viewer").glob("*.hatchet"):
        shutil.copy(path, folder)
    make_files(folder)
    return folder


def verdict(argv: Argv, capfd: pytest.CaptureFixture[str]) -> str:
    """Returns the error of our output; empty if it is correct."""
    wanted, shown = run_proton(argv), run_marey(argv, capfd)
    if wanted.failure.startswith(NOTHING_LEFT):
        return "" if is_refusal(shown) else f"no refusal but {shown}"
    if wanted.failure == NO_WHOLE_NUMBERS:
        wanted = run_proton_with_reals(argv)
    assert not wanted.failure, f"the matrix asks what the peer cannot answer: {argv}"
    if shown.exit_code != 0:
        return f"exit code {shown.exit_code}: {shown.stderr}"
    return difference(shown.stdout, wanted.stdout)


@pytest.mark.parametrize(
    ("file", "family"),
    [
        (file, family)
        for file, subject in SUBJECTS.items()
        for family in FAMILIES
        if not (subject.is_brief and family in NOT_IN_BRIEF)
    ],
)
def test_marey_and_proton_viewers_print_the_same(
    file: str,
    family: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    subject = SUBJECTS[file]
    asker = Asker(subject, f"{file}.hatchet", f"{subject.partner}.hatchet")
    questions = [*FAMILIES[family](asker)]
    verdicts = [(argv, verdict(argv, capfd)) for argv in questions]
    wrong = [f"marey view {shlex.join(argv)}\n{text}" for argv, text in verdicts if text]
    if wrong:
        heading = f"{len(wrong)} of {len(questions)} differ"
        pytest.fail("\n\n".join([heading, *wrong]), pytrace=False)
