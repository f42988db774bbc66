"""Metrics: the values of the program, and the wall times of every node."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import marey
import pytest
from profiles import Node, find, live_root, metrics, record_scope, tree, walk

MAX_SKETCH_ERROR = 1 / 64
MAX_CLOCK_ERROR = 0.005  # two clocks do not tick quite alike


def added(session: int, *values: Any, name: str = "m") -> Any:
    """Returns the value of a node after these values of one metric were added."""
    for value in values:
        record_scope("s", {name: value})
    (result,) = metrics(find(live_root(session), "s")).values()
    return result


def exactly(value: Any) -> str:
    """Returns a string that distinguishes 1 from 1.0."""
    return json.dumps(value, sort_keys=True)


# The values of a program


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, -5], -2),
        ([0.5, 0.25], 0.75),
        ([1e300, 1.0], 1e300),
        ([True, True], 2),
        ([[1, 2], (10, 20)], [11, 22]),
        ([[0.5, 1], [1.0, 1.0]], [1.5, 2.0]),
        ([[], []], []),
        (["first", "second é"], "second é"),
        ([2**63 - 1, 5], 2**63 - 1),
        ([-(2**63)], -(2**63)),
    ],
)
def test_metric_values_are_summed(session: int, values: list[Any], expected: Any) -> None:
    assert exactly(added(session, *values)) == exactly(expected)


@pytest.mark.parametrize(
    ("name", "expected", "is_rolled_up"),
    [
        ("m", ("m", 7), True),
        ("m (inc)", ("m", 7), True),
        ("m (ns)(inc)", ("m (ns)", 7), True),
        ("m(exc)", ("m", 7), False),
        ("m (ns)(exc)", ("m (ns)", 7), False),
        ("m (pty)", ("m", 4), False),
    ],
)
def test_the_suffix_decides_about_aggregation(
    session: int, name: str, expected: tuple[str, int], is_rolled_up: bool
) -> None:
    added(session, 3, 4, name=name)
    root = live_root(session)
    assert list(metrics(find(root, "s")).items()) == [expected]
    # Readers roll up what they find on ROOT.
    assert root["metrics"] == ({expected[0]: 0} if is_rolled_up else {})


def test_vectors_and_strings_are_not_summed_into_parents(session: int) -> None:
    record_scope("s", {"vector": [1, 2], "text": "x"})
    assert live_root(session)["metrics"] == {}


def test_vectors_as_property_take_any_length(session: int) -> None:
    assert added(session, [1, 2], [3], name="m (pty)") == [3]


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (1.5, 2, "(a): current=double, new=int64_t"),
        (1, 2.5, "(a): current=int64_t, new=double"),
        (1, [1], "(a): current=int64_t, new=std::vector<int64_t>"),
        ([1], [1.5], "(a): current=std::vector<int64_t>, new=std::vector<double>"),
        ("x", 1, "(a): current=std::string, new=int64_t"),
    ],
)
def test_a_change_of_type_is_refused(session: int, first: Any, second: Any, text: str) -> None:
    record_scope("s", {"a": first})
    for attempt in (marey.scope("s", {"a": second}).__enter__, enter("s", {"a": second})):
        with pytest.raises(ValueError, match="mismatch") as caught:
            attempt()
        assert str(caught.value) == f"Metric value type mismatch for valueId 0 {text}"
    root = live_root(session)
    assert marey.depth(session) == 0
    assert metrics(find(root, "s")) == {"a": first}
    assert root["marey"]["losses"]["metrics_refused"] == 2


def enter(name: str, values: dict[str, Any]) -> Callable[[], Any]:
    return lambda: marey.enter_scope(name, values)


def test_a_vector_keeps_its_length(session: int) -> None:
    with pytest.raises(ValueError, match=r"\(m\): current=2, new=3"):
        added(session, [1, 2], [1, 2, 3])
    assert metrics(find(live_root(session), "s")) == {"m": [1, 2]}


def test_numpy_arrays_and_scalars_are_accepted(session: int) -> None:
    np = pytest.importorskip("numpy")
    values = {
        "int8": np.int8(-3),
        "uint64": np.uint64(2**40),
        "bool": np.bool_(True),
        "float32": np.float32(0.5),
        "float64": np.float64(0.25),
        "zero-d": np.array(3),
        "ints": np.arange(3, dtype=np.int16),
        "floats": np.array([0.5, 1.5], dtype=np.float32),
    }
    record_scope("s", values)
    found = metrics(find(live_root(session), "s"))
    expected: dict[str, Any] = {
        "int8": -3,
        "uint64": 2**40,
        "bool": 1,
        "float32": 0.5,
        "float64": 0.25,
        "zero-d": 3,
        "ints": [0, 1, 2],
        "floats": [0.5, 1.5],
    }
    assert exactly(found) == exactly(expected)
    with pytest.raises(TypeError, match="flat sequence"):
        added(session, np.zeros((2, 2)))


def test_torch_tensors_are_accepted(session: int) -> None:
    torch = pytest.importorskip("torch")
    record_scope("s", {"scalar": torch.tensor(2.5, requires_grad=True), "n": torch.arange(3)})
    assert metrics(find(live_root(session), "s")) == {"scalar": 2.5, "n": [0, 1, 2]}


def test_index_decimal_and_fraction_values_are_accepted(session: int) -> None:
    from decimal import Decimal
    from fractions import Fraction

    class Index:
        def __index__(self) -> int:
            return 7

    values: dict[str, Any] = {"i": Index(), "d": Decimal("0.5"), "f": Fraction(1, 4)}
    record_scope("s", values)
    assert metrics(find(live_root(session), "s")) == {"i": 7, "d": 0.5, "f": 0.25}


def test_nan_and_infinity_are_json_null(session: int) -> None:
    assert added(session, float("nan")) is None
    assert added(session, float("inf")) is None


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"m": 2**63}, OverflowError),
        ({"m": [1, -(2**70)]}, OverflowError),
        ({"m": None}, TypeError),
        ({"m": object()}, TypeError),
        ({"m": {"a": 1}}, TypeError),
        ({"m": [1, "x"]}, TypeError),
        ({"m": 1j}, TypeError),
        ({1: 1}, TypeError),
    ],
)
def test_rejected_values_leave_the_scope_balanced(
    session: int, values: Any, error: type[Exception]
) -> None:
    for attempt in (marey.scope("s", values).__enter__, enter("s", values)):
        with pytest.raises(error):
            attempt()
        assert marey.depth(session) == 0
    marey.enter_scope("s")
    with pytest.raises(error):
        marey.exit_scope(metrics=values)
    assert marey.depth(session) == 0


def test_a_dict_that_changes_is_read_at_entry(session: int) -> None:
    values: dict[str, Any] = {}
    scope = marey.scope("s", values)
    values["m"] = 1
    with scope:
        values["m"] = 100
    with scope:
        pass
    assert metrics(find(live_root(session), "s")) == {"m": 101}


def test_cpu_timed_scope_adds_its_time(session: int) -> None:
    with marey.cpu_timed_scope("s", {"m": 1}):
        busy_nanos(2_000_000)
    node = find(live_root(session), "s")
    assert node["metrics"]["m"] == 1
    assert 2_000_000 <= node["metrics"]["cpu_time (ns)"] <= node["metrics"]["wall_total (ns)"]
    assert live_root(session)["metrics"] == {"m": 0}
    for reserved in ("cpu_time", "cpu_time (ns)", "cpu_time (ms)(exc)"):
        with pytest.raises(ValueError, match=r"^The metric name 'cpu_time' is reserved.$"):
            marey.cpu_timed_scope("s", {reserved: 1})
    marey.cpu_timed_scope("s", {"cpu_time_of_mine": 1})


def test_sums_over_threads_and_phases(session: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work(number: int) -> None:
        record_scope("s", {"m": number, "vector": [1.0, number]})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(100)))
    assert metrics(find(live_root(session), "s")) == {"m": 4950, "vector": [100.0, 4950.0]}


# Wall times


def busy_nanos(nanos: int) -> int:
    """Keeps the processor busy for this time; returns the actual duration."""
    start = time.perf_counter_ns()
    while time.perf_counter_ns() - start < nanos:
        pass
    return time.perf_counter_ns() - start


def consistent(node: Node) -> None:
    """Checks the invariants of the wall times of a closed node."""
    wall = {key: node["metrics"][key] for key in node["metrics"] if key.startswith("wall_")}
    count, total, own = (wall[f"wall_{key}"] for key in ("count", "total (ns)", "self (ns)"))
    low, high = wall["wall_min (ns)"], wall["wall_max (ns)"]
    quantiles = [wall[f"wall_p{percent} (ns)"] for percent in (50, 90, 99)]
    assert "wall_open" not in wall
    assert 0 <= low <= high <= total  # a clock may tick every 10 ns, and a scope take less
    assert total > 0
    assert low * count <= total <= high * count
    assert 0 <= own <= total
    assert [low, *quantiles, high] == sorted([low, *quantiles, high])
    assert sum(entries for _, entries in node["marey"]["sketch"]) == count
    children = [
        child["metrics"]["wall_total (ns)"]
        for child in node["children"]
        if "wall_total (ns)" in child["metrics"]
    ]
    assert own == total - sum(children)


def test_wall_times_are_consistent() -> None:
    with marey.profile("x"):
        for repeat in range(300):
            with marey.scope("a"):
                for _ in range(repeat % 4):
                    with marey.scope("b"), marey.scope("c"):
                        pass
    nodes = dict(walk(tree("x.hatchet")))
    assert [node["metrics"]["wall_count"] for node in nodes.values()] == [300, 450, 450]
    for node in nodes.values():
        consistent(node)


def timed(name: str, nanos: int) -> tuple[int, int]:
    """Enters a scope for this time; returns the time measured inside and outside of it.

    The time of the scope is between the two, even on a loaded machine.
    """
    start = time.perf_counter_ns()
    with marey.scope(name):
        inside = busy_nanos(nanos)
    return inside, time.perf_counter_ns() - start


def test_wall_times_match_the_clock(session: int) -> None:
    insides, outsides = zip(*(timed("s", millis * 1_000_000) for millis in (1, 3, 2)), strict=True)
    wall = find(live_root(session), "s")["metrics"]
    for key, combine in (("total", sum), ("min", min), ("max", max)):
        low = combine(insides) * (1 - MAX_CLOCK_ERROR)
        high = combine(outsides) * (1 + MAX_CLOCK_ERROR)
        assert low <= wall[f"wall_{key} (ns)"] <= high


def test_quantiles_are_those_of_the_durations(session: int) -> None:
    durations = [timed("s", 20_000 + 2_000 * step) for step in shuffled(range(200))]
    insides, outsides = (sorted(each) for each in zip(*durations, strict=True))
    wall = find(live_root(session), "s")["metrics"]
    error = MAX_SKETCH_ERROR + MAX_CLOCK_ERROR
    for percent in (50, 90, 99):
        rank = percent * len(durations) // 100 - 1
        low, high = insides[rank] * (1 - error), outsides[rank] * (1 + error)
        assert low <= wall[f"wall_p{percent} (ns)"] <= high


def shuffled(numbers: Iterable[int]) -> list[int]:
    """Returns a fixed order that is neither ascending nor descending."""
    return sorted(numbers, key=lambda number: number * 7919 % 200)


def test_a_scope_that_is_open_counts_up_to_now(session: int) -> None:
    with marey.scope("open"), marey.scope("done"):
        pass
    with marey.scope("open"), marey.scope("inner"):
        busy_nanos(1_000_000)
        root = live_root(session)
    paths = ("open", "open/inner", "open/done")
    still, inner, done = (find(root, path)["metrics"] for path in paths)
    assert (still["wall_count"], still["wall_open"]) == (1, 1)
    assert still["wall_total (ns)"] >= inner["wall_total (ns)"] >= 1_000_000
    inside = inner["wall_total (ns)"] + done["wall_total (ns)"]
    assert still["wall_self (ns)"] == still["wall_total (ns)"] - inside
    assert (inner["wall_count"], inner["wall_open"]) == (0, 1)
    assert "wall_p50 (ns)" not in inner
    assert "wall_min (ns)" not in inner
    consistent(find(live_root(session), "open"))
