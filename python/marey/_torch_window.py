"""Windows: sections of a recording for which torch.profiler runs too.

Start reading at `window`, then `_Runner`. The plans are in `_torch_window_plans`, the profiler is
in `_torch_profiler`.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from . import _torch_profiler, _torch_scopes, _torch_window_plans, performance
from ._flags import is_disabled
from ._forks import follow
from ._torch_profiler import Recording, Switches, Unavailable
from ._torch_window_plans import Plan, Schedule
from ._warning import warn


class window:
    """Records everything that `torch.profiler` knows about some steps, into the same run.

    As a context manager, a window is the whole block, or what `steps` or `on` select in it:

        with marey.torch.window():
            train_step()

    As an object, it waits for its steps until they are over or the session ends:

        marey.torch.window(steps=3, wait=10, warmup=1).arm()

    The events land in the run of the trace session (``data="trace"``), on its clock. What marey has
    recorded itself stays one span and gets the profiler's arguments: record function id, input
    dimensions, types, strides and values, keyword arguments, call stack, forward thread, sequence
    number. A step ends with the optimizer's step, as the hooks of `enable` have it, which a window
    installs. At the end of a window the program waits until the trace is written, in a scope
    ``marey: write window``.

    A window is skipped, with a warning and counted as a loss (``torch_windows``), if no session
    records a trace or another `torch.profiler` is running. It ends early if the program starts one.

    Args:
        steps: Number of steps of a window. Without `steps` and `on`, the window is the block.
        wait: Steps before the window, in each cycle, as in `torch.profiler.schedule`.
        warmup: Steps after `wait` in which the profiler is set up.
        repeat: Number of cycles; 0 for as many as there are.
        on: The event that a window follows: ``"file:PATH"`` (the file appears or is written again),
            ``"SIGUSR2"`` (in the main thread's process; an earlier handler is called too), or
            ``"slow:1.5x"`` (a step that takes longer than 1.5 times the median of those before it).
            Checked after each step; at most 10 windows follow.
        record_shapes: Dimensions, types and strides of inputs.
        profile_memory: Allocations, as rows of `memory_events` with the context that made them.
        with_stack: Python calls, as spans, and the call stack of each operator.
        with_flops: FLOPs of operators by PyTorch's formulas, as the argument ``flops``. The end of
            the window then takes longer. The column `flops` of `traced_operators` has marey's own
            formulas without it.
        with_modules: Module hierarchy of TorchScript models. marey's own modules are always there.
        record_concrete_inputs: Values of scalar inputs; needs `record_shapes`.
        sync_events: Synchronisations of CUDA devices.
        all_threads: Operators of every thread, not only of the thread that trains and those of
            autograd. PyTorch then reports neither allocations nor keyword arguments.
        performance_events: Events that marey counts in each scope and operator of the window, as
            `marey.performance.enable` has them: metrics, not arguments, because PyTorch accepts
            such names and records nothing. They replace events that the program counts. If the
            machine does not count them, a warning states why.

    Raises:
        ValueError: Arguments that do not work together.
    """

    def __init__(
        self,
        *,
        steps: int | None = None,
        wait: int = 0,
        warmup: int = 0,
        repeat: int = 1,
        on: str | None = None,
        record_shapes: bool = True,
        profile_memory: bool = True,
        with_stack: bool = True,
        with_flops: bool = False,
        with_modules: bool = False,
        record_concrete_inputs: bool = True,
        sync_events: bool = False,
        all_threads: bool = False,
        performance_events: Sequence[str] = (),
    ) -> None:
        switches = Switches(
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            record_concrete_inputs=record_concrete_inputs,
            sync_events=sync_events,
            all_threads=all_threads,
        )
        self._runner = _Runner(_plan(steps, wait, warmup, repeat, on), switches, performance_events)

    def arm(self) -> window:
        """Waits for the steps of the window from now on; returns the window.

        Raises:
            ValueError: Neither `steps` nor `on` was given.
        """
        if not self._runner.has_plan:
            raise ValueError("a window without a block needs steps=… or on=…")
        self._arm()
        return self

    def disarm(self) -> None:
        """Ends an open window, and waits for no more steps. On the thread of the window."""
        self._runner.disarm()

    def __enter__(self) -> window:
        self._arm()
        return self

    def __exit__(self, *_: object) -> None:
        self.disarm()

    def _arm(self) -> None:
        from . import torch

        torch.enable()
        _torch_scopes.listen_to_steps(end_step, begin_step)
        self._runner.arm()


def arm(when: str) -> None:
    """Arms a window as `marey run --window` describes it. Raises `ValueError`."""
    _torch_scopes.listen_to_steps(end_step, begin_step)
    _Runner(_torch_window_plans.parse(when), Switches()).arm()


def _plan(steps: int | None, wait: int, warmup: int, repeat: int, on: str | None) -> Plan | None:
    if on is not None:
        if (wait, warmup, repeat) != (0, 0, 1):
            raise ValueError("on=… replaces wait, warmup and repeat")
        return _torch_window_plans.trigger(on, 1 if steps is None else steps)
    if steps is not None:
        return Schedule(steps=steps, wait=wait, warmup=warmup, repeat=repeat)
    if (wait, warmup, repeat) != (0, 0, 1):
        raise ValueError("wait, warmup and repeat need steps=…")
    return None


class _Runner:
    """Records the windows of one plan, until the plan ends or `disarm` is called.

    All methods but `disarm` are called on the thread that trains: the first one to end a step.
    """

    def __init__(
        self, plan: Plan | None, switches: Switches, performance_events: Sequence[str] = ()
    ) -> None:
        switches.check()
        self._plan = plan
        self._switches = switches
        self._performance_events = performance_events
        self._recording: Recording | None = None
        self._is_open = False
        self._starts_in_step = False
        self._step = 0
        self._thread: int | None = None
        self._watches_others = False
        self._undo = contextlib.ExitStack()
        follow(self, _Runner.forget)

    @property
    def has_plan(self) -> bool:
        """Whether a plan selects steps; without one, the window lasts until `disarm`."""
        return self._plan is not None

    def arm(self) -> None:
        """Begins to follow the plan; without a plan, begins a window."""
        if is_disabled():
            return
        _runners.append(self)
        self._undo.callback(_runners.remove, self)
        if self._plan is None:
            self._thread = threading.get_ident()
            self._start()
            return
        self._plan.arm()
        self._undo.callback(self._plan.disarm)
        action = self._plan.after_step(0)
        # PyTorch may not be imported yet.
        self._starts_in_step = action.starts

    def disarm(self) -> None:
        """Ends an open window, and follows the plan no longer."""
        self._stop()
        self._undo.close()
        self._watches_others = False

    def begin_step(self) -> None:
        """Begins a window that starts with the first step. Called often in a step."""
        if self._starts_in_step:
            self._starts_in_step = False
            self._thread = threading.get_ident()
            self._start()

    def end_step(self) -> None:
        """Follows the plan from one step to the next."""
        if self._thread is None:
            self._thread = threading.get_ident()
        if self._thread != threading.get_ident() or self._plan is None:
            return
        self._torch()  # watches the program's profilers long before a window begins
        self._step += 1
        action = self._plan.after_step(self._step)
        if action.stops:
            self._stop()
        if action.prepares:
            self._prepare()
        if action.starts:
            self._start()
        if action.is_done:
            self.disarm()

    def yield_to_program(self) -> None:
        """Ends an open window early, because the program starts torch.profiler."""
        if self._is_open:
            self._stop()
        elif self._recording is not None:
            self._recording = None
            _torch_profiler.lose("the program has started torch.profiler")

    def forget(self) -> None:
        """Drops an open window, in a forked child, where the profiler does not run."""
        self._recording, self._is_open = None, False

    def _prepare(self) -> None:
        if self._recording is None and Recording.can_prepare():
            with self._failures_counted():
                recording = Recording(self._torch(), self._switches)
                recording.prepare()
                self._recording = recording

    def _start(self) -> None:
        if self._is_open:
            return
        with self._failures_counted():
            recording = self._recording or Recording(self._torch(), self._switches)
            self._recording = None
            recording.start()
            self._recording, self._is_open = recording, True
            self._count_events()

    def _count_events(self) -> None:
        if self._performance_events:
            try:
                performance.enable(self._performance_events)
            except (RuntimeError, ValueError) as error:
                warn(f"a window has no performance events: {error}")

    def _stop(self) -> None:
        recording, self._recording = self._recording, None
        is_open, self._is_open = self._is_open, False
        if is_open and self._performance_events:
            performance.disable()
        if recording is not None and is_open:
            with self._failures_counted():
                recording.stop()

    def _torch(self) -> Any:
        torch = importlib.import_module("torch")
        if not self._watches_others:
            self._watches_others = True
            self._undo.callback(_torch_profiler.watch_others(torch, self.yield_to_program))
        return torch

    @contextlib.contextmanager
    def _failures_counted(self) -> Iterator[None]:
        """Counts a failure as a lost window; the program goes on."""
        try:
            yield
        except Unavailable as reason:
            _torch_profiler.lose(str(reason))
        except Exception as error:  # of PyTorch, whose private parts differ by version
            _torch_profiler.lose(repr(error))


_runners: list[_Runner] = []
"""The armed windows."""


def begin_step() -> None:
    """Called when a step begins, and perhaps again during the step."""
    for runner in tuple(_runners):
        runner.begin_step()


def end_step() -> None:
    """Called when a step has ended."""
    for runner in tuple(_runners):
        runner.end_step()


def finish() -> None:
    """Ends all windows, before the session that they are recorded into."""
    for runner in tuple(_runners):
        runner.disarm()
