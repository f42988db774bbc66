"""Traces of jobs in which ranks are late."""

from __future__ import annotations

from typing import Any

from analyses import Event, gpu_span, host_span, step

# A step, in microseconds: what each does up to `backward`, which lasts 500 from when the last rank
# came to it.
STEP_MICROS, FORWARD_MICROS, BACKWARD_MICROS = 10_000, 1_000, 500


def host_traces(*step_delays: tuple[float, ...], max_inside: float = 0) -> list[list[Event]]:
    """Makes traces of ranks with one step for each argument: the delays of all ranks.

    The delay is before the first span; up to `max_inside` of it is in a span inside `backward`.
    """
    traces: list[list[Event]] = [[] for _ in step_delays[0]]
    for number, delays in enumerate(step_delays):
        end = STEP_MICROS * number + FORWARD_MICROS + max(delays) + BACKWARD_MICROS
        for events, delay in zip(traces, delays, strict=True):
            inside_delay = min(delay, max_inside)
            start = STEP_MICROS * number + delay - inside_delay
            events.append(step(number, start, end - start + 10))
            events.append(host_span("forward", start + 1, FORWARD_MICROS - 1))
            backward = start + FORWARD_MICROS
            events.append(host_span("backward", backward, end - backward))
            if inside_delay:
                events.append(host_span("gradient", backward, inside_delay))
    return traces


def collective(sequence: int, start: float, end: float, size: int, group: str = "0") -> Event:
    args: dict[str, Any] = {
        "Collective name": "allreduce",
        "Process Group Name": group,
        "Group size": size,
        "dtype": "Float",
        "Seq": sequence,
    }
    return gpu_span("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, end - start, **args)


def collective_traces(
    *step_delays: tuple[float, ...],
    has_steps: bool = True,
    outside: tuple[float, ...] | None = None,
) -> list[list[Event]]:
    """Makes traces of ranks with a step and a collective for each argument: all ranks' delays."""
    size = len(step_delays[0])
    traces = []
    for rank in range(size):
        events = [host_span("op", 0, 1)]
        rounds = list(step_delays) if outside is None else [*step_delays, outside]
        for number, delays in enumerate(rounds):
            start = 1000 * number
            if has_steps and number < len(step_delays):
                events.append(step(number, start, 1000))
            end = start + 200 + max(delays)
            events.append(collective(number, start + 100 + delays[rank], end, size))
        traces.append(events)
    return traces
