"""`context="python"`: paths are the executing frames, each with its current line."""

from __future__ import annotations

import functools
import random
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import Any

import marey
import pytest
from profiles import Node, live_root, metrics, tree
from programs import run_marey
from threads import run_in_threads
from versions import NEWEST_KNOWN

Path = tuple[str, ...]


@pytest.fixture
def session() -> int:
    number = marey.start("x", context="python")
    assert number is not None
    return number


class Expected(dict[Path, int]):
    """The paths of the scopes that `mark` entered, from the frames of the standard library."""

    def mark(self, name: str = "marked") -> int:
        # On one line: the frames of the scope and those of the reference are the same.
        with marey.scope(name): return self.count((*stack(), name))  # noqa: E701 # fmt: skip

    def count(self, path: Path) -> int:
        self[path] = self.get(path, 0) + 1
        return self[path]


def stack() -> Path:
    """Returns the caller's frames, outermost first."""
    frames = traceback.extract_stack()[:-1]
    return tuple(f"{frame.filename}:{frame.lineno}@{frame.name}" for frame in frames)


def paths(node: Node, above: Path = ()) -> dict[Path, int]:
    """Returns how often each scope ended, by path. Frames have no times."""
    found: dict[Path, int] = {}
    for child in node["children"]:
        path = (*above, child["frame"]["name"])
        if child["marey"]["kind"] == "scope":
            found[path] = child["metrics"].get("wall_count", 0)
        else:
            assert child["marey"]["kind"] == "frame"
            assert not child["metrics"]
        found |= paths(child, path)
    return found


def test_supported_python_versions_use_the_fast_path() -> None:
    assert marey._native.frames_are_fast() is (sys.version_info[:2] <= NEWEST_KNOWN)


def test_scopes_are_below_the_line_that_enters_them(session: int) -> None:
    expected = Expected()
    for _ in range(3):
        expected.mark()
        expected.mark()
        (
            expected.mark("other"),
            expected.mark(),
        )
    assert list(expected.values()) == [3, 3, 3, 3]
    assert paths(live_root(session)) == expected


def test_all_kinds_of_frames_are_named(session: int) -> None:
    expected = Expected()

    def generate() -> Iterator[int]:
        for number in range(2):
            expected.mark()
            yield number

    def decorated(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any) -> Any:
            expected.mark()
            return func(*args)

        return wrapper

    @decorated
    def recurse(depth: int) -> None:
        expected.mark()
        if depth:
            recurse(depth - 1)

    class Thing:
        expected.mark()

        def __init__(self) -> None:
            expected.mark()

        @property
        def value(self) -> int:
            expected.mark()
            return 1

        def __del__(self) -> None:
            expected.mark()

    def marked(*_: Any) -> int:
        expected.mark()
        return 0

    (lambda: expected.mark())()
    [expected.mark() for _ in range(2)]
    {expected.mark(): expected.mark() for _ in range(2)}
    list(expected.mark() for _ in range(2))  # noqa: C400
    for _ in generate():
        expected.mark()
    recurse(5)
    assert Thing().value == 1
    # Python called by C that Python called.
    sorted([3, 1, 2], key=marked)
    functools.reduce(marked, [1, 2, 3])
    list(map(marked, "ab"))
    functools.partial(marked)()
    try:
        raise KeyError
    except KeyError:
        expected.mark()
    finally:
        expected.mark()
    assert len(expected) > 25
    assert paths(live_root(session)) == expected


@pytest.mark.parametrize("seed", range(10))
def test_random_call_trees_match_the_traceback_module(session: int, seed: int) -> None:
    rng = random.Random(seed)
    expected = Expected()

    def a(depth: int) -> None:
        step(depth)
        step(depth)

    def b(depth: int) -> None:
        expected.mark("in b")
        list(map(step, [depth]))

    def c(depth: int) -> None:
        for _ in range(2):
            step(depth)
            expected.mark("in c")

    def step(depth: int) -> None:
        if depth < 9 and rng.random() < 0.85:
            rng.choice([a, b, c])(depth + 1)
        else:
            expected.mark()

    for _ in range(10):
        step(0)
    assert paths(live_root(session)) == expected


