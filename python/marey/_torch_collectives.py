"""Collectives of `torch.distributed`, read from PyTorch's flight recorder while a trace records.

The flight recorder keeps the last collectives of each backend in a ring. It is read when it may be
half full, before the process groups are destroyed, and at the end. Entries that were overwritten
before are counted as lost.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from . import _native

RING_VARIABLES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
"""Environment variables with the number of entries of a ring, the preferred one first."""

DEFAULT_RING_ENTRIES = 2000
"""Entries of a ring without these variables, as PyTorch 2.15 has it."""

_STATES = {"scheduled": 0, "started": 1, "completed": 2}
_STATE_NAMES = list(_STATES)


class Collective(NamedTuple):
    """An argument of `_native.record_collectives`; -1 and an empty text mean unknown."""

    name: str
    group: str
    group_ranks: str
    group_size: int
    sequence: int
    dtype: str
    in_elements: int
    out_elements: int
    created_nanos: int
    started_nanos: int
    duration_nanos: int
    state: int
    is_p2p: bool


class Reader:
    """Reads the flight recorder's rings of one process."""

    def __init__(self) -> None:
        self._pid = os.getpid()  # a forked child has a copy of its parent's rings
        self._next_ids: dict[str, int] = {}  # by ring
        self._groups: dict[str, list[int]] = {}  # ranks by name of the group
        self._steps_until_read = 1
        self._steps = 0
        self._answers_requests = False
        self.learn_groups()
        if os.environ.get("WORLD_SIZE", "1") != "1":
            # The job may hang before its first step ends.
            self._answer_requests()
        for ring, dump in self._rings():
            self._next_ids[ring] = max((_id_of(entry) + 1 for entry in _entries(dump)), default=0)

    def end_step(self) -> None:
        """Reads the rings if they may be full before the next such time."""
        self._steps += 1
        if self._steps < self._steps_until_read:
            return
        entries = self.read()
        steps, self._steps = self._steps, 0
        # Doubling at most, because later steps may have more collectives.
        limit = steps * (_ring_entries() // 2) // max(entries, 1)
        self._steps_until_read = max(1, min(2 * steps, limit))

    def read(self, *, unfinished: bool = False) -> int:
        """Records the collectives that are new since the last call, in a trace.

        Args:
            unfinished: Whether to record those in progress too, which the next call would do.

        Returns:
            The number of collectives.
        """
        sessions = _native.active_sessions()
        if not any(_native.run_dir(session) for session in sessions):
            return 0
        self.learn_groups()
        return sum(self._read_ring(ring, dump, unfinished) for ring, dump in self._rings())

    def learn_groups(self) -> None:
        """Reads the ranks of the groups, which are known until a group is destroyed."""
        with contextlib.suppress(KeyError, AttributeError):  # names of PyTorch's own
            world = sys.modules["torch.distributed.distributed_c10d"]._world
            for group, name in list(world.pg_names.items()):
                self._groups[name] = sorted(world.pg_group_ranks[group])
        if self._groups:
            self._answer_requests()

    def last(self) -> str:
        """Returns the last collective that this process has called, as JSON; `null` without one."""
        self.learn_groups()
        entries = [entry for _, dump in self._rings() for entry in _entries(dump)]
        if not entries:
            return "null"
        last = self._collective(max(entries, key=lambda entry: entry["time_created_ns"]))
        state = _STATE_NAMES[last.state]
        return json.dumps(
            {
                "group": last.group,
                "group_ranks": last.group_ranks,
                "sequence": last.sequence,
                "name": last.name,
                "state": state,
            }
        )

    def close(self) -> None:
        """Answers no more requests for the last collective."""
        if self._answers_requests:
            from . import sampling

            sampling.find_collectives(None)

    def _answer_requests(self) -> None:
        if not self._answers_requests and os.getpid() == self._pid:
            from . import sampling  # a module that most programs never use

            self._answers_requests = True
            sampling.find_collectives(self.last)

    def _rings(self) -> Iterator[tuple[str, Callable[[], bytes]]]:
        """Returns the name of each ring with the function that returns it as JSON."""
        if not self._groups or os.getpid() != self._pid:
            return
        c10d = sys.modules.get("torch._C._distributed_c10d")
        for ring, name in (("nccl", "_dump_nccl_trace_json"), ("gloo", "_dump_fr_trace_json")):
            dump = getattr(c10d, name, None)
            if dump is not None:
                yield ring, functools.partial(dump, includeCollectives=True, onlyActive=False)

    def _read_ring(self, ring: str, dump: Callable[[], bytes], unfinished: bool) -> int:
        next_id = self._next_ids.get(ring, 0)
        new = [entry for entry in _entries(dump) if _id_of(entry) >= next_id]
        if not new:
            return 0
        first_id = _id_of(new[0])
        if first_id > next_id:
            _native.count_losses("collectives_overwritten", first_id - next_id)
        if not unfinished:
            new = list(itertools.takewhile(_is_finished, new))
        self._record(new)
        self._next_ids[ring] = first_id + len(new)
        return len(new)

    def _record(self, entries: Iterable[dict[str, Any]]) -> None:
        collectives: list[Collective] = []
        for entry in entries:
            try:
                collectives.append(self._collective(entry))
            except (KeyError, TypeError, ValueError, IndexError):
                _native.count_losses("unreadable_events", 1)
        if collectives:
            _native.record_collectives(collectives)

    def _collective(self, entry: dict[str, Any]) -> Collective:
        group = entry["process_group"][0]
        ranks = self._groups.get(group, [])
        is_p2p = bool(entry.get("is_p2p"))
        created_nanos = entry["time_created_ns"]
        started_nanos = entry.get("time_discovered_started_ns") or -1
        state = entry.get("state", "scheduled")
        if state == "scheduled" and entry.get("retired"):  # gloo does not report the states
            state = "completed"
        return Collective(
            name=entry["profiling_name"].rpartition(":")[2].partition(" ")[0],
            group=group,
            group_ranks=_as_ranges(ranks),
            group_size=len(ranks) or -1,
            sequence=entry["p2p_seq_id" if is_p2p else "collective_seq_id"],
            dtype=next(iter(entry.get("input_dtypes") or entry.get("output_dtypes") or ()), ""),
            in_elements=_count_elements(entry.get("input_sizes")),
            out_elements=_count_elements(entry.get("output_sizes")),
            created_nanos=created_nanos,
            started_nanos=started_nanos,
            duration_nanos=_duration_nanos(entry, max(started_nanos, created_nanos)),
            state=_STATES[state],
            is_p2p=is_p2p,
        )


def _entries(dump: Callable[[], bytes]) -> list[dict[str, Any]]:
    """Returns the entries of a ring, the oldest first; none if this PyTorch cannot dump it."""
    try:
        entries: list[dict[str, Any]] = json.loads(dump()).get("entries", [])
    except (RuntimeError, TypeError, ValueError):
        return []
    return entries


def _id_of(entry: dict[str, Any]) -> int:
    number = entry.get("record_id")
    return number if isinstance(number, int) else -1


def _is_finished(entry: dict[str, Any]) -> bool:
    return bool(entry.get("retired")) or entry.get("state") == "completed"


def _duration_nanos(entry: dict[str, Any], start_nanos: int) -> int:
    if entry.get("duration_ms") is not None:
        return int(entry["duration_ms"] * 1e6)
    completed_nanos = entry.get("time_discovered_completed_ns") or 0
    return max(0, completed_nanos - start_nanos) if completed_nanos > 0 else -1


def _count_elements(sizes: list[list[int]] | None) -> int:
    return -1 if sizes is None else sum(math.prod(size) for size in sizes)


def _as_ranges(ranks: list[int]) -> str:
    """Returns ascending ranks as text: ``0-3,8``."""
    ranges: list[str] = []
    for _, group in itertools.groupby(enumerate(ranks), lambda pair: pair[1] - pair[0]):
        members = [rank for _, rank in group]
        first, last = members[0], members[-1]
        ranges.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(ranges)


def _ring_entries() -> int:
    for variable in RING_VARIABLES:
        with contextlib.suppress(ValueError):
            return max(int(os.environ.get(variable, "")), 1)
    return DEFAULT_RING_ENTRIES
