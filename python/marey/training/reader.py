"""Reading the contents of a profile from a run, by SQL.

A run in which only some epochs were recorded (`loop`) is extrapolated to all: each span counts as
often as the epoch that it belongs to stands for (`sampling.weights`). Operators, which only some of
these have, count as often as there are epochs for each with operators.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from marey.run import Run

from .bottleneck import BottleneckType, MemoryPoint
from .config import ProfilerConfig
from .data import Epoch, Finding, Operation, ProfileData
from .gpu_regions import METRIC as GPU_TIME
from .loop import EPOCH, EPOCH_METRIC, OPERATORS_METRIC, PROBABILITY_METRIC
from .recording import NOTE
from .sampling import counted, weights

MAX_SINGLE_TIMES = 1_000_000
"""Spans up to which a region has the time of each of its calls."""

LEAST_PERCENT = 1.0
"""The percent of the time from which on a finding is part of a profile."""

_RULES = {kind.value for kind in BottleneckType} - {BottleneckType.MEMORY_LEAK.value}
"""The rules that bottlenecks come from."""

_IN_ONE_RANK = f"pid = (SELECT min(pid) FROM counters WHERE name = '{EPOCH_METRIC}')"
"""The condition on rows of epochs in SQL: the ranks of a job have equal epochs."""

_NANOS_PER_MS = 1e6
_BYTES_PER_MB = 1e6


def read_run(run: Run) -> ProfileData:
    """Returns the contents of a run."""
    return _Reader(run).read()


class _GpuTimes(NamedTuple):
    """Times on GPUs in milliseconds, extrapolated to all epochs."""

    total: float
    by_name: dict[str, float]
    """With what the operations inside have launched."""


class _Node(NamedTuple):
    """A context node."""

    parent: int | None
    name: str
    kind: str
    is_in_operator: bool
    """Whether it is an operator or inside one, so that epochs without operators lack it."""
    calls: float
    total_nanos: float


class _Sums(NamedTuple):
    """The sums of a context node for all epochs, by the weights of epochs and of operators."""

    calls: float = 0.0
    total: float = 0.0
    operator_calls: float = 0.0
    operator_total: float = 0.0

    def of(self, *, is_in_operator: bool) -> tuple[float, float]:
        """Returns calls and total."""
        return self[2:] if is_in_operator else self[:2]


class _Reader:
    """Reads the contents of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._epoch_starts: list[int] = []
        self._weights: list[float] = []
        self._operator_weights: list[float] = []  # the same as the weights if empty
        self._tree: dict[int, _Node] = {}  # outer nodes first

    def read(self) -> ProfileData:
        config, total_epochs = self._note()
        epochs = self._epochs()
        total_epochs = max([total_epochs, *(epoch.number + 1 for epoch in epochs)])
        if epochs:
            operators = [epoch.has_operators for epoch in epochs]
            probabilities = counted([epoch.probability for epoch in epochs], operators)
            self._weights = weights(probabilities, total_epochs)
            if self._is_weighted() and any(operators):
                factor = total_epochs / sum(operators)
                self._operator_weights = [factor if has else 0.0 for has in operators]
        ((steps,),) = self._run.sql("SELECT count(*) FROM steps").rows()
        self._tree = self._read_tree()
        gpu_ms = self._gpu_ms()
        operations = self._operations(gpu_ms.by_name)
        return ProfileData(
            path=self._run.path,
            config=config,
            total_epochs=total_epochs if epochs else steps,
            epochs=epochs,
            steps=steps,
            operations=operations,
            region_times=self._region_times(),
            memory=self._memory(epochs),
            gpu_ms=gpu_ms.total,
            flops=self._flops() if config.with_flops else None,
            findings=self._findings(operations, total_epochs / len(epochs) if epochs else 1.0),
        )

    def _note(self) -> tuple[ProfilerConfig, int]:
        """Returns the settings, and the number of epochs at the end of the recording."""
        notes = self._run.sql(f"SELECT value FROM metadata WHERE key = '{NOTE}'").column("value")
        documents = [json.loads(json.loads(value)) for value in notes]
        if not documents:
            return ProfilerConfig(), 0
        last = max(documents, key=lambda document: int(document["epochs"]))
        return ProfilerConfig.from_json(last["config"]), int(last["epochs"])

    def _epochs(self) -> list[Epoch]:
        """Returns the recorded epochs, in the order of their ends."""
        numbers = self._values(EPOCH_METRIC)
        probabilities = self._values(PROBABILITY_METRIC)
        operators = self._values(OPERATORS_METRIC) or [(0, 0)] * len(numbers)  # of earlier versions
        spans = self._run.sql(
            "SELECT start_nanos, end_nanos FROM spans"
            f" WHERE name = '{EPOCH}' AND kind = 'scope' AND {_IN_ONE_RANK} ORDER BY start_nanos"
        ).rows()
        starts = [start for start, _ in spans]
        epochs = []
        for (time, number), (_, probability), (_, has_operators) in zip(
            numbers, probabilities, operators, strict=False
        ):
            position = bisect.bisect_right(starts, time) - 1
            is_timed = position >= 0 and time <= spans[position][1]
            start, end = spans[position] if is_timed else (time, time)
            duration_ms = (end - start) / _NANOS_PER_MS if is_timed else None
            epochs.append(Epoch(int(number), float(probability), duration_ms, bool(has_operators)))
            self._epoch_starts.append(start)
        return epochs

    def _values(self, name: str) -> list[tuple[Any, ...]]:
        """Returns times and values of a metric."""
        return self._run.sql(f"{self._values_of(name)} ORDER BY time_nanos").rows()

    def _values_of(self, name: str) -> str:
        """Returns the query of a metric of epochs."""
        return f"SELECT time_nanos, value FROM counters WHERE name = '{name}' AND {_IN_ONE_RANK}"

    def _read_tree(self) -> dict[int, _Node]:
        """Returns the context nodes, outer ones first."""
        tree: dict[int, _Node] = {}
        rows = self._run.sql(
            "SELECT context_id, parent_id, name, kind, count, total_nanos FROM flame ORDER BY depth"
        )
        for node, parent, name, kind, count, total_nanos in rows:
            outer = tree.get(parent)
            is_in_operator = kind == "operator" or (outer is not None and outer.is_in_operator)
            tree[node] = _Node(parent, name, kind, is_in_operator, count, total_nanos)
        return tree

    def _around(self, node: int | None) -> Iterator[tuple[int, _Node]]:
        """Yields a node and those around it, the innermost first."""
        while node is not None and (found := self._tree.get(node)) is not None:
            yield node, found
            node = found.parent

    def _weight(self, time: str, weights: Sequence[float]) -> str:
        """Returns the SQL of the weight of what happened at a time: 1 before the first epoch."""
        changes = []
        last = 1.0
        for start, weight in zip(self._epoch_starts, weights, strict=True):
            if weight != last:
                changes.append(f"WHEN {time} < {start} THEN {last!r}")
                last = weight
        return f"CASE {' '.join(changes)} ELSE {last!r} END" if changes else "1.0"

    def _weighted(self, source: str, time: str, value: str) -> dict[int | None, _Sums]:
        """Returns the sums of the rows of each context node for all epochs.

        Args:
            source: The rows in SQL, with ``context_id``.
            time: The column that decides on the epoch.
            value: The column that is summed.
        """
        operator_weights = self._operator_weights or self._weights
        rows = self._run.sql(f"""
            SELECT
                context_id,
                sum(weight), sum(weight * value),
                sum(operator_weight), sum(operator_weight * value)
            FROM (
                SELECT
                    context_id,
                    {value} AS value,
                    {self._weight(time, self._weights)} AS weight,
                    {self._weight(time, operator_weights)} AS operator_weight
                FROM {source}
            ) AS weighted
            GROUP BY context_id""")
        return {node: _Sums(*sums) for node, *sums in rows}

    def _operations(self, gpu_ms: dict[str, float]) -> list[Operation]:
        """Returns the sums of each name and kind over all context nodes."""
        weighted = (
            self._weighted("spans", "start_nanos", "duration_nanos")
            if self._is_weighted()
            else None
        )
        self_nanos: dict[int | None, float] = {}
        sums: dict[tuple[str, str], list[float]] = {}
        for node, (parent, name, kind, is_in_operator, count, total_nanos) in reversed(
            self._tree.items()  # inner nodes first
        ):
            if weighted is not None:
                count, total_nanos = weighted.get(node, _Sums()).of(is_in_operator=is_in_operator)
            # A step that did not end has no time, but what is in it has: then the node around it
            # counts that time as its own.
            own_nanos = self_nanos.get(node, 0.0) + total_nanos
            deficit_nanos = min(own_nanos, 0.0)
            self_nanos[parent] = self_nanos.get(parent, 0.0) - total_nanos + deficit_nanos
            values = (own_nanos - deficit_nanos, total_nanos, count)
            entry = sums.setdefault((name, kind), [0.0, 0.0, 0.0])
            sums[name, kind] = [a + b for a, b in zip(entry, values, strict=True)]
        operations = [
            Operation(
                name, kind, own / _NANOS_PER_MS, total / _NANOS_PER_MS, count, gpu_ms.get(name, 0.0)
            )
            for (name, kind), (own, total, count) in sums.items()
            if own or count
        ]
        return sorted(operations, key=lambda operation: (-operation.total_ms, operation.name))

    def _is_weighted(self) -> bool:
        return any(weight != 1 for weight in self._weights)

    def _gpu_ms(self) -> _GpuTimes:
        """Returns the GPU times: of kernels, copies and fills, else of the events of regions."""
        kinds = "('kernel', 'memcpy', 'memset')"
        activities = self._weighted(
            f"gpu_activities WHERE kind IN {kinds}", "start_nanos", "duration_nanos"
        )
        if activities:
            return self._times_of_activities(activities)
        return self._times_of_events(
            self._weighted(f"counters WHERE name = '{GPU_TIME}'", "time_nanos", "value")
        )

    def _times_of_activities(self, sums: dict[int | None, _Sums]) -> _GpuTimes:
        """Returns the times of what each operation and those inside it have launched."""
        total = 0.0
        by_name: dict[str, float] = {}
        for node, nanos in sums.items():
            total += nanos.total
            names: dict[str, float] = {}
            for _, outer in self._around(node):
                # Once for each name, although operations of one name may be inside each other.
                names[outer.name] = nanos.of(is_in_operator=outer.is_in_operator)[1]
            for name, value in names.items():
                by_name[name] = by_name.get(name, 0.0) + value / _NANOS_PER_MS
        return _GpuTimes(total / _NANOS_PER_MS, by_name)

    def _times_of_events(self, sums: dict[int | None, _Sums]) -> _GpuTimes:
        """Returns the times of regions between events; an outer region includes the inner ones."""
        total = 0.0
        by_name: dict[str, float] = {}
        for node, nanos in sums.items():
            (_, region), *around = self._around(node)
            outer_names = [outer.name for place, outer in around if place in sums]
            if not outer_names:
                total += nanos.total
            if region.name not in outer_names:
                by_name[region.name] = by_name.get(region.name, 0.0) + nanos.total / _NANOS_PER_MS
        return _GpuTimes(total / _NANOS_PER_MS, by_name)

    def _region_times(self) -> dict[str, list[float]]:
        ((spans,),) = self._run.sql("SELECT count(*) FROM spans").rows()
        if 0 < spans <= MAX_SINGLE_TIMES:
            query = """
                SELECT path, array_agg(duration_nanos ORDER BY start_nanos) FROM spans
                GROUP BY path ORDER BY path"""
            return {
                path: [nanos / _NANOS_PER_MS for nanos in times]
                for path, times in self._run.sql(query)
            }
        query = """
            SELECT path, sum(total_nanos) FROM flame
            WHERE count > 0 GROUP BY path ORDER BY path"""
        return {path: [nanos / _NANOS_PER_MS] for path, nanos in self._run.sql(query)}

    def _memory(self, epochs: list[Epoch]) -> list[MemoryPoint]:
        """Returns the last reading of each memory in each epoch, else at the end of each step."""
        memory = """
            CASE WHEN device IS NULL THEN device_type
                ELSE concat(device_type, ':', CAST(device AS VARCHAR)) END"""
        if not epochs:
            rows = self._run.sql(
                f"SELECT number, {memory}, allocated_bytes, peak_bytes FROM step_memory"
                " ORDER BY end_nanos"
            )
            return [_point(*row) for row in rows]
        rows = self._run.sql(f"""
            WITH marked AS (
                SELECT time_nanos, 1 AS mark, NULL AS memory, NULL AS allocated, NULL AS peak
                FROM ({self._values_of(EPOCH_METRIC)}) AS ends
                UNION ALL
                SELECT time_nanos, 0, {memory}, allocated_bytes, peak_bytes FROM memory_events
                WHERE action = 'reading'
            ),
            numbered AS (
                SELECT *, sum(mark) OVER (ORDER BY time_nanos, mark) AS position FROM marked
            )
            SELECT position, memory, last_value(allocated ORDER BY time_nanos), max(peak)
            FROM numbered WHERE mark = 0 AND position < {len(epochs)}
            GROUP BY position, memory ORDER BY position, memory""")
        return [_point(epochs[position].number, *rest) for position, *rest in rows]

    def _flops(self) -> float | None:
        """Returns the FLOP of all operators with shapes, each computation once.

        Operators call operators that compute the same: of both, the larger figure counts.
        """
        rows = self._run.sql("""
            SELECT path, sum(op_flops(name, args)) FROM spans
            WHERE kind = 'operator' AND args IS NOT NULL
            GROUP BY path HAVING sum(op_flops(name, args)) IS NOT NULL""").rows()
        if not rows:
            return None
        own = dict(rows)
        paths = {path[:end] for path in own for end in _ends(path)}
        inner = dict.fromkeys([*paths, ""], 0.0)
        for path in sorted(paths, key=lambda path: path.count("/"), reverse=True):
            inner[path.rpartition("/")[0]] += max(own.get(path, 0.0), inner[path])
        return inner[""]

    def _findings(self, operations: list[Operation], scale: float) -> list[Finding]:
        """Returns the findings of the rules, as percent of the time that was recorded.

        In a recording with epochs, shares of operations are those of their exclusive times.

        Args:
            operations: The operations of the run.
            scale: Number of epochs for each recorded one.
        """
        coverage = self._coverage() if scale > 1 else 1.0
        least = LEAST_PERCENT * coverage
        rows = self._run.findings(
            {
                "hot_operation.medium_percent": least,
                "cpu_gpu_sync.min_percent": least,
                "memory_bound.min_percent": least,
            }
        )
        divisors = dict(self._run.sql("SELECT process_id, divisor FROM step_summary").rows())
        times_ms = _times(operations) if self._epoch_starts else {}
        all_ms = sum(times_ms.values())
        names = ("rule", "subject", "impact_percent", "impact_nanos", "process_id", "hint")
        columns = (rows.column(name) for name in names)
        found: list[Finding] = []
        for rule, subject, percent, nanos, process, remedy in zip(*columns, strict=True):
            if rule not in _RULES:
                continue
            if rule == BottleneckType.HOT_OPERATION.value and subject in times_ms and all_ms:
                if any((each.rule, each.subject) == (rule, subject) for each in found):
                    continue  # of another process: the time of the first is that of all
                impact_ms = times_ms[subject]
                percent = 100 * impact_ms / all_ms
            else:
                impact_ms = nanos * divisors.get(process, 1) * scale / _NANOS_PER_MS
                percent /= coverage
            found.append(Finding(rule, subject, percent, impact_ms, remedy))
        return found

    def _coverage(self) -> float:
        """Returns the part of the rules' window that was recorded: the rest has no events."""
        ((recorded, window),) = self._run.sql(f"""
            SELECT
                (
                    SELECT sum(duration_nanos) FROM spans
                    WHERE name = '{EPOCH}' AND kind = 'scope' AND {_IN_ONE_RANK}
                ),
                (SELECT max(window_nanos) FROM step_summary)""").rows()
        return min(1.0, recorded / window) if recorded and window else 1.0


def _times(operations: list[Operation]) -> dict[str, float]:
    """Returns the exclusive time of each name in ms."""
    times: dict[str, float] = {}
    for operation in operations:
        times[operation.name] = times.get(operation.name, 0.0) + operation.total_ms
    return times


def _ends(path: str) -> list[int]:
    """Returns where the path of each ancestor ends, and the path itself."""
    return [*(place for place, letter in enumerate(path) if letter == "/"), len(path)]


def _point(number: int, memory: str, allocated: int, peak: int | None) -> MemoryPoint:
    peak_mb = None if peak is None else peak / _BYTES_PER_MB
    return MemoryPoint(number, memory, allocated / _BYTES_PER_MB, peak_mb)
