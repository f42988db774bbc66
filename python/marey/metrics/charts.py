"""Charts of an HTML page as SVG: no scripts, and no text that is not escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence

from .report import shown
from .series import Span

MAX_POINTS = 300
"""Points of a line; more numbers are drawn as the mean and the range of groups."""

MAX_SPANS = 2000
"""Spans of a timeline, the latest ones."""

MAX_TEXT_CHARS = 60

_WIDTH, _HEIGHT, _LABEL_WIDTH = 640, 120, 180
_LANE_HEIGHT = 22


def text(value: object, limit: int = MAX_TEXT_CHARS) -> str:
    """Returns a text with markup and characters that are not printable escaped."""
    plain = str(value)
    if len(plain) > limit:
        plain = plain[: limit - 1] + "…"
    printable = (
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in plain
    )
    return html.escape("".join(printable))


def line_chart(name: str, numbers: Sequence[float], unit: str) -> str:
    """Returns the numbers in their order as a line, with the range of each point as an area."""
    groups = list(_groups(numbers))
    low = min(group[0] for group in groups)
    high = max(group[2] for group in groups)

    def x(index: int) -> float:
        return _WIDTH * index / max(1, len(groups) - 1)

    def y(number: float) -> float:
        share = (number - low) / (high - low) if math.isfinite(high - low) and high > low else 0.5
        return _HEIGHT * (1 - share)

    line = " ".join(f"{x(i):.1f},{y(mean):.1f}" for i, (_, mean, _) in enumerate(groups))
    upper = [f"{x(i):.1f},{y(top):.1f}" for i, (_, _, top) in enumerate(groups)]
    lower = [f"{x(i):.1f},{y(bottom):.1f}" for i, (bottom, _, _) in enumerate(groups)]
    area = " ".join(upper + lower[::-1])
    caption = f"{text(name)}: {len(numbers):,} from {shown(low)} to {shown(high)} {unit}"
    return (
        f'<figure class="line"><figcaption>{caption}</figcaption>'
        f'<svg viewBox="0 -4 {_WIDTH} {_HEIGHT + 8}" role="img">'
        f'<polygon points="{area}"/><polyline points="{line}"/></svg></figure>'
    )


def bar_chart(rows: Sequence[tuple[str, float, str]]) -> str:
    """Returns a bar for each name, number and caption; the longest is the largest number."""
    largest = max((number for _, number, _ in rows), default=0.0) or 1.0
    room = _WIDTH - _LABEL_WIDTH
    parts = []
    for index, (name, number, caption) in enumerate(rows):
        top = index * _LANE_HEIGHT
        width = max(0.0, room * number / largest)
        parts.append(
            f"<g><title>{text(name, 500)}: {text(caption)}</title>{_lane_label(name, top)}"
            f'<rect x="{_LABEL_WIDTH}" y="{top + 3}" width="{width:.1f}" height="16"/>'
            f'<text x="{_LABEL_WIDTH + 6}" y="{top + 15}">{text(caption)}</text></g>'
        )
    return _lanes("bars", len(rows), parts)


def timeline(spans: Mapping[str, Sequence[Span]]) -> str:
    """Returns the latest spans on one time axis, with a lane for each name."""
    latest = sorted(
        ((span, name) for name, group in spans.items() for span in group),
        key=lambda item: item[0].end,
    )[-MAX_SPANS:]
    if not latest:
        return ""
    start = min(span.start for span, _ in latest)
    length = max(1, latest[-1][0].end - start)
    room = _WIDTH - _LABEL_WIDTH
    names = list(dict.fromkeys(name for span, name in sorted(latest)))
    parts = [_lane_label(name, index * _LANE_HEIGHT) for index, name in enumerate(names)]
    for span, name in latest:
        left = _LABEL_WIDTH + room * (span.start - start) / length
        width = max(0.5, room * (span.end - span.start) / length)
        caption = f"{text(name)}: {shown((span.end - span.start) / 1e6)} ms"
        parts.append(
            f'<rect x="{left:.2f}" y="{names.index(name) * _LANE_HEIGHT + 3}"'
            f' width="{width:.2f}" height="16"><title>{caption}, at'
            f" {shown((span.start - start) / 1e6)} ms, thread {span.thread}</title></rect>"
        )
    return _lanes("timeline", len(names), parts)


def change_chart(rows: Sequence[tuple[str, float, float | None, float | None]]) -> str:
    """Returns the changes in percent as bars from a middle line, with their intervals."""
    ends = [abs(end) for row in rows for end in row[1:] if end is not None]
    largest = max(ends, default=0.0) or 1.0
    middle = _LABEL_WIDTH + (_WIDTH - _LABEL_WIDTH) / 2
    scale = (_WIDTH - _LABEL_WIDTH) / 2 / largest
    parts = []
    for index, (name, percent, low, high) in enumerate(rows):
        top = index * _LANE_HEIGHT
        left, width = middle + scale * min(0.0, percent), scale * abs(percent)
        kind = "less" if percent < 0 else "more"
        whisker = ""
        if low is not None and high is not None:
            whisker = (
                f'<line x1="{middle + scale * low:.1f}" x2="{middle + scale * high:.1f}"'
                f' y1="{top + 11}" y2="{top + 11}"/>'
            )
        parts.append(
            f"<g><title>{text(name, 500)}: {percent:+.1f} %</title>{_lane_label(name, top)}"
            f'<rect class="{kind}" x="{left:.1f}" y="{top + 3}" width="{width:.1f}" height="16"/>'
            f"{whisker}</g>"
        )
    return _lanes("changes", len(rows), parts)


def _groups(numbers: Sequence[float]) -> Iterator[tuple[float, float, float]]:
    """Yields minimum, mean and maximum of each group of neighbouring numbers."""
    count = min(MAX_POINTS, len(numbers))
    for index in range(count):
        group = numbers[index * len(numbers) // count : (index + 1) * len(numbers) // count]
        yield min(group), sum(number / len(group) for number in group), max(group)


def _lane_label(name: str, top: int) -> str:
    return f'<text class="label" x="{_LABEL_WIDTH - 8}" y="{top + 15}">{text(name, 26)}</text>'


def _lanes(kind: str, count: int, parts: Sequence[str]) -> str:
    size = f"0 0 {_WIDTH} {max(1, count) * _LANE_HEIGHT}"
    return f'<svg class="{kind}" viewBox="{size}" role="img">{"".join(parts)}</svg>'
