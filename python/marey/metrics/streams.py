"""The use of streams: `StreamProfiler`, from the activities of a run."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import marey
from marey import _backend, _checks, _native, _session
from marey._flags import is_disabled

from .overlap import concurrency, overlap_nanos, union_nanos
from .report import text_table

if TYPE_CHECKING:
    from marey.run import Run

_SCOPE = "StreamProfiler"
"""The scope around a profiled block; a number makes it unique in the process."""

_Stream = tuple[int, int]
"""A device and a stream of it."""

_Interval = tuple[int, int]
"""Start and end in nanoseconds."""

# Launches of the block, on any thread; an activity without a launch counts by its own start. A run
# has the block once for each session that recorded it.
_ACTIVITIES = """
WITH block AS (
    SELECT min(start_nanos) AS start_nanos, max(end_nanos) AS end_nanos FROM spans
    WHERE name = '{scope}' AND kind = 'scope' AND pid = {pid}
)
SELECT DISTINCT a.device, a.stream, a.start_nanos, a.end_nanos, a.correlation_id
FROM gpu_activities AS a
CROSS JOIN block AS b
LEFT JOIN runtime_calls AS r
    ON r.process_id = a.process_id AND r.correlation_id = a.correlation_id
WHERE a.kind IN ('kernel', 'memcpy', 'memset') AND a.pid = {pid}
    AND coalesce(r.start_nanos, a.start_nanos) BETWEEN b.start_nanos AND b.end_nanos
