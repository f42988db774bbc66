"""Traces of jobs in which ranks are late."""

from __future__ import annotations

from typing import Any

from analyses import Event, on_gpu, on_host, step

# A step, in microseconds: what each does up to `backward`, which lasts 500 from when the last rank
# came to it.
STEP_MICROS, FORWARD_MICROS, BACKWARD_MICROS = 10_000, 1_000, 500


def host_traces(*late: tuple[float, ...], inside: float = 0) -> list[list[Event]]:
    """Makes traces of ranks with one step for each argument: the delays of all ranks.

    The delay is before the first span; up to `inside` of it is in a span inside `backward`.
    """
    traces: list[list[Event]] = [[] for _ in late[0]]
    for number, lates in enumerate(late):
        end = STEP_MICROS * number + FORWARD_MICROS + max(lates) + BACKWARD_MICROS
        for events, lateness in zip(traces, lates, strict=True):
            within = min(lateness, inside)
            start = STEP_MICROS * number + lateness - within
            events.append(step(number, start, end - start + 10))
            events.append(on_host("forward", start + 1, FORWARD_MICROS - 1))
            events.append(on_host("backward", start + FORWARD_MICROS, end - start - FORWARD_MICROS))
            if within:
                events.append(on_host("gradient", start + FORWARD_MICROS, within))
    return traces


def collective(sequence: int, start: float, end: float, size: int, group: str = "0") -> Event:
    said: dict[str, Any] = {
        "Collective name": "allreduce",
        "Process Group Name": group,
        "Group size": size,
        "dtype": "Float",
        "Seq": sequence,
    }
    return on_gpu("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, end - start, **said)


def collective_traces(
    *late: tuple[float, ...], steps: bool = True, outside: tuple[float, ...] | None = None
) -> list[list[Event]]:
    """Makes traces of ranks with a step and a collective for each argument: all ranks' delays."""
    size = len(late[0])
    traces = []
    for rank in range(size):
        events = [on_host("op", 0, 1)]
        rounds = list(late) if outside is None else [*late, outside]
        for number, lates in enumerate(rounds):
            start = 1000 * number
            if steps and number < len(late):
                events.append(step(number, start, 1000))
            end = start + 200 + max(lates)
            events.append(collective(number, start + 100 + lates[rank], end, size))
        traces.append(events)
    return traces
