"""Conditions under which a window is an anomaly, and the alerts that they raise."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .metric_names import check_metric
from .robust import Baseline

__all__ = ["Alert", "Condition"]


@dataclass(frozen=True)
class Alert:
    """A metric of a window that differs from the windows before.

    Attributes:
        metric: Name of the metric.
        value: Its value in the window.
        baseline: Its median over the windows before.
        windows: Number of windows before.
    """

    metric: str
    value: float
    baseline: float
    windows: int

    def _repr_html_(self) -> str:
        from marey import _notebook

        return _notebook.dicts_html([vars(self)])

    def __str__(self) -> str:
        side = "above" if self.value > self.baseline else "below"
        amount = abs(self.value - self.baseline)
        change = f"{amount / abs(self.baseline):.0%}" if self.baseline else f"{amount:.4g}"
        is_wall_time = self.metric.startswith(("step_time", "scope("))
        is_wall_time = is_wall_time and not self.metric.endswith(".count")
        unit = " ms" if is_wall_time or self.metric.endswith("_ms") else ""
        return (
            f"{self.metric} is {self.value:.4g}{unit}, {change} {side} the median of the last "
            f"{self.windows} windows ({self.baseline:.4g}{unit})"
        )


@dataclass(frozen=True)
class Condition:
    """A metric, and the change of it that is an anomaly.

    Attributes:
        metric: Name of the metric.
        direction: 1 for more, -1 for less, 0 for either.
        percent: Change relative to the median of the windows before that is exceeded.
    """

    metric: str
    direction: int = 0
    percent: float = 0.0

    @staticmethod
    def parse(text: str, known: Iterable[str]) -> Condition:
        """Returns the condition that a text describes.

        Args:
            text: ``"step_time.p99>+20%"``, ``"requests_per_second<-30%"``, or a metric alone for
                any change that chance is unlikely to cause.
            known: Names of the metrics.

        Raises:
            ValueError: The text is no condition, or no metric has this name.
        """
        match = re.fullmatch(r"(.+?)\s*(?:([<>])\s*([+-])?(\d+(?:\.\d+)?)%)?", text.strip())
        if match is None:
            raise ValueError(f"{text!r} is no condition; write METRIC>+20% or METRIC<-20%")
        metric, comparison, sign, percent = match.groups()
        if comparison is None and re.search(r"[<>]", metric):
            raise ValueError(f"{text!r} is no condition; write METRIC>+20% or METRIC<-20%")
        check_metric(metric, known)
        if comparison is None:
            return Condition(metric)
        if sign != ("+" if comparison == ">" else "-"):
            meant = f"{metric}{comparison}{'+' if comparison == '>' else '-'}{percent}%"
            raise ValueError(f"{text!r} is no change in this direction; write {meant}")
        return Condition(metric, 1 if comparison == ">" else -1, float(percent))

    def judge(self, value: float | None, baseline: Baseline | None) -> Alert | None:
        """Returns an alert if a value differs from those before; `None` if not, or not known.

        The difference must exceed `percent` and be too large for chance (`robust`).
        """
        if value is None or baseline is None or not baseline.differs(value):
            return None
        change = value - baseline.median
        if change * self.direction < 0 or abs(change) <= abs(baseline.median) * self.percent / 100:
            return None
        return Alert(self.metric, value, baseline.median, baseline.values)
