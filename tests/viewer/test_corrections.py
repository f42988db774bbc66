"""`marey view` is correct where Proton's viewer fails or loses data.

Each case states how the peer fails and is checked against the peer too, so that a case that no
longer applies to a later version fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from paths import DATA
from profiles import Node
from viewer_files import SUBJECTS, deep, node
from viewers import SORTED_HEADING, difference, is_refusal, run_marey, run_proton

msgpack = pytest.importorskip("msgpack")

METADATA = "__proton_launch_metadata"


@dataclass(frozen=True)
class Correction:
    """A file and arguments for which the peer fails or is wrong.

    `peer` is its failure, empty if it does not fail. `shown` is our output: a string, a pattern, or
    `None` if the arguments have no valid output.
    """

    argv: list[str]
    peer: str
    shown: str | re.Pattern[str] | None
    root: Node
    devices: dict[str, Any] = field(default_factory=dict)


def kernels(key: str, values: dict[str, float], zero: bool = True) -> Node:
    """Makes a root with kernels that have this metric; `zero` on ROOT makes it inclusive."""
    return node("ROOT", {key: 0} if zero else {}, *(node(k, {key: v}) for k, v in values.items()))


def device(arch: str, family: str = "CUDA") -> dict[str, Any]:
    rates = {"clock_rate": 1410000, "memory_clock_rate": 1215000, "num_sms": 108}
    return {family: {"0": {"arch": arch, "bus_width": 5120, **rates}}}


def on_device(**values: Any) -> Node:
    """Makes a root with one kernel of a microsecond on a device."""
    common = {"time (ns)": 1000, "count": 1, "device_id": "0", "device_type": "CUDA"}
    return node("ROOT", {"time (ns)": 0, "count": 0}, node("k", common | values))


def row(name: str, value: str) -> str:
    return f"{name:105} {value}\n"


ONE = kernels("a", {"k": 1})
ONE_SHOWN = "1.000 ROOT\n└─ 1.000 k\n\n"
RATES = node(
    "ROOT",
    {"bytes": 0, "time (ns)": 0},
    node("minus", {"bytes": -5, "time (ns)": 0}),
    node("more", {"bytes": 5, "time (ns)": 0}),
    node("slow", {"bytes": 5, "time (ns)": 10**9}),
)

CORRECTIONS = {
    # Files.
    "a root with nothing on it": Correction(
        ["-l"],
        peer="KeyError: 'metrics'",
        shown="Available inclusive metrics:\nAvailable exclusive metrics:\n- name\n",
        root=node("ROOT", {}),
    ),
    "a root whose children are empty": Correction(
        ["-m", "a"],
        peer="KeyError: 'metrics'",
        shown="0.000 ROOT\n\n",
        root=node("ROOT", {"a": 0}, node("empty", {})),
    ),
    "a node that has metrics, and only metadata below": Correction(
        ["-m", "a"],
        peer="",
        shown="6.000 ROOT\n├─ 1.000 other\n└─ 5.000 parent\n\n",
        root=node(
            "ROOT",
            {"a": 0},
            node("parent", {"a": 5}, node(METADATA, {}, node("inside", {"a": 100}))),
            node("other", {"a": 1}),
        ),
    ),
    "a tree deeper than Python's stack": Correction(
        ["-m", "time", "-d", "2"],
        peer="RecursionError",
        shown=re.compile(r"\A\d+\.000 ROOT\n└─ \d+\.000 level 0\n\n\Z"),
        root=deep(3000),
    ),
    "a vector on ROOT": Correction(
        ["-m", "a"],
        peer="ValueError: Must have equal len keys",
        shown=ONE_SHOWN,
        root=node("ROOT", {"a": 0, "v": [0, 0]}, node("k", {"a": 1, "v": [1, 2]})),
    ),
    "a frame without a name": Correction(
        ["-m", "a"],
        peer="KeyError: 'name'",
        shown="1.000 ROOT\n└─ 1.000 \n\n",
        root=node("ROOT", {"a": 0}, node("", {"a": 1})),
    ),
    "control characters in a name": Correction(
        ["-m", "a"],
        peer="",
        shown=re.compile(r"\A1\.000 ROOT\n└─ 1\.000 up[^\x1b\n]*\[2J[^\x1b\n]*end\n\n\Z"),
        root=node("ROOT", {"a": 0}, node("up\x1b[2J\nend", {"a": 1})),
    ),
    # Metrics.
    "util without bytes": Correction(
        ["-m", "util"],
        peer="KeyError: 'bytes'",
        shown="nan ROOT\n└─ 0.500 k\n\n",
        root=on_device(flops16=1.56e8),
        devices=device("80"),
    ),
    "util on an unknown architecture": Correction(
        ["-m", "util"],
        peer="ValueError: Unsupported architecture: 999",
        shown="nan ROOT\n└─ nan k\n\n",
        root=on_device(flops16=1e6, bytes=1),
        devices=device("999"),
    ),
    "util on an unknown family of devices": Correction(
        ["-m", "util"],
        peer="AssertionError",
        shown="nan ROOT\n└─ nan k\n\n",
        root=on_device(bytes=1),
        devices=device("1", "XPU"),
    ),
    "avg_time with a count that is not on ROOT": Correction(
        ["-m", "avg_time/us"],
        peer="KeyError: 'count (inc)'",
        shown="nan ROOT\n└─ 1.000 k\n\n",
        root=node("ROOT", {}, node("k", {"time (ns)": 3000, "count": 3})),
    ),
    "a metric on ROOT that is called (inc)": Correction(
        ["-m", "tokens"],
        peer="KeyError: 'metric_column=tokens (inc) (inc)",
        shown="5.000 ROOT\n└─ 5.000 k\n\n",
        root=kernels("tokens (inc)", {"k": 5}),
    ),
    "a unit that is no time": Correction(
        ["-m", "time/s"],
        peer="KeyError: 'time/fortnight'",
        shown=None,
        root=kernels("time (fortnight)", {"k": 1}),
    ),
    "a time without a unit": Correction(
        ["-m", "time/s"], peer="KeyError: 'time/inc'", shown=None, root=kernels("time", {"k": 1})
    ),
    "capitals in a derived metric": Correction(
        ["-m", "TIME/US"],
        peer="ValueError: Unsupported unit US",
        shown=ONE_SHOWN,
        root=kernels("time (ns)", {"k": 1000}),
    ),
    "a name with capitals and a unit": Correction(
        ["-m", "wait (us)"],
        peer="RuntimeError: Metric wait (us) is not found",
        shown=ONE_SHOWN,
        root=kernels("Wait (us)", {"k": 1}),
    ),
    "a metric of texts": Correction(
        ["-m", "device_type"],
        peer="TypeError",
        shown=re.compile(r"\n└─ CUDA k\n\n\Z"),
        root=on_device(),
    ),
    "a metric that is not there": Correction(
        ["-m", "tmie"],
        peer="RuntimeError: Metric tmie is not found",
        shown=None,
        root=kernels("time (ns)", {"k": 1}),
    ),
    "a sum beyond 64 bits": Correction(
        ["-m", "a"],
        peer="",
        shown="9223372036854775808.000 ROOT\n"
        "├─ 4611686018427387904.000 k\n└─ 4611686018427387904.000 l\n\n",
        root=kernels("a", {"k": 2**62, "l": 2**62}),
    ),
    "a metric called file": Correction(
        ["-m", "a"],
        peer="",
        shown=ONE_SHOWN,
        root=node("ROOT", {"a": 0}, node("k", {"a": 1, "file": 7})),
    ),
    "a metric called name": Correction(
        ["-m", "a"],
        peer="",
        shown=ONE_SHOWN,
        root=node("ROOT", {"a": 0}, node("k", {"a": 1, "name": "other"})),
    ),
    # Filters.
    "an include that nothing matches": Correction(
        ["-m", "a", "-i", "nothing"], peer="EmptyFilter", shown=None, root=ONE
    ),
    "an exclude that everything matches": Correction(
        ["-m", "a", "-e", "ROOT"], peer="EmptyFilter", shown=None, root=ONE
    ),
    "a threshold above everything": Correction(
        ["-m", "a", "-t", "2"], peer="EmptyFilter", shown=None, root=ONE
    ),
    "a threshold and minus infinity": Correction(
        ["-m", "byte/s", "-t", "5"],
        peer="",
        shown="5.000 ROOT\n├─ inf more\n└─ 5.000 slow\n\n",
        root=RATES,
    ),
    "a threshold of infinity": Correction(
        ["-m", "byte/s", "-t", "inf"],
        peer="NameError: name 'inf' is not defined",
        shown="5.000 ROOT\n└─ inf more\n\n",
        root=RATES,
    ),
    "a threshold for a metric called depth": Correction(
        ["-m", "depth", "-t", "5"],
        peer="EmptyFilter",
        shown="nan ROOT\n└─ 7.000 k\n\n",
        root=kernels("depth", {"k": 7}, zero=False),
    ),
    "a pattern with a number of times": Correction(
        ["-m", "a", "-i", "k{2}"],
        peer="ValueError: Invalid grouping (with curly braces)",
        shown="2.000 ROOT\n└─ 2.000 kk\n\n",
        root=kernels("a", {"k": 1, "kk": 2}),
    ),
    "a pattern with a quote": Correction(
        ["-m", "a", "-i", 'say "hi'],
        peer="InvalidQueryPath",
        shown='2.000 ROOT\n└─ 2.000 say "hi"\n\n',
        root=kernels("a", {"k": 1, 'say "hi"': 2}),
    ),
    "a pattern with a word boundary": Correction(
        ["-m", "a", "-i", r"k\b"],
        peer="EmptyFilter",
        shown="1.000 ROOT\n└─ 1.000 k.1\n\n",
        root=kernels("a", {"k.1": 1, "kk": 2}),
    ),
    "a pattern with a backslash": Correction(
        ["-m", "a", "-i", r"k\\d"],
        peer="",
        shown="2.000 ROOT\n└─ 2.000 k\\d\n\n",
        root=kernels("a", {"k1": 1, r"k\d": 2}),
    ),
    "a pattern that is none": Correction(
        ["-m", "a", "-i", "("], peer="error: missing ), unterminated", shown=None, root=ONE
    ),
    # Sorted lists.
    "whole numbers in a sorted list": Correction(
        ["-m", "a", "--print-sorted"],
        peer="ValueError: Precision not allowed in integer format specifier",
        shown=ONE_SHOWN + SORTED_HEADING + "a (inc)\n" + row("k", "1.0"),
        root=ONE,
    ),
    "a first row that is not ROOT": Correction(
        ["-m", "a", "--print-sorted"],
        peer="",
        shown="nan ROOT\n├─ 2.000 k\n└─ 3.000 l\n\n"
        + SORTED_HEADING + "a\n" + row("l", "3.0") + row("k", "2.0"),
        root=kernels("a", {"k": 2, "l": 3}, zero=False),
    ),
    # Differences.
    "a diff with a file that lacks the metric": Correction(
        ["-m", "a", "-diff", "other.hatchet"],
        peer="RuntimeError: Metric a is not found",
        shown=None,
        root=ONE,
    ),
}  # fmt: skip


def write_both(correction: Correction) -> None:
    """Writes the file, and another one without common nodes."""
    Path("other.hatchet").write_text(json.dumps([kernels("b", {"x": 1}), {}]))
    # A deep tree is beyond `json` too.
    text = f"[{''.join(json_text(correction.root))}, {json.dumps(correction.devices)}]"
    Path("file.hatchet").write_text(text)


def json_text(root: Node) -> Iterator[str]:
    """Yields the JSON of a tree in pieces, without recursion."""
    ahead: list[Node | str] = [root]
    while ahead:
        part = ahead.pop()
        if isinstance(part, str):
            yield part
            continue
        head = json.dumps({key: part[key] for key in ("frame", "metrics")})
        yield f'{head[:-1]}, "children": ['
        ahead.append("]}")
        for child in reversed(part["children"]):
            ahead += [child] if child is part["children"][0] else [child, ","]


@pytest.mark.parametrize("name", CORRECTIONS)
def test_output_is_correct_where_protons_viewer_fails(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    correction = CORRECTIONS[name]
    write_both(correction)
    argv = [*correction.argv, "file.hatchet"]
    peer, shown = run_proton(argv), run_marey(argv, capfd)
    assert peer.failure.startswith(correction.peer)
    assert bool(peer.failure) == bool(correction.peer)
    if correction.shown is None:
        assert is_refusal(shown), shown
    elif isinstance(correction.shown, str):
        assert (shown.exit_code, shown.stdout) == (0, correction.shown), shown.stderr
        assert peer.stdout != correction.shown
    else:
        assert shown.exit_code == 0, shown.stderr
        assert correction.shown.search(shown.stdout), shown.stdout
        assert not correction.shown.search(peer.stdout)


def test_an_unknown_peak_prints_a_note(capfd: pytest.CaptureFixture[str]) -> None:
    write_both(CORRECTIONS["util on an unknown architecture"])
    assert "999" in run_marey(["-m", "util", "file.hatchet"], capfd).stderr


def test_the_nearest_metric_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    write_both(CORRECTIONS["a metric that is not there"])
    assert re.search("hint: .*time", run_marey(["-m", "tmie", "file.hatchet"], capfd).stderr)


def test_equal_values_are_sorted_as_in_the_tree(capfd: pytest.CaptureFixture[str]) -> None:
    names = [f"k{number:02}" for number in range(40)]
    root = kernels("a", {name: float(int(name[1:]) % 3) for name in reversed(names)})
    Path("file.hatchet").write_text(json.dumps([root, {}]))
    shown = run_marey(["-m", "a", "--print-sorted", "file.hatchet"], capfd).stdout
    listed = re.findall(r"^(k\d\d) +\d", shown, re.MULTILINE)
    assert listed == sorted(names, key=lambda name: (-(int(name[1:]) % 3), name))


@pytest.mark.parametrize("file", ["kernels", "cpu", "frames", "negative"])
def test_messagepack_is_read_like_json(file: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = DATA / "viewer" / f"{file}.hatchet"
    packed = Path("packed.hatchet_msgpack")
    packed.write_bytes(msgpack.packb(json.loads(text.read_text())))
    for metric in SUBJECTS[file].shared:
        assert run_proton(["-m", metric, str(packed)]).failure.startswith("UnicodeDecodeError")
        shown = run_marey(["-m", metric, str(packed)], capfd)
        assert difference(shown.stdout, run_proton(["-m", metric, str(text)]).stdout) == ""


def test_two_files_are_shown_together(capfd: pytest.CaptureFixture[str]) -> None:
    Path("a.hatchet").write_text(json.dumps([kernels("a", {"only_in_a": 1}), {}]))
    Path("b.hatchet").write_text(json.dumps([kernels("a", {"only_in_b": 2}), {}]))
    argv = ["-m", "a", "a.hatchet", "b.hatchet"]
    assert run_proton(argv).failure == "AssertionError: Must specify a file to read"
    shown = run_marey(argv, capfd)
    assert shown.exit_code == 0
    assert shown.stdout == (
        "a = a.hatchet\n"
        "b = b.hatchet\n"
        "a: a  b: a  name\n"
        "   1     2  ROOT\n"
        "   1        ├─ only_in_a\n"
        "         2  └─ only_in_b\n"
    )


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--bogus", "file.hatchet"],
        ["-i", "a", "-e", "b", "file.hatchet"],
        ["-f", "nope", "file.hatchet"],
        ["-d", "1.5", "file.hatchet"],
        ["-t", "much", "file.hatchet"],
        ["-t", "nan", "file.hatchet"],
        ["-i", "-k", "file.hatchet"],
        ["no such file"],
        ["."],
    ],
    ids=" ".join,
)
def test_a_bad_command_line_is_an_error(argv: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    write_both(CORRECTIONS["an include that nothing matches"])
    argv = ["-m", "a", *argv]
    assert run_proton(argv).failure
    shown = run_marey(argv, capfd)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert shown.stderr.startswith("error: ")
