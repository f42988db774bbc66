"""The view `module_memory`: memory that modules allocate and keep."""

from __future__ import annotations

from analyses import Event, documented_rows, host_span, make_run, memory_event, rows, values

VIEW = "module_memory"


def module(name: str, start: float, duration: float) -> Event:
    return host_span(f"nn.Module: {name}", start, duration, category="python_function")


EVENTS = [
    memory_event(5, 100),
    module("Net_0", 10, 80),
    memory_event(15, 140),
    host_span("aten::mm", 18, 20),
    memory_event(20, 240),
    memory_event(25, 150),
    module("Linear_0", 40, 20),
    memory_event(45, 250, **{"Total Reserved": 900}),
    memory_event(80, 190),
    memory_event(95, 0),
    module("Net_0", 100, 50),
    memory_event(110, 10),
    memory_event(120, 7, device=-1, kind=0),
]


def test_the_view_matches_hand_computed_values() -> None:
    query = "SELECT * FROM {} ORDER BY device_type DESC, depth"
    found = documented_rows(make_run(EVENTS), VIEW, query)
    columns = ("device_type", "device", "calls", "growth_bytes", "self_growth_bytes", "peak_bytes")
    assert values(found, *columns) == [
        # +40, +100 and -90 in an operator, +100 in Linear_0, -60; then +10.
        ("cuda", 0, 2, 100, 0, 250),
        ("cuda", 0, 1, 100, 100, 250),
        # There is nothing to compare the only total of the host with.
        ("cpu", None, 2, 0, 0, 7),
    ]
    assert found[0]["max_reserved_bytes"] == 900
    # From 100 at the entry of the first call to 250, and from 0 to 10 in the second; in Linear_0
    # from 150.
    assert [row["peak_change_bytes"] for row in found] == [150, 100, None]


def test_the_peak_of_each_call_is_compared_with_its_own_entry() -> None:
    events = [
        memory_event(5, 1000),
        module("Net_0", 10, 10),
        memory_event(15, 1300),
        memory_event(30, 2000),
        module("Net_0", 40, 10),
        memory_event(45, 2100),
    ]
    [row] = rows(make_run(events), VIEW)
    assert (row["peak_bytes"], row["peak_change_bytes"]) == (2100, 300)


def test_modules_without_totals_have_no_rows() -> None:
    assert rows(make_run([module("Net_0", 10, 80)]), VIEW) == []
