"""Performance counters of scopes, with events that the kernel counts on every machine."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from pathlib import Path

import marey
import pytest
from marey import performance
from profiles import find, live_root, metrics
from programs import Outcome, marey_command, write_program


@pytest.fixture(autouse=True)
def _no_events_remain() -> Iterator[None]:
    yield
    performance.disable()


def touch_pages(pages: int) -> None:
    """Writes to new pages, each of which is a page fault."""
    memory = mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(pages):
        memory[page * mmap.PAGESIZE] = 1
    memory.close()


def test_a_scope_has_the_events_that_happened_in_itself() -> None:
    session = marey.start("x")
    performance.enable(["page-faults", "task_clock"])
    with marey.scope("outer"), marey.scope("inner"):
        touch_pages(300)
    performance.disable()
    with marey.scope("uncounted"):
        touch_pages(300)
    root = live_root(session)
    assert metrics(find(root, "outer/inner"))["page_faults"] >= 300
    assert metrics(find(root, "outer/inner"))["task_clock"] > 0
    assert metrics(find(root, "outer"))["page_faults"] < 200
    assert "page_faults" not in metrics(find(root, "uncounted"))


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (["cycle"], "unknown performance event `cycle`; known are cycles, instructions"),
        (["page_faults"] * 9, "9 performance events were requested; at most 8"),
        ([], r"events must be a sequence of names, not \[\]"),
        ("cycles", "events must be a sequence of names, not 'cycles'"),
    ],
)
def test_events_that_do_not_exist_are_refused(events: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        performance.enable(events)


@pytest.mark.parametrize("event", performance.DEFAULT_EVENTS)
def test_an_event_of_the_processor_is_counted_or_refused_by_name(event: str) -> None:
    session = marey.start("x")
    refusal = f"performance event `{event}` cannot be counted: "
    try:
        performance.enable([event])
    except RuntimeError as error:
        refusal = str(error)
    with marey.scope("s"):
        touch_pages(300)
    assert refusal.startswith(f"performance event `{event}` cannot be counted: ")
    found = metrics(find(live_root(session), "s"))
    assert found.get(event, 1) > 0, "a count that is not had is not 0"


def test_an_event_that_the_machine_does_not_count_is_an_error_and_never_zero() -> None:
    session = marey.start("x")
    event = "rffffffffffffffff"  # no processor has this one
    with pytest.raises(RuntimeError, match=f"performance event `{event}` cannot be counted: "):
        performance.enable([event])
    with marey.scope("s"):
        pass
    assert event not in metrics(find(live_root(session), "s"))


PROGRAM = """
import mmap, threading, marey

def touch():
    with marey.scope("touch"):
        memory = mmap.mmap(-1, 300 * mmap.PAGESIZE)
        for page in range(300):
            memory[page * mmap.PAGESIZE] = 1

touch()
thread = threading.Thread(target=touch)
thread.start()
thread.join()
print("done")
"""


def run(*options: str) -> Outcome:
    return marey_command("run", *options, write_program(PROGRAM))


def test_the_command_counts_events_and_a_query_sums_them() -> None:
    done = run("--performance-events", "page_faults", "-d", "trace", "-o", "run.marey")
    assert (done.exit_code, done.stdout) == (0, "done\n"), done.stderr
    with marey.open("run.marey") as opened:
        query = "SELECT count(*), sum(value) FROM counters WHERE name = 'page_faults'"
        ((scopes, faults),) = opened.sql(query)
    assert scopes == 2
    assert faults >= 600


def test_a_program_runs_without_the_events_that_the_machine_lacks() -> None:
    done = run("--performance-events", "page_faults,rffffffffffffffff")
    assert (done.exit_code, done.stdout) == (0, "done\n")
    assert "marey: no performance events are recorded: performance event `rff" in done.stderr
    assert "page_faults" not in json.dumps(json.loads(Path("program.hatchet").read_text()))


def test_an_unknown_event_ends_the_command_before_the_program_runs() -> None:
    done = run("--performance-events", "cylces")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "error: unknown performance event `cylces`; known are " in done.stderr
