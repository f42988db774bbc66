"""Self times of spans that lie in each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from .series import Span


def self_times(spans: Mapping[str, Sequence[Span]]) -> dict[str, int]:
    """Returns the nanoseconds of each name without those of spans inside, on the same thread.

    Each moment of a thread belongs to one span: of those that go on, the one that began last. So
    spans that overlap without nesting, as of tasks that take turns on one thread, share no time.
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
    begun: list[tuple[int, str]] = []  # the last one on top, some of them may have ended
    next_starts = [*(start for start, _, _ in spans[1:]), max(-end for _, end, _ in spans)]
    for (now, negative_end, name), next_start in zip(spans, next_starts, strict=True):
        begun.append((-negative_end, name))
        while begun:
            end, innermost = begun[-1]
            until = min(end, next_start)
            if until > now:
                found[innermost] += until - now
                now = until
            if end > next_start:
                break
            begun.pop()
