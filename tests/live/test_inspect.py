"""`marey inspect`: values of running programs, read from outside."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from interpreters import VERSIONS, require
from programs import Live, inside, run_command

PROGRAM = """
import collections, os, sys, threading, types
import logging.handlers as handlers

ran = []  # what ran because somebody looked

class Layer:
    __slots__ = ("size", "bias", "__dict__")
    def __init__(self, size):
        self.size, self.name = size, f"layer {size}"

class Base:
    kind = "net"
    def __getattr__(self, name):
        ran.append(name)
        return 1

class Model(Base):
    def __init__(self):
        self.layers = [Layer(1), Layer(2)]
        self.training = True
        self._rate = 0.5
    @property
    def rate(self):
        ran.append("rate")
        return self._rate
    def __repr__(self):
        ran.append("repr")
        return ""
    def forward(self):
        pass

class Own(dict):
    def __getitem__(self, key):
        ran.append(key)
        return 1

class Pair(tuple):
    pass

numbers = {
    "zero": 0, "small": -5, "word": 2**40 + 3, "long": -(10**50), "huge": 1 << 5000,
    "true": True, "false": False, "rate": 5e-05, "one": 1.0, "large": 1e300, "inf": float("-inf"),
    "complex": 1 - 2j, "none": None,
}
texts = ["", "plain", "it's", "größe", "αβγ", "🙂 and text", "line\\n", b"\\x00raw", "x" * 5000]
shapes = {
    "list": [1, [2, [3]]], "tuple": (1,), "empty": [], "set": {1, 2}, "frozen": frozenset([1]),
    3: "three", -1: "minus", True: "true", (1, 2): "pair", None: 0,
}
shapes["self"] = shapes
grown = {f"key {number}": number for number in range(70_000)}
grown["the last key"] = "found"
del grown["key 7"]
many = types.SimpleNamespace(**{f"a{number}": number for number in range(200)})
model = Model()
changed = Model()
changed.extra = 1
del changed.training
replaced = Model()
replaced.__dict__ = {"other": 2}
own = Own(a=1)
pair = Pair([4, 5])
pair.label = "sub"
Point = collections.namedtuple("Point", "x y")
point = Point(6, 7)
ordered = collections.OrderedDict(a=1, b=2)
counted = collections.defaultdict(list, a=[1])

def train(batch, rate):
    step, losses = 3, [0.5, 0.25]
    shared = "cell"
    def inner(depth):
        local = {"depth": depth, "shared": shared}
        wait(local)
    inner(1)

def wait(value):
    ready.set()
    sys.stdin.readline()

def worker(name):
    mine = name.upper()
    started.wait()
    done.wait()

ready, started, done = threading.Event(), threading.Barrier(3), threading.Event()
for name in ("first", "second"):
    threading.Thread(target=worker, args=(name,), name=name, daemon=True).start()
started.wait()
print(os.getpid(), flush=True)
train([1, 2], rate=0.1)
done.set()
print(ran)
"""

LINES = """
import sys
from marey import _engine
for line in sys.argv[2:]:
    code = _engine.cli_main(["marey", "inspect", sys.argv[1], *line.split("\\x1f")])
    print(f"\\0{code}\\0", end="", flush=True)
    print("\\0", end="", file=sys.stderr, flush=True)
"""


def inspect_lines(pid: int, lines: list[list[str]]) -> list[tuple[int, str, str]]:
    """Returns exit codes, outputs and errors of several commands, run by one interpreter."""
    done = run_command(sys.executable, "-c", LINES, pid, *map("\x1f".join, lines))
    outputs, errors = done.stdout.split("\0"), done.stderr.split("\0")
    return [
        (int(code), output, error)
        for output, code, error in zip(outputs[::2], outputs[1::2], errors, strict=False)
    ]


def values(pid: int, *expressions: str, options: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Returns the JSON objects of expressions."""
    lines = [[expression, "--json", *options] for expression in expressions]
    results = inspect_lines(pid, lines)
    assert [error for code, _, error in results if code != 0] == []
    return [json.loads(output) for _, output, _ in results]


