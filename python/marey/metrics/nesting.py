"""Self times of spans that lie in each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from .series import Span


def self_times(spans: Mapping[str, Sequence[Span]]) -> dict[str, int]:
    """Returns the nanoseconds of each name without those of spans inside, on the same thread.

    Spans that overlap without nesting, as of tasks that take turns on one thread, share no time:
    the time of an inner span is subtracted as far as it lies in the outer one.
    """
    found = dict.fromkeys(spans, 0)
    threads: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for name, group in spans.items():
        for span in group:
            # The outer one of two that begin together is the longer one.
            threads[span.thread].append((span.start, -span.end, name))
    for group_of_thread in threads.values():
        _add_self_times(sorted(group_of_thread), found)
    return found


def _add_self_times(spans: Sequence[tuple[int, int, str]], found: dict[str, int]) -> None:
    outer: list[tuple[int, str]] = []
    for start, negative_end, name in spans:
        end = -negative_end
        while outer and outer[-1][0] <= start:
            outer.pop()
        if outer:
            parent_end, parent = outer[-1]
            found[parent] -= min(end, parent_end) - start
        found[name] += end - start
        outer.append((end, name))