"""

_GAPS = """
SELECT device, stream, start_nanos, end_nanos, cause, host_span FROM gpu_gaps WHERE pid = {pid}
"""

_numbers = itertools.count(1)


class StreamProfiler:
    """Profiles how the streams of a block work side by side.

    A trace session is started for the block, beside those that record already, and ends with it: so
    the end of the block waits for the devices. Within another trace session the data are in its
    run, as all traces of a process.

    Args:
        num_streams: Number of streams that the program means to use. Streams beside them are shown
            too; ``efficiency`` is relative to this number. If not given, the number that was used.
        name: Path of the run to keep, without its suffix. Without a name the run is removed when
            its figures are known, unless it is that of another session.

    Raises:
        TypeError: `num_streams` is not a whole number.
        ValueError: It is not positive.
    """

    def __init__(self, num_streams: int | None = None, name: str | None = None) -> None:
        if num_streams is not None:
            _checks.count("num_streams", num_streams, least=1)
        self.num_streams = num_streams
        self._name = name
        self._session: int | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._scope: _native.Scope | None = None
        self._figures: dict[str, Any] | None = None
        self._reason: str | None = "nothing was profiled yet: use `with profiler:` around a block"

    def __enter__(self) -> StreamProfiler:
        if self._scope is not None:
            raise RuntimeError("this StreamProfiler profiles a block already: make another one")
        self._figures, self._reason = None, "the block is still running"
        if not is_disabled():
            self._session = self._start_session()
        self._scope = _native.scope(f"{_SCOPE} {next(_numbers)}")
        self._scope.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        scope, self._scope = self._scope, None
        if scope is None:
            raise RuntimeError("this StreamProfiler profiles no block")
        scope.__exit__(*exception)
        session, self._session = self._session, None
        if session is None:
            self._reason = "MAREY_DISABLE is set"
            return
        self._reason = _backend.gpu_note() or "the block launched nothing"
        _session.settle()
        # The block must not fail if its figures cannot be had, as when it has ended the session.
        try:
            run_dir = _native.run_dir(session)
            _native.finalize(session)
            if run_dir is not None:
                with marey.open(run_dir) as run:
                    self._figures = _figures_of(run, scope.name, self.num_streams)
        except (OSError, ValueError, IndexError) as error:
            self._reason = f"the run of the block cannot be read: {error}"
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def get_stream_efficiency(self) -> dict[str, Any]:
        """Returns how busy the streams were with what the block launched.

        Returns:
            ``window_ms``: from the first start to the last end. ``efficiency``: busy time of all
            streams by ``num_streams`` times the window. ``overlap_percent``: the part of the time
            with any busy stream in which two or more were busy. ``mean_busy_streams``: the mean
            over that time. ``streams``: for each stream ``device``, ``stream``, ``activities``,
            ``busy_ms``, ``busy_percent`` of the window of its device, ``overlap_percent`` of its
            busy time, ``gap_ms`` and ``gaps``, the milliseconds between activities by cause (see
            `gpu_gaps`). ``pairs``: for two streams of a device the milliseconds in which both were
            busy.

        Raises:
            RuntimeError: No activity of a device was recorded; the message has the reason.
        """
        if self._figures is None:
            raise RuntimeError(f"no stream was profiled: {self._reason}")
        return self._figures

    def print_stream_efficiency(self) -> None:
        """Prints `summary`."""
        print(self.summary())

    def summary(self) -> str:
        """Returns a table of the streams, or the reason why there is none."""
        figures = self._figures
        if figures is None:
            return f"No stream was profiled: {self._reason}"
        rows = {
            f"{row['device']}:{row['stream']}": row | {"gaps": _gap_text(row["gaps"])}
            for row in figures["streams"]
        }
        columns = ("activities", "busy_ms", "busy_percent", "overlap_percent", "gap_ms")
        table = text_table("Stream", columns, rows)
        lines = [
            f"{figures['used_streams']} of {figures['num_streams']} streams used,"
            f" efficiency {100 * figures['efficiency']:.1f} %,"
            f" overlap {figures['overlap_percent']:.1f} %,"
            f" {figures['mean_busy_streams']:.2f} streams busy on average",
            table,
        ]
        lines += [f"Gaps of {name}: {row['gaps']}" for name, row in rows.items() if row["gaps"]]
        return "\n".join(lines)

    def _start_session(self) -> int:
        path = self._name
        if path is None:
            self._folder = tempfile.TemporaryDirectory(prefix="marey-streams-")
            path = os.path.join(self._folder.name, "streams")
        # Not by `marey.start`, which starts none under `marey run`.
        session = _native.start(
            path,
            python_context=False,
            output_format="marey",
            flush_phases=False,
            quiet_if_empty=True,
        )
        _backend.start_gpu(None, keeps_activities=True)
        return session

    def __repr__(self) -> str:
        return f"<marey.metrics.StreamProfiler: {self.summary().splitlines()[0]}>"

    def _repr_html_(self) -> str:
        from marey._notebook import dicts_html, table_html

        if self._figures is None:
            return table_html([self.summary()], [], 0)
        streams = self._figures["streams"]
        return dicts_html([row | {"gaps": _gap_text(row["gaps"])} for row in streams])


def _figures_of(run: Run, scope: str, num_streams: int | None) -> dict[str, Any] | None:
    """Returns the figures of what the block launched; `None` if that is nothing."""
    pid = os.getpid()
    busy: dict[_Stream, list[_Interval]] = defaultdict(list)
    for device, stream, start, end, _ in run.sql(_ACTIVITIES.format(pid=pid, scope=scope)):
        busy[device, stream].append((start, end))
    if not busy:
        return None
    gaps: dict[_Stream, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    windows = {
        stream: (min(intervals)[0], max(end for _, end in intervals))
        for stream, intervals in busy.items()
    }
    for device, stream, start, end, cause, host_span in run.sql(_GAPS.format(pid=pid)):
        first, last = windows.get((device, stream), (0, 0))
        if first <= start and end <= last:
            key = f"{cause}: {host_span}" if host_span is not None else cause
            gaps[device, stream][key] += end - start
    return _figures(dict(sorted(busy.items())), gaps, num_streams)


def _figures(
    busy: dict[_Stream, list[_Interval]],
    gaps: dict[_Stream, dict[str, int]],
    num_streams: int | None,
) -> dict[str, Any]:
    everything = [interval for intervals in busy.values() for interval in intervals]
    window = _window(everything)
    any_busy, several_busy, all_nanos = concurrency(list(busy.values()))
    count = len(busy) if num_streams is None else num_streams
    return {
        "num_streams": count,
        "used_streams": len(busy),
        "window_ms": window / 1e6,
        "efficiency": all_nanos / (count * window) if window else 0.0,
        "overlap_percent": _percent(several_busy, any_busy),
        "mean_busy_streams": all_nanos / any_busy if any_busy else 0.0,
        "streams": [
            _stream_figures(stream, intervals, busy, gaps.get(stream, {}))
            for stream, intervals in busy.items()
        ],
        "pairs": _pairs(busy),
    }


def _stream_figures(
    stream: _Stream,
    intervals: Sequence[_Interval],
    busy: dict[_Stream, list[_Interval]],
    gaps: dict[str, int],
) -> dict[str, Any]:
    others = [
        interval
        for other, group in busy.items()
        if other[0] == stream[0] and other != stream
        for interval in group
    ]
    nanos = union_nanos(intervals)
    return {
        "device": stream[0],
        "stream": stream[1],
        "activities": len(intervals),
        "busy_ms": nanos / 1e6,
        "busy_percent": _percent(nanos, _window([*intervals, *others])),
        "overlap_percent": _percent(overlap_nanos(intervals, others), nanos),
        "gap_ms": sum(gaps.values()) / 1e6,
        "gaps": {cause: gap / 1e6 for cause, gap in sorted(gaps.items(), key=lambda g: -g[1])},
    }


def _pairs(busy: dict[_Stream, list[_Interval]]) -> list[dict[str, Any]]:
    streams = sorted(busy)
    return [
        {
            "device": first[0],
            "streams": (first[1], second[1]),
            "overlap_ms": overlap_nanos(busy[first], busy[second]) / 1e6,
        }
        for index, first in enumerate(streams)
        for second in streams[index + 1 :]
        if first[0] == second[0]
    ]


def _window(intervals: Sequence[_Interval]) -> int:
    return max(end for _, end in intervals) - min(start for start, _ in intervals)


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _gap_text(gaps: dict[str, float]) -> str:
    return ", ".join(f"{millis:.3f} ms {cause}" for cause, millis in gaps.items())