def test_scopes_inside_scopes_come_after_the_frames(session: int) -> None:
    with marey.scope("outer", {"m": 1}), marey.scope("inner", {"m": 2}):
        pass
    found = {path[-1]: path for path in paths(live_root(session))}
    # Paths are the frames, then the scope: an outer scope is no part of them.
    assert "outer" not in found["inner"][:-1]
    assert found["inner"][-2].endswith("@test_scopes_inside_scopes_come_after_the_frames")


def test_threads_have_their_own_frames(session: int) -> None:
    expected = [Expected() for _ in range(4)]
    barrier = threading.Barrier(4)

    def work(mine: Expected) -> None:
        barrier.wait()
        for number in range(500):
            mine.mark()
            if number % 3 == 0:
                (lambda: mine.mark())()

    run_in_threads(*(functools.partial(work, mine) for mine in expected))
    assert all(mine == expected[0] for mine in expected)
    together = {path: 4 * count for path, count in expected[0].items()}
    assert paths(live_root(session)) == together


def test_recompiled_code_of_one_file_is_not_mixed_up(session: int) -> None:
    """New code may get the address of old code; names must change with it."""
    expected = Expected()
    for number in range(300):
        source = "\n" * (number % 7) + f"def f{number % 11}():\n  expected.mark()\nf{number % 11}()"
        exec(compile(source, "<generated>", "exec"), {"expected": expected})
    assert len(expected) == 77
    assert paths(live_root(session)) == expected


def test_names_of_files_and_functions_may_have_any_characters(session: int) -> None:
    expected = Expected()
    exec(compile("(lambda: expected.mark())()", 'a "b":1@\\é\n', "exec"), {"expected": expected})
    assert paths(live_root(session)) == expected


def test_depth_counts_the_frames(session: int) -> None:
    shadow = marey.start("y")

    def inner() -> tuple[int, int | None]:
        return len(stack()), marey.depth(session)

    frames, depth = inner()
    own = 1  # `depth` is a Python function itself
    assert depth == frames + own
    with marey.scope("s"):
        assert (marey.depth(shadow), marey.depth(session)) == (1, len(stack()) + own)


def test_sessions_of_both_contexts_record_at_the_same_time(session: int) -> None:
    shadow = marey.start("y")
    expected = Expected()
    with marey.scope("outer"):
        expected.mark()
    assert paths(live_root(shadow)) == {("outer",): 1, ("outer", "marked"): 1}
    marked = {path: n for path, n in paths(live_root(session)).items() if path[-1] == "marked"}
    assert marked == expected


def test_metrics_and_states_are_below_the_scope(session: int) -> None:
    with marey.state("state"), marey.scope("s", {"m": 1}):
        pass

    def leaves(node: Node, above: Path = ()) -> Iterator[tuple[Path, Node]]:
        for child in node["children"]:
            path = (*above, child["frame"]["name"])
            yield path, child
            yield from leaves(child, path)

    (path,) = [path for path, node in leaves(live_root(session)) if metrics(node)]
    assert path[-2:] == ("s", "state")
    assert path[-3].endswith("@test_metrics_and_states_are_below_the_scope")


def test_a_deep_stack_is_recorded(session: int) -> None:
    expected = Expected()

    def recurse(depth: int) -> None:
        if depth:
            recurse(depth - 1)
        else:
            expected.mark()

    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(5000)
        recurse(2000)
    finally:
        sys.setrecursionlimit(limit)
    assert only_path(session) == next(iter(expected))


def only_path(session: int) -> Path:
    """Returns the only path of a tree that is too deep for recursion."""
    document = marey._native.get_data(session, 0, "hatchet").decode()
    names = [line for line in document.splitlines() if '"name": ' in line]
    # A node's name comes after its children.
    return tuple(name.split('"')[3] for name in reversed(names[:-1]))


def test_frames_of_marey_are_omitted(session: int) -> None:
    @marey.scope("decorated")
    def work() -> Path:
        return stack()

    frames = work()
    # The wrapper's frame is between ours and that of `work`, which is above the scope's entry.
    above = tuple(frame for frame in frames[:-1] if "_decorator.py" not in frame)
    assert len(above) == len(frames) - 2
    assert paths(live_root(session)) == {(*above, "decorated"): 1}


def test_under_marey_run_paths_begin_with_the_program() -> None:
    script = FilePath("program.py")
    script.write_text("import marey\nwith marey.scope('inside'):\n    pass\n")
    run_marey("run", "-c", "python", "program.py")
    root = tree("program.hatchet")
    assert paths(root) == {(f"{script.absolute()}:2@<module>", "inside"): 1}
