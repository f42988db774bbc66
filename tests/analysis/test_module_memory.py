"""The view `module_memory`: memory that modules allocate and keep."""

from __future__ import annotations

from pathlib import Path

from analyses import Event, check_documented, host_span, make_run, memory_event, rows

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


def test_the_view_matches_hand_computed_values(tmp_path: Path) -> None:
    found = rows(
        make_run(tmp_path, EVENTS), VIEW, "SELECT * FROM {} ORDER BY device_type DESC, depth"
    )
    check_documented(VIEW, make_run(tmp_path, EVENTS), found)
    columns = ("device_type", "device", "calls", "growth_bytes", "self_growth_bytes", "peak_bytes")
    assert [tuple(row[column] for column in columns) for row in found] == [
        # +40, +100 and -90 in an operator, +100 in Linear_0, -60; then +10.
        ("cuda", 0, 2, 100, 0, 250),
        ("cuda", 0, 1, 100, 100, 250),
        # There is nothing to compare the only total of the host with.
        ("cpu", None, 2, 0, 0, 7),
    ]
    assert found[0]["max_reserved_bytes"] == 900


def test_modules_without_totals_have_no_rows(tmp_path: Path) -> None:
    assert rows(make_run(tmp_path, [module("Net_0", 10, 80)]), VIEW) == []
