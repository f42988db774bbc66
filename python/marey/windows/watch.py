"""Comparison of each window with those before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from .alert import Alert, Condition
from .metric_names import is_count
from .robust import MOST_VALUES, Baseline

__all__ = ["Watch"]


class Watch:
    """Conditions, and the windows that they compare.

    Args:
        conditions: Texts such as ``"step_time.p99>+20%"``.
        known: Names of the metrics.

    Raises:
        ValueError: A text is no condition, or no metric has its name.

    Attributes:
        metrics: Metrics of the conditions.
        medians: Medians that the last window was compared with; `None` if there were too few
            windows.
    """

    def __init__(self, conditions: Sequence[str], known: Sequence[str]) -> None:
        self._conditions = [Condition.parse(text, known) for text in conditions]
        self.metrics = tuple(dict.fromkeys(condition.metric for condition in self._conditions))
        self.medians: dict[str, float] | None = None
        self._history: deque[dict[str, float]] = deque(maxlen=MOST_VALUES)

    def judge(self, metrics: Mapping[str, float]) -> list[Alert]:
        """Returns the alerts of the next window."""
        history = list(self._history)
        baselines = {
            metric: Baseline.from_values(
                [window[metric] for window in history if metric in window],
                are_counts=is_count(metric),
            )
            for metric in self.metrics
        }
        known = {metric: line.median for metric, line in baselines.items() if line is not None}
        self.medians = known or None
        self._history.append({name: metrics[name] for name in self.metrics if name in metrics})
        judged = (
            condition.judge(metrics.get(condition.metric), baselines[condition.metric])
            for condition in self._conditions
        )
        return [alert for alert in judged if alert is not None]
