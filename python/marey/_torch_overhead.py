"""Measurement of what recording costs, against steps without any hook, and a limit for this cost.

Training steps alternate by blocks between recorded ones and a baseline: sessions paused, hooks
removed, callbacks for operators removed. One hook remains in both, the one that ends steps. Each
block of the baseline is compared with as many recorded steps directly before and after it, so that
a drift of the machine cancels out. The first step after each switch counts for neither side.

The interval is that of Student's t for the mean of paired differences (Student, "The Probable Error
of a Mean", 1908), here of the logarithms of the times. `docs/pytorch.md` has the formulas.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
import weakref
from collections.abc import Callable
from typing import NamedTuple

from . import _native
from ._forks import follow
from ._student import NORMAL, student_t
from .profile import activate, deactivate

BASELINE_STEPS = 5
"""Steps of a block without recording."""

RECORDED_STEPS = 95
"""Recorded steps between two such blocks, once the cost is known."""

FIRST_RECORDED_STEPS = 10
"""Recorded steps between two such blocks, until the cost is known."""

MIN_BLOCKS = 6
"""Blocks without recording below which the cost is unknown."""

MAX_FIRST_BLOCKS = 4 * MIN_BLOCKS
"""Blocks after which the cost counts as known even if it may be above a target."""

MAX_ERROR = 0.025
"""Probability that a detail is turned off whose cost is the target."""

LATE_FACTOR = 10
"""A baseline that lasts this many times longer than expected is ended by a timer."""

MIN_LATE_S = 1.0
"""Shortest time after which the timer ends a baseline."""


class Cost(NamedTuple):
    """The time that recording adds to a step, in percent of the step without it."""

    percent: float
    low_percent: float
    """The lower end of the 95 % confidence interval."""
    high_percent: float
    """The upper end."""

    @classmethod
    def estimate(cls, log_ratios: list[float], normal: float = NORMAL) -> Cost | None:
        """Returns the cost from the logarithm of recorded by baseline time of each block.

        Returns `None` for fewer than `MIN_BLOCKS` blocks. The interval ends at the percentile that
        `normal` is in the normal distribution.
        """
        count = len(log_ratios)
        if count < MIN_BLOCKS:
            return None
        import statistics  # imports modules that a program which is not measured need not have

        mean = statistics.fmean(log_ratios)
        margin = student_t(count - 1, normal) * statistics.stdev(log_ratios) / math.sqrt(count)
        return cls(*(100 * math.expm1(value) for value in (mean, mean - margin, mean + margin)))

    def __str__(self) -> str:
        low, high = f"{self.low_percent:.1f}", f"{self.high_percent:.1f}"
        return f"{self.percent:.1f} % (95 % interval {low} to {high} %)"


def is_above(target_percent: float, log_ratios: list[float]) -> bool:
    """Whether the cost is above a target, so certainly that something is to be turned off for it.

    The question is asked after `MIN_BLOCKS` blocks, twice as many, and so on, each time with half
    the probability of a wrong yes, so that this probability is 2.5 % for a whole program.
    """
    doublings, others = divmod(len(log_ratios), MIN_BLOCKS)
    if doublings.bit_count() != 1 or others:
        return False
    import statistics  # as above

    normal = statistics.NormalDist().inv_cdf(1 - MAX_ERROR / (2 * doublings))
    cost = Cost.estimate(log_ratios, normal)
    return cost is not None and cost.low_percent > target_percent


def parse_target(text: str) -> float:
    """Returns the percent of a text such as ``"2%"``.

    Raises:
        ValueError: The text is not a positive number with a percent sign.
    """
    number = text.strip().removesuffix("%")
    with contextlib.suppress(ValueError):
        percent = float(number)
        if text.strip().endswith("%") and 0 < percent < math.inf:
            return percent
    raise ValueError(f"overhead target {text!r} must be a percentage such as '2%'")


class Hooks(NamedTuple):
    """Functions of `marey.torch` by which the measurement switches its hooks."""

    remove: Callable[[], None]
    """Removes all hooks except the one that ends steps."""
    install: Callable[[], None]
    """Installs them again."""
    details: Callable[[], list[str]]
    """Returns the names of what is recorded."""
    drop_detail: Callable[[], str | None]
    """Ends the recording of the most expensive detail; returns its name, `None` without one."""


class Meter:
    """Alternates steps with and without recording, and notes the difference in the run."""

    def __init__(self, hooks: Hooks, target_percent: float | None) -> None:
        self._hooks = hooks
        self._target_percent = target_percent
        self._optimizer: weakref.ref[object] | None = None
        self._other_steps = 0
        self._lock = threading.RLock()
        self.is_baseline = False
        self._sessions: list[int] = []
        self._timer: threading.Timer | None = None
        self._last_nanos: int | None = None
        self._steps = 0  # of the block so far
        self._total_steps = 0
        self._before: list[int] = []  # times of recorded steps since the last baseline
        self._baseline: list[int] = []  # times of the steps of the last baseline
        self._recorded_before: list[int] = []  # times of recorded steps before it
        self._log_ratios: list[float] = []
        self._cost: Cost | None = None
        self._recorded_steps = FIRST_RECORDED_STEPS  # until the next baseline
        self._dropped: list[str] = []
        self._is_at_bottom = False
        follow(self, Meter.resume_in_child)
        self.publish()

    def end_step(self, optimizer: object) -> None:
        """Takes the time of a step, and switches at the end of a block.

        Called when an optimizer has stepped, after the step of marey has ended.
        """
        now_nanos = time.perf_counter_ns()
        with self._lock:
            if self._ends_step(optimizer):
                self._add_step(now_nanos)

    def set_target(self, percent: float) -> None:
        """Replaces the target, from the next comparison on."""
        with self._lock:
            self._target_percent = percent
            self.publish()

    def stop(self) -> None:
        """Resumes recording, if a baseline is in progress."""
        with self._lock:
            if self.is_baseline:
                self._record()

    def resume_in_child(self) -> None:
        """Resumes recording in a forked child, which has no timer and perhaps no steps."""
        self._lock = threading.RLock()
        self._timer = None
        self.stop()

    def _ends_step(self, optimizer: object) -> bool:
        """Whether a step ends here: one optimizer of a program that has several marks the steps."""
        known = None if self._optimizer is None else self._optimizer()
        if known is optimizer:
            self._other_steps = 0
            return True
        self._other_steps += 1
        if known is not None and self._other_steps <= LATE_FACTOR * BASELINE_STEPS:
            return False
        self._optimizer = weakref.ref(optimizer)
        self._other_steps = 0
        self._restart()
        return True

    def _add_step(self, now_nanos: int) -> None:
        self._total_steps += 1
        self._steps += 1
        if self.is_baseline:
            _native.count_losses("baseline_steps", 1)
        elif not _native.is_active():
            self._restart()
            return
        if self._last_nanos is not None:
            (self._baseline if self.is_baseline else self._before).append(
                now_nanos - self._last_nanos
            )
        self._last_nanos = now_nanos
        if self.is_baseline:
            if self._steps == BASELINE_STEPS:
                self._record()
                _native.step_end()
        else:
            self._add_recorded_step()

    def _add_recorded_step(self) -> None:
        """Completes the comparison of the last baseline, and begins the next one in its time."""
        size = BASELINE_STEPS - 1
        if self._baseline and len(self._before) == size:
            self._compare([*self._recorded_before, *self._before])
        if self._steps >= self._recorded_steps:
            self._recorded_before = self._before[-size:]
            self._pause()

    def _compare(self, recorded: list[int]) -> None:
        ratio = _median(recorded) / _median(self._baseline)
        self._baseline = []
        self._log_ratios.append(math.log(ratio))
        self._cost = cost = Cost.estimate(self._log_ratios)
        target = self._target_percent
        if target is not None and is_above(target, self._log_ratios):
            self._back_off(f"{cost} is above the target of {target:g} %")
        self._recorded_steps = RECORDED_STEPS if self._is_known() else FIRST_RECORDED_STEPS
        self.publish()

    def _is_known(self) -> bool:
        cost, target = self._cost, self._target_percent
        if cost is None:
            return False
        may_be_above = target is not None and cost.high_percent > target
        return not may_be_above or len(self._log_ratios) >= MAX_FIRST_BLOCKS

    def _back_off(self, reason: str) -> None:
        """Drops a detail, and begins to measure what the others cost."""
        detail = self._hooks.drop_detail()
        if detail is not None:
            self._dropped.append(f"{detail} off after {self._total_steps} steps: {reason}")
            self._log_ratios.clear()
            self._cost = None
            self._restart()
        elif not self._is_at_bottom:
            self._is_at_bottom = True
            self._dropped.append(f"nothing is left to turn off: {reason}")
        _native.note("overhead_backoff", "; ".join(self._dropped))

    def _restart(self) -> None:
        """Forgets the steps of an unfinished comparison."""
        if self.is_baseline:
            self._record()
        self._steps = 0
        self._last_nanos = None
        self._before, self._baseline, self._recorded_before = [], [], []

    def _pause(self) -> None:
        """Begins a baseline."""
        self.is_baseline = True
        self._begin_block()
        expected_s = _median(self._recorded_before) / 1e9 * BASELINE_STEPS
        self._timer = threading.Timer(max(MIN_LATE_S, LATE_FACTOR * expected_s), self._end_late)
        self._timer.daemon = True
        self._timer.start()
        self._hooks.remove()
        self._sessions = _native.active_sessions()
        for session in self._sessions:
            with contextlib.suppress(IndexError):  # another thread has just ended the session
                deactivate(session)
        # `step_end` has opened a step while the sessions recorded; no session sees the one that
        # this opens.
        _native.step_end()

    def _record(self) -> None:
        """Ends a baseline. The caller opens a step."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for session in self._sessions:
            with contextlib.suppress(IndexError):
                activate(session)
        self._hooks.install()
        self.is_baseline = False
        self._begin_block()

    def _begin_block(self) -> None:
        self._steps = 0
        self._last_nanos = None
        if self.is_baseline:
            self._baseline = []
        else:
            self._before = []

    def _end_late(self) -> None:
        """Ends a baseline whose steps do not end, for example because training is over."""
        with self._lock:
            if self.is_baseline:
                self._restart()

    def statement(self) -> str:
        """Returns the result so far as a sentence."""
        blocks = len(self._log_ratios)
        plural = "" if blocks == 1 else "s"
        basis = f"{blocks} block{plural} of {BASELINE_STEPS} steps without marey"
        if self._cost is None:
            statement = f"unknown: {basis}, at least {MIN_BLOCKS} are needed"
        else:
            statement = f"{self._cost}, from {basis}"
        if _native.gpu_level()[0] == "cupti":
            statement += "; CUPTI's own cost is in both and not counted"
        return statement

    def publish(self) -> None:
        """Writes the result so far to profiles and runs."""
        cost = self._cost
        notes = {
            "overhead": self.statement(),
            "overhead_percent": "" if cost is None else f"{cost.percent:.3f}",
            "overhead_low_percent": "" if cost is None else f"{cost.low_percent:.3f}",
            "overhead_high_percent": "" if cost is None else f"{cost.high_percent:.3f}",
            "overhead_blocks": str(len(self._log_ratios)),
            "overhead_block_steps": str(BASELINE_STEPS),
            "overhead_steps": str(self._total_steps),
            "overhead_detail": ", ".join(self._hooks.details()),
        }
        if self._target_percent is not None:
            notes["overhead_target_percent"] = f"{self._target_percent:g}"
        for key, text in notes.items():
            _native.note(key, text)


def note_unmeasured() -> None:
    """Notes in profiles and runs that nobody measures what recording costs."""
    _native.note("overhead", "unknown: not measured; --overhead measures it")


def _median(nanos: list[int]) -> float:
    import statistics  # as above

    return statistics.median(nanos)
