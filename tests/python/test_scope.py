"""Scopes and states: entering, leaving, names, sharing, decorating functions."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from typing import Any

import marey as proton
import pytest
from profiles import counts, find, live_root, losses, metrics, record_scope, states, walk
from threads import run_in_threads

# Entering and leaving


def test_the_manuals_service_window_example_works(session: int) -> None:
    np = pytest.importorskip("numpy")
    latencies = np.array([1.0, 2.0, 4.0])
    number = proton.enter_scope(
        "service_window", {"window_start_timestamp": 17.5, "window_duration_seconds": 300}
    )
    assert (
        proton.exit_scope(
            metrics={
                "p50_latency_ms": np.percentile(latencies, 50),
                "max_latency_ms": np.max(latencies),
                "total_requests": len(latencies),
                "success_rate": 1.0,
            }
        )
        == number
    )
    assert metrics(find(live_root(session), "service_window")) == {
        "window_start_timestamp": 17.5,
        "window_duration_seconds": 300,
        "p50_latency_ms": 2.0,
        "max_latency_ms": 4.0,
        "total_requests": 3,
        "success_rate": 1.0,
    }


def test_enter_and_exit_return_one_number_and_check_the_name(session: int) -> None:
    outer, inner = proton.enter_scope("outer"), proton.enter_scope("inner")
    assert outer is not None
    assert inner is not None
    assert outer != inner
    with pytest.raises(ValueError, match=r"^Scope name mismatch: outer != inner$"):
        proton.exit_scope("outer")
    assert proton.depth(session) == 2
    assert proton.exit_scope("inner") == inner
    assert proton.exit_scope() == outer
    with pytest.raises(RuntimeError, match="not balanced"):
        proton.exit_scope()
    assert counts(live_root(session)) == {"outer": 1, "outer/inner": 1}


def test_an_operator_hides_operators_inside_it(session: int) -> None:
    proton.enter_scope("scope")
    proton.enter_scope("op", {"flops": 2.0}, triton_op=True)
    proton.enter_scope("nested", triton_op=True)
    proton.exit_scope(triton_op=True)
    proton.exit_scope(True, metrics={"bytes": 3})
    proton.exit_scope()
    root = live_root(session)
    assert counts(root) == {"scope": 1, "scope/op": 1}
    op = find(root, "scope/op")
    assert (metrics(op), op["marey"]["kind"]) == ({"flops": 2.0, "bytes": 3}, "operator")


def test_refused_exit_metrics_still_leave_the_scope(session: int) -> None:
    proton.enter_scope("x", {"a": 1})
    with pytest.raises(ValueError, match="type mismatch"):
        proton.exit_scope(metrics={"a": 1.0})
    assert proton.depth(session) == 0


def test_depth_counts_open_scopes(session: int) -> None:
    assert proton.depth(session) == 0
    with proton.scope("a"), proton.state("s"):
        assert proton.depth(session) == proton.context.depth(session) == 1
        late = proton.start("late")
        with proton.scope("b"):
            assert (proton.depth(session), proton.depth(late)) == (2, 1)
    assert proton.depth(None) is None
    proton.finalize()
    assert proton.depth(session) is None


def test_an_exception_leaves_every_scope_and_state(session: int) -> None:
    with pytest.raises(KeyError), proton.scope("a"), proton.state("s"), proton.cpu_timed_scope("b"):
        raise KeyError
    assert proton.depth(session) == 0
    record_scope("after", {"m": 1})
    root = live_root(session)
    assert metrics(find(root, "after")) == {"m": 1}
    assert losses(root) == {}


# Scope objects


def test_a_scope_object_is_reentrant_and_shared_by_threads(session: int) -> None:
    shared = proton.scope("shared")
    barrier = threading.Barrier(4)

    def nest(depth: int) -> None:
        with shared:
            if depth:
                nest(depth - 1)

    def work() -> None:
        barrier.wait()
        for _ in range(200):
            nest(3)

    run_in_threads(*[work] * 4)
    path = ["shared"] * 4
    assert counts(live_root(session)) == {"/".join(path[:depth]): 800 for depth in (1, 2, 3, 4)}


def test_the_repr_of_a_scope_has_its_name() -> None:
    values = {"m": 1}
    scope = proton.scope("it's", values)
    assert repr(scope) == 'marey.scope("it\'s")'
    assert (scope.name, scope.metrics) == ("it's", values)
    assert proton.scope("x").metrics is None
    with scope as entered:
        assert entered is scope
    with pytest.raises(TypeError, match="cannot create"):
        type(scope)()


def test_invalid_scope_arguments_are_rejected() -> None:
    assert proton.scope(name="a", metrics={"m": 1}).metrics == {"m": 1}
    assert proton.scope("a", metrics=None).metrics is None
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        ((1,), {}),
        ((b"bytes",), {}),
        (("a", 1), {}),
        (("a", None, None), {}),
        (("a",), {"name": "b"}),
        (("a",), {"other": 1}),
        ((), {"metrics": {}}),
    ]
    for args, kwargs in wrong:
        with pytest.raises(TypeError):
            proton.scope(*args, **kwargs)
    for enter in (proton.enter_scope, proton.enter_state):
        with pytest.raises(TypeError):
            enter(1)  # type: ignore[arg-type]


class Strange(str):
    """A name that can be neither compared nor hashed."""

    __eq__ = None  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("", ""),
        ('quote " back \\ slash / tab \t line \n nul \0', None),
        ("é漢🙂", None),
        ("lone \ud800 surrogate", "lone \\ud800 surrogate"),
        ("x" * 1_000_000, None),
        (Strange("of a subclass"), "of a subclass"),
    ],
    ids=["empty", "escapes", "unicode", "surrogate", "long", "subclass"],
)
def test_any_string_is_a_valid_name(session: int, name: str, shown: str | None) -> None:
    for _ in range(2):
        with proton.scope(name):
            pass
        with proton.scope(name, {"m": 1}):
            pass
        proton.enter_scope(name)
        proton.exit_scope()
    assert counts(live_root(session)) == {shown if shown is not None else name: 6}


def test_names_that_are_equal_but_not_the_same_object(session: int) -> None:
    for number in range(5000):
        with proton.scope("".join(["made ", "at run time"])), proton.scope(f"n{number % 10}"):
            pass
    expected = {"made at run time": 5000} | {f"made at run time/n{n}": 500 for n in range(10)}
    assert counts(live_root(session)) == expected


# Decorators


@pytest.mark.parametrize(
    ("decorator", "nested"),
    [
        (lambda: proton.scope("x"), True),
        (lambda: proton.scope("x", {"m": 1}), True),
        (lambda: proton.cpu_timed_scope("x"), True),
        (lambda: proton.state("x"), False),  # a state hangs on the scope, not on another state
    ],
)
def test_decorated_functions_keep_their_metadata(
    session: int, decorator: Any, nested: bool
) -> None:
    @decorator()  # type: ignore[untyped-decorator]
    def fails(a: int, *, b: int = 2) -> int:
        """Divides."""
        return a // b

    @decorator()  # type: ignore[untyped-decorator]
    async def pauses(a: int) -> Any:
        await asyncio.sleep(0)
        return fails(a, b=0)

    assert (fails.__name__, fails.__doc__) == ("fails", "Divides.")
    assert str(inspect.signature(fails)) == "(a: 'int', *, b: 'int' = 2) -> 'int'"
    assert inspect.iscoroutinefunction(pauses)
    assert fails(6) == 3
    with pytest.raises(ZeroDivisionError):
        fails(1, b=0)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(pauses(1))
    root = live_root(session)
    found = counts(root) if nested else states(root)
    assert found == ({"x": 3, "x/x": 1} if nested else {"x": 4})


def test_decorated_methods_and_recursive_functions_nest(session: int) -> None:
    class Thing:
        @proton.scope("method")
        def method(self, depth: int) -> int:
            return self.method(depth - 1) + 1 if depth else 0

        @classmethod
        @proton.scope("class")
        def of_class(cls) -> str:
            return cls.__name__

    assert (Thing().method(2), Thing.of_class()) == (2, "Thing")
    expected = {"method": 1, "method/method": 1, "method/method/method": 1, "class": 1}
    assert counts(live_root(session)) == expected
    for wrong in ((), (1, 2)):
        with pytest.raises(TypeError):
            proton.scope("x")(*wrong)


def test_a_decorated_callable_without_a_name(session: int) -> None:
    assert proton.scope("x")(functools.partial(int, base=2))("101") == 5
    assert counts(live_root(session)) == {"x": 1}


# States


def test_the_outer_state_applies_after_the_inner_one(session: int) -> None:
    def measure() -> None:
        record_scope("s", {"m": 1})

    with proton.state("outer"):
        measure()
        with proton.state("inner"):
            measure()
            measure()
        measure()
    proton.enter_state("by hand")
    measure()
    proton.exit_state()
    proton.exit_state()
    measure()
    root = live_root(session)
    nodes = ("s", "s/outer", "s/inner", "s/by hand")
    assert [metrics(find(root, path)) for path in nodes] == [{"m": 1}, {"m": 2}, {"m": 2}, {"m": 1}]
    assert find(root, "s/outer")["marey"]["kind"] == "state"


def test_a_state_is_a_node_only_where_something_was_recorded_in_it(session: int) -> None:
    with proton.scope("outer"), proton.state("warm"), proton.scope("inner", {"m": 1}):
        pass
    root = live_root(session)
    assert [path for path, _ in walk(root)] == ["outer", "outer/inner", "outer/inner/warm"]
    assert states(find(root, "outer")) == {"warm": 1}


def test_the_metadata_state_has_the_name_that_viewers_leave_out(session: int) -> None:
    for state in (proton.metadata_state(), proton.metadata_state("kernel")):
        with state, proton.scope("s", {"m": 1}):
            pass
    names = {child["frame"]["name"] for child in find(live_root(session), "s")["children"]}
    assert names == {"__proton_launch_metadata", "__proton_launch_metadata:kernel"}


def test_states_belong_to_their_thread(session: int) -> None:
    def other() -> None:
        record_scope("other", {"m": 1})

    with proton.state("mine"):
        run_in_threads(other)
    assert metrics(find(live_root(session), "other")) == {"m": 1}


def test_a_hook_whose_kind_is_no_number_is_refused(session: int) -> None:
    kind: Any = "module"
    with pytest.raises(TypeError):
        proton._native.push("x", kind)
    assert counts(live_root(session)) == {}