def value(pid: int, expression: str, *options: str) -> dict[str, Any]:
    return values(pid, expression, options=options)[0]


def errors(pid: int, *expressions: str, options: tuple[str, ...] = ()) -> list[str]:
    """Returns the messages of expressions that cannot be read."""
    results = inspect_lines(pid, [[expression, *options] for expression in expressions])
    assert [(code, output) for code, output, _ in results] == [(2, "")] * len(expressions)
    return [error for _, _, error in results]


def plain(read: dict[str, Any]) -> Any:
    """Returns a value as an object of Python, others by their class."""
    if read["type"] == "list":
        return [plain(item) for item in read["items"]]
    if read["type"] == "tuple":
        return tuple(plain(item) for item in read["items"])
    if read["type"] == "dict":
        return {plain(key): plain(entry) for key, entry in read["entries"]}
    return read.get("value", read["type"]) if read["type"] != "NoneType" else None


@pytest.fixture(scope="module", params=VERSIONS)
def pid(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The program on each interpreter; nothing of it may have run because it was read."""
    python = require(request.param)
    with inside(tmp_path_factory.mktemp("program")):
        live = Live(PROGRAM, python=python)
    with live as program:
        yield int(program.read_line())
        program.write_line()
        outcome = program.end()
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (0, "[]\n", "")


def test_numbers_are_read(pid: int) -> None:
    read = plain(value(pid, "numbers"))
    assert read.pop("huge") == "int"
    assert read.pop("complex") == "(1.0-2.0j)"
    assert read.pop("inf") == "-inf"
    assert read.pop("long") == str(-(10**50))
    assert read == {
        "zero": 0,
        "small": -5,
        "word": 2**40 + 3,
        "true": True,
        "false": False,
        "rate": 5e-05,
        "one": 1.0,
        "large": 1e300,
        "none": None,
    }


def test_texts_of_each_width_are_read_and_long_ones_cut(pid: int) -> None:
    *texts, raw, long = plain(value(pid, "texts"))
    assert texts == ["", "plain", "it's", "größe", "αβγ", "🙂 and text", "line\n"]
    assert (raw, long) == ("b'\\x00raw'", "x" * 1000)
    assert value(pid, "texts[-1]")["length"] == 5000


def test_containers_are_read_to_a_depth_and_a_number_of_items(pid: int) -> None:
    read = value(pid, "shapes", "--depth", "2")
    entries = {json.dumps(plain(key)): entry for key, entry in read["entries"]}
    assert plain(entries['"list"']) == [1, []]
    assert entries['"list"']["items"][1]["length"] == 2
    assert plain(entries['"tuple"']) == (1,)
    assert (entries['"set"']["type"], entries['"set"']["length"]) == ("set", 2)
    assert entries['"frozen"']["length"] == 1
    assert entries['"self"']["length"] == read["length"] == 11
    assert plain(entries["[1, 2]"]) == "pair"
    assert plain(value(pid, "shapes", "--items", "1")) == {"list": [1]}
    assert len(value(pid, "grown", "--items", "1000")["entries"]) == 1000


def test_indexes_and_keys_lead_into_containers(pid: int) -> None:
    read = values(
        pid,
        "shapes['list'][1][-1][0]",
        'shapes["self"]["self"][3]',
        "shapes[-1]",
        "shapes[1]",
        "grown['the last key']",
        "point[1]",
        "pair[-2]",
        "ordered['b']",
        "counted['a'][0]",
    )
    assert [plain(each) for each in read] == [3, "three", "minus", "true", "found", 7, 4, 2, 1]


def test_attributes_are_read_as_they_are_stored(pid: int) -> None:
    read = values(
        pid,
        "model.layers[1].size",
        "model.layers[1].name",
        "model._rate",
        "model.kind",
        "changed.extra",
        "replaced.other",
        "many.a199",
        "pair.label",
        "point.y",
        "Model.kind",
        "logging.handlers.DEFAULT_TCP_LOGGING_PORT",
        "os.path.sep",
    )
    expected = [2, "layer 2", 0.5, "net", 1, 2, 199, "sub", 7, "net", 9020, "/"]
    assert [plain(each) for each in read] == expected


def test_objects_have_their_class_and_on_request_their_attributes(pid: int) -> None:
    read = value(pid, "model", "-l")
    assert read["type"] == "__main__.Model"
    assert re.fullmatch("0x[0-9a-f]+", read["address"])
    assert {name for name, _ in read["attributes"]} == {"layers", "training", "_rate"}
    attributes = dict(read["attributes"])
    assert [layer["type"] for layer in attributes["layers"]["items"]] == ["__main__.Layer"] * 2
    assert plain(attributes["training"]) is True
    names = [name for name, _ in value(pid, "changed", "-l")["attributes"]]
    assert set(names) == {"layers", "_rate", "extra"}
    slots = dict(value(pid, "model.layers[0]", "-l")["attributes"])
    assert {name: plain(slot) for name, slot in slots.items()} == {"name": "layer 1", "size": 1}
    names = [name for name, _ in value(pid, "Model", "-l")["attributes"]]
    assert {"__init__", "rate", "forward"} <= set(names)
    assert value(pid, "Model")["name"] == "__main__.Model"
    assert value(pid, "threading")["name"] == "threading"


def test_local_variables_of_a_frame_are_read(pid: int) -> None:
    in_train = ("--function", "train")
    read = values(pid, "step", "losses[-1]", "batch", "rate", "numbers['zero']", options=in_train)
    assert [plain(each) for each in read] == [3, 0.25, [1, 2], 0.1, 0]
    assert plain(value(pid, "value['depth']", "--frame", "0")) == 1
    assert plain(value(pid, "depth", "--frame", "1")) == 1
    (error,) = errors(pid, "losse", options=in_train)
    assert error.splitlines() == [
        "error: there is no local or global variable `losse`",
        "hint: did you mean `losses`?",
    ]


def test_a_thread_is_chosen_by_its_id_and_named_if_there_are_several(pid: int) -> None:
    (error,) = errors(pid, "mine", options=("--function", "worker"))
    found = re.match(r"error: several threads are in `worker`: (\d+), (\d+)\n", error)
    assert found is not None, error
    mine = {
        plain(value(pid, "mine", "--function", "worker", "--thread", id)) for id in found.groups()
    }
    assert mine == {"FIRST", "SECOND"}
    (error,) = errors(pid, "x", options=("--thread", "1"))
    assert error.startswith("error: the process has no thread 1 that runs Python\nhint: ")
    (error,) = errors(pid, "x", options=("--frame", "99"))
    assert "has no frame 99: it has " in error
    (error,) = errors(pid, "x", options=("--function", "trian"))
    assert error.splitlines()[1] == "hint: did you mean `train`?"


def test_unknown_names_are_errors_with_the_nearest_ones(pid: int) -> None:
    unknown = ["modle", "model.layer", "shapes['lst']", "texts[9]", "grown['key 7']"]
    unknown.append("replaced.layers")
    lines = [error.splitlines() for error in errors(pid, *unknown)]
    getattr_hint = "; its class may compute it by `__getattr__`, which would run code"
    assert [line[0] for line in lines] == [
        "error: there is no global variable `modle`",
        f"error: `model` (__main__.Model) stores no attribute `layer`{getattr_hint}",
        "error: `shapes` has no key 'lst'",
        "error: `texts` has no item 9: its length is 9",
        "error: `grown` has no key 'key 7'",
        f"error: `replaced` (__main__.Model) stores no attribute `layers`{getattr_hint}",
    ]
    assert lines[0][1].endswith("`model`?")
    assert lines[1][1].startswith("hint: did you mean `layers`")
    assert lines[2][1].startswith("hint: did you mean `list`")


def test_a_function_that_is_called_again_and_again_is_waited_for() -> None:
    source = """
    import os, select, time

    def waits(seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

    def is_rare(number):
        waits(0.002)

    print(os.getpid(), flush=True)
    number = 0
    while not select.select([0], [], [], 0)[0]:
        is_rare(number)
        waits(0.02)
    """
    with Live(source) as program:
        pid = int(program.read_line())
        options = ("--function", "is_rare")
        # A look finds it one time in ten.
        assert [read["value"] for read in values(pid, *["number"] * 10, options=options)] == [
            0
        ] * 10


def test_what_would_run_code_is_refused(pid: int) -> None:
    refused = ["model.rate", "own['a']", "model[0]", "model.forward()", "1 + 1", "texts[0:1]"]
    lines = [error.splitlines()[0] for error in errors(pid, *refused)]
    assert lines == [
        "error: `model.rate` is not stored: it is computed by a `property`, which would run code",
        "error: `own` (__main__.Own) cannot be indexed: only lists, tuples and dictionaries can "
        "without running code",
        "error: `model` (__main__.Model) cannot be indexed: only lists, tuples and dictionaries "
        "can without running code",
        "error: `model.forward()` cannot be inspected: a call would run code of the program, in "
        "column 14",
        "error: `1 + 1` cannot be inspected: a name is missing, in column 1",
        "error: `texts[0:1]` cannot be inspected: a slice is made by code of the program, in "
        "column 8",
    ]


def test_the_text_has_the_value_its_class_and_its_length(pid: int) -> None:
    lines = [["numbers['rate']"], ["texts[2]"], ["shapes['list']"], ["model.layers[0]", "-l"]]
    rate, text, items, layer = (output for _, output, _ in inspect_lines(pid, lines))
    assert rate == "numbers['rate'] = 5e-05  (float)\n"
    assert text == 'texts[2] = "it\'s"  (str, 4 characters)\n'
    assert items == "shapes['list'] = [1, [2, [3]]]  (list, 2 items)\n"
    assert re.fullmatch(
        "model.layers\\[0\\] = <__main__.Layer at 0x[0-9a-f]+>", layer.split("\n")[0]
    )
    assert "    size = 1  (int)" in layer.splitlines()


def test_a_value_that_changes_all_the_time_is_one_that_it_had_or_an_error() -> None:
    source = """
    import os, select, sys
    step, history, latest = 0, {}, [0]
    print(os.getpid(), flush=True)
    while not select.select([0], [], [], 0)[0]:
        for number in range(1000):
            step += 1
            history[step] = step
            history.pop(step - 10, None)
            latest = [step, step, step]
            if step % 5000 == 0:
                history = {}
    print("ended")
    """
    with Live(source) as program:
        pid = int(program.read_line())
        results = inspect_lines(pid, [["step", "--json"], ["history", "--json"]] * 10)
        results += inspect_lines(pid, [["latest", "--json"]] * 10)
        program.write_line()
        outcome = program.end()
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (0, "ended\n", "")
    read = [json.loads(output) for code, output, _ in results if code == 0]
    assert {each["type"] for each in read} <= {"int", "dict", "list"}
    failed = {error.splitlines()[0] for code, _, error in results if code != 0}
    assert failed <= {"error: the value changed while it was read"}


def test_modules_of_pytorch_are_followed_and_tensors_have_their_class() -> None:
    source = """
    import os, sys, torch
    last = torch.nn.ModuleDict({"out": torch.nn.ReLU()})
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), last)
    batch = torch.ones(2)
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    """
    with Live(source) as program:
        pid = int(program.read_line())
        expressions = ["model[0].weight", "model[-1]['out']", "model[0].in_features", "batch"]
        weight, activation, features, batch = values(pid, *expressions)
        (error,) = errors(pid, "batch.shape")
        attributes = dict(value(pid, "model[0]", "-l", "--items", "100")["attributes"])
        program.write_line()
        assert program.end().exit_code == 0
    assert weight["type"] == "torch.nn.parameter.Parameter"
    assert activation["type"] == "torch.nn.modules.activation.ReLU"
    assert (features["value"], batch["type"]) == (2, "torch.Tensor")
    assert {"in_features", "weight", "bias"} <= attributes.keys()
    assert error.startswith("error: `batch.shape` is not stored: it is computed by a ")
