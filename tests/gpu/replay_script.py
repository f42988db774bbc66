"""Conversion of recorded activities to a script of the double (`crates/marey-replay`).

Calls are written in their order and with their distances, for one thread. Activities keep their
stream, duration, shape and delay; operations of a graph have the durations of its first launch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

Row = dict[str, Any]

MOST_ACTIVITIES = 2000
"""A script ends with the call that reaches this."""

VERSIONS = (26, 28, 130001, 130500)
"""Versions of libcupti whose records the double can write."""

DIRECTIONS = {"HtoD": "to-device", "DtoH": "to-host", "DtoD": "on-device"}
MEMORIES = {1: "pageable", 2: "pinned", 3: "device", 4: "array", 5: "managed"}
WAITS = {"Stream Synchronize": "stream", "Context Synchronize": "device"}

START_NANOS = 1_000_000_000


class Device(NamedTuple):
    """The header of the script: the machine."""

    name: str
    properties: dict[str, int]
    driver_version: int
    library_version: int


class Call(NamedTuple):
    """A driver call and its activities."""

    start_nanos: int
    duration_nanos: int
    correlation: int
    activities: list[Row]


def script(device: Device, activities: Iterable[Row], launches: Iterable[Row]) -> str:
    """Returns the script. Activities without a launch, or without an equivalent, are omitted.

    Args:
        device: The machine.
        activities: Rows of `gpu_activities`.
        launches: Rows of `spans` of the kind `runtime`.
    """
    calls = list(_bounded(_calls(activities, launches)))
    return "\n".join([*_settings(device), *_Player().lines(calls), "flush", ""])


def _calls(activities: Iterable[Row], launches: Iterable[Row]) -> Iterator[Call]:
    by_correlation: dict[int, list[Row]] = {}
    for activity in activities:
        if activity["correlation_id"] is not None and _is_playable(activity):
            by_correlation.setdefault(activity["correlation_id"], []).append(activity)
    for launch in sorted(launches, key=lambda it: it["start_nanos"]):
        correlation = launch["correlation_id"]
        made = by_correlation.pop(correlation, [])
        made.sort(key=lambda it: it["start_nanos"])
        if made:
            yield Call(launch["start_nanos"], launch["duration_nanos"], correlation, made)


def _is_playable(activity: Row) -> bool:
    kind = activity["kind"]
    return kind in ("kernel", "memcpy", "memset") or activity["name"] in WAITS


def _bounded(calls: Iterable[Call]) -> Iterator[Call]:
    written = 0
    for call in calls:
        if written >= MOST_ACTIVITIES:
            return
        written += len(call.activities)
        yield call


def _settings(device: Device) -> Iterator[str]:
    known = [version for version in VERSIONS if version <= device.library_version]
    words = {
        "arch": "arch",
        "sms": "num_sms",
        "clock": "clock_rate",
        "memory-clock": "memory_clock_rate",
        "bus": "bus_width",
        "memory": "totalGlobalMem",
    }
    properties = (
        f"{word} {device.properties[key]}"
        for word, key in words.items()
        if key in device.properties
    )
    yield f"# Recorded on {device.name}, libcupti {device.library_version}."
    yield f"version {max(known, default=VERSIONS[0])}"
    yield f"driver {device.driver_version}"
    yield "delivery worker"
    yield f"clock virtual start {START_NANOS}"
    yield "call 0"
    yield f"device {_quoted(device.name)} {' '.join(properties)}"


class _Player:
    """Writes calls one after the other."""

    def __init__(self) -> None:
        self._graphs: dict[tuple[str, ...], str] = {}
        self._free_nanos: dict[tuple[int, int], int] = {}
        self._next_correlation: int | None = None

    def lines(self, calls: list[Call]) -> Iterator[str]:
        now_nanos = calls[0].start_nanos if calls else 0
        for call in calls:
            if call.start_nanos > now_nanos:
                yield f"pass {call.start_nanos - now_nanos}"
                now_nanos = call.start_nanos
            yield from self._call(call)

    def _call(self, call: Call) -> Iterator[str]:
        for is_graph, group in groupby(call.activities, lambda it: it["graph_node_id"] is not None):
            activities = list(group)
            if is_graph:
                yield from self._graph(call, activities)
            else:
                for activity in activities:
                    yield from self._number(call)
                    yield self._alone(call, activity)

    def _alone(self, call: Call, activity: Row) -> str:
        if activity["kind"] == "sync":
            # It takes as long as the double's streams need.
            return f"synchronize {WAITS[activity['name']]}{_stream(activity)}"
        gap = self._gap_nanos(call.start_nanos, activity)
        return f"{_operation(activity)} {_place(activity)} gap {gap}"

    def _graph(self, call: Call, activities: list[Row]) -> Iterator[str]:
        nodes = tuple(_operation(it, with_duration=False) for it in activities)
        place = _place(activities[0])
        name = self._graphs.get(nodes)
        if name is None:
            name = f"graph-{len(self._graphs)}"
            self._graphs[nodes] = name
            yield f"capture {name} {place} {{"
            for activity in activities:
                gap = self._gap_nanos(call.start_nanos, activity)
                yield f"    {_operation(activity)} gap {gap}"
            yield "}"
            yield f"instantiate {name} {place}"
            self._next_correlation = None  # these were calls, too
        yield from self._number(call)
        yield f"graph {name} {place}"

    def _number(self, call: Call) -> Iterator[str]:
        """Sets the number of the next call if it would have another one."""
        if call.correlation != self._next_correlation:
            yield f"correlation {call.correlation}"
        self._next_correlation = call.correlation + 1

    def _gap_nanos(self, called_nanos: int, activity: Row) -> int:
        """Returns how long the stream was idle after the call had been made."""
        lane = (activity["device"], activity["stream"])
        ready_nanos = max(called_nanos, self._free_nanos.get(lane, 0))
        start_nanos: int = activity["start_nanos"]
        self._free_nanos[lane] = start_nanos + activity["duration_nanos"]
        return max(start_nanos - ready_nanos, 0)


def _operation(activity: Row, *, with_duration: bool = True) -> str:
    duration = f" duration {activity['duration_nanos']}" if with_duration else ""
    return _work(activity) + duration


def _work(activity: Row) -> str:
    args = json.loads(activity["args"] or "{}")
    if activity["kind"] == "kernel":
        return f"launch {_quoted(activity['name'])}{_shape(activity, args)}"
    size_bytes = activity["bytes"] or 0
    if activity["kind"] == "memset":
        return f"set {size_bytes} value {args.get('value', 0)}"
    direction = next(
        (word for name, word in DIRECTIONS.items() if name in activity["name"]), "on-device"
    )
    ends = "".join(
        f" {word} {MEMORIES[args[key]]}"
        for word, key in (("from", "source_kind"), ("to", "target_kind"))
        if args.get(key) in MEMORIES
    )
    return f"copy {direction} {size_bytes}{ends}"


def _shape(activity: Row, args: dict[str, int]) -> str:
    words = {
        "grid": activity["grid"],
        "block": activity["block"],
        "registers": activity["registers"],
        "static-shared": args.get("static_shared_bytes"),
        "shared": args.get("dynamic_shared_bytes"),
        "local": args.get("local_thread_bytes"),
    }
    if "cluster_x" in args:
        words["cluster"] = ",".join(str(args.get(f"cluster_{side}", 1)) for side in "xyz")
    return "".join(f" {word} {value}" for word, value in words.items() if value is not None)


def _place(activity: Row) -> str:
    return f"stream {activity['stream']} device {activity['device']}"


def _stream(activity: Row) -> str:
    no_stream = (1 << 32) - 1
    return "" if activity["stream"] == no_stream else f" stream {activity['stream']}"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "'") + '"'
