"""Performance counters of scopes: cycles, instructions, cache misses, page faults …

While enabled, each thread counts the events in the kernel's performance counters, and every scope,
module, operator and step has a metric for each event: how often it happened in the scope itself,
without the scopes inside it. Viewers and queries add up the scopes inside.

Counting costs two readings a scope: about 0.1 microseconds where the processor's counters can be
read directly, about 1 microsecond where the kernel reads them. Scopes of coroutines are not
counted, because several may be open on a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from marey import _native

__all__ = ["DEFAULT_EVENTS", "disable", "enable"]

DEFAULT_EVENTS = ("cycles", "instructions", "cache_references", "cache_misses", "branch_misses")
"""The events of `enable` by default."""


def enable(events: Sequence[str] = DEFAULT_EVENTS) -> None:
    """Counts events in the scopes that are entered from now on, on every thread.

    Args:
        events: At most eight names of ``perf list``, such as ``cycles``, ``instructions``,
            ``cache_references``, ``cache_misses``, ``branches``, ``branch_misses``,
            ``stalled_cycles_backend``, ``page_faults``, ``context_switches``, ``task_clock`` (in
            nanoseconds), or raw events of the processor such as ``r01c2``. They are counted in user
            mode, except for context switches and migrations, which happen in the kernel. They
            replace the events of an earlier call.

    Raises:
        ValueError: A name is unknown, or there are none or too many.
        RuntimeError: The system does not count an event, or does not let this process count it; the
            message has the event, the reason and, if there is one, the remedy.
    """
    if isinstance(events, str) or not events:
        raise ValueError(f"events must be a sequence of names, not {events!r}")
    _native.count_events(",".join(events))


def disable() -> None:
    """Ends the counting. Scopes that are open keep no counts."""
    _native.count_events("")
