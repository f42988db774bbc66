"""torch.profiler for one window: its switches, its start and stop, and the hand-over of its trace.

The trace is a file beside the spool of this process; the collector of the run aligns its clock,
merges its events with what marey has recorded itself, and removes it. The profiler of the program
has precedence: while it runs no window begins, and a window ends when it starts.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import _native
from ._names import KIND_SCOPE, LOSS_TORCH_WINDOWS, WINDOW_ANCHOR
from ._torch_patches import replace
from ._warning import warn


class Switches(NamedTuple):
    """Switches of torch.profiler for a window."""

    record_shapes: bool = True
    profile_memory: bool = True
    with_stack: bool = True
    with_flops: bool = False
    with_modules: bool = False
    record_concrete_inputs: bool = True
    sync_events: bool = False
    all_threads: bool = False

    def check(self) -> None:
        """Raises `ValueError` for switches that do not work together."""
        if self.with_flops and not self.record_shapes:
            raise ValueError("with_flops=True needs record_shapes=True: FLOPs follow from shapes")
        if self.all_threads and self.profile_memory:
            raise ValueError(
                "all_threads=True needs profile_memory=False: PyTorch reports allocations only to "
                "a profiler of the thread that allocates"
            )


class Unavailable(Exception):
    """Why no window can begin now."""


class Recording:
    """One window, on the thread that starts it."""

    def __init__(self, torch: Any, switches: Switches) -> None:
        self._torch = torch
        self._switches = switches
        self._profiler: Any = None
        self._folder = ""
        self._thread = 0
        self._number = 0
        self._undo = contextlib.ExitStack()

    def prepare(self) -> None:
        """Sets up the profiler, which may take a second the first time.

        Raises:
            Unavailable: Another profiler is running, no session records a trace, or this PyTorch
                lacks a switch.
        """
        self._folder = _spool_folder()
        if _are_others_running(self._torch):
            raise Unavailable("another torch.profiler is running")
        self._profiler = _create(self._torch, self._switches)
        with _own_calls(), _quiet(), _variable(*_NO_LOG):
            self._profiler.prepare_trace()

    @staticmethod
    def can_prepare() -> bool:
        """Whether `prepare` may precede `start`: while marey has CUPTI, it would fail."""
        return _native.gpu_level()[0] != "cupti"

    def start(self) -> None:
        """Begins the window, after `prepare` if that was not called. Raises the errors of both."""
        if _are_others_running(self._torch):
            raise Unavailable("another torch.profiler is running")
        with contextlib.ExitStack() as undo:
            # Both record devices by CUPTI, which has one subscriber. torch.profiler becomes it when
            # it is first set up, and otherwise records no device in the life of the process.
            if _native.pause_gpu(True):
                undo.callback(_native.pause_gpu, False)
                undo.enter_context(_variable(*_GIVING_UP_CUPTI))
            if self._profiler is None:
                self.prepare()
            self._begin()
            self._undo.push(undo.pop_all())

    def _begin(self) -> None:
        self._thread = threading.get_ident()
        self._number = time.time_ns()  # unique also if an earlier process had this process id
        with contextlib.ExitStack() as undo:
            if _can_number_operators(self._torch):
                _native.number_operators(True)
                undo.callback(_native.number_operators, False)
            with _own_calls(), _quiet():
                self._profiler.start_trace()
            self._undo.push(undo.pop_all())
        self._enter_anchors()

    def stop(self) -> None:
        """Ends the window and writes its trace.

        Raises:
            RuntimeError: This is not the thread that has started the window.
            OSError: The trace cannot be written.
        """
        if threading.get_ident() != self._thread:
            raise RuntimeError("a window ends on the thread that it began on")
        self._enter_anchors()
        _native.push(_WRITE_SCOPE, KIND_SCOPE)
        try:
            with self._undo, _own_calls(), _quiet():
                self._profiler.stop_trace()
            self._write()
        finally:
            _native.pop(_WRITE_SCOPE)

    def _enter_anchors(self) -> None:
        """Enters scopes that marey and the profiler both record, which aligns their clocks."""
        name = f"{WINDOW_ANCHOR} {self._number}"
        record = getattr(self._torch._C._profiler, "_RecordFunctionFast", None)
        record = record or self._torch.profiler.record_function
        for _ in range(_ANCHORS):
            _native.push(name, KIND_SCOPE)
            with record(name):
                pass
            _native.pop(name)

    def _write(self) -> None:
        path = os.path.join(self._folder, f"{os.getpid()}-{self._number}.window.json")
        temporary = f"{path}.part"
        try:
            with _own_calls(), _quiet():
                self._profiler.export_chrome_trace(temporary)
            if not self._switches.record_concrete_inputs:
                _remove_concrete_inputs(temporary)
            if self._switches.with_flops:
                _append(temporary, "marey_flops", _flops(self._profiler))
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(temporary)
            raise


def lose(reason: str) -> None:
    """Counts a window that is not recorded, and warns."""
    _native.count_losses(LOSS_TORCH_WINDOWS, 1)
    with contextlib.suppress(UserWarning):  # the program makes errors of warnings
        warn(f"a window of torch.profiler is not recorded: {reason}")


_WRITE_SCOPE = "marey: write window"
"""The scope of the time that the program waits for at the end of a window."""

_ANCHORS = 8
"""Anchors at each end of a window; the quickest one counts."""


def _create(torch: Any, switches: Switches) -> Any:
    options: dict[str, bool] = {}
    if switches.with_stack:
        options["verbose"] = True  # adds the call stack to each operator
    if switches.sync_events:
        options["enable_cuda_sync_events"] = True
    if switches.all_threads:
        options["profile_all_threads"] = True
    config = torch._C._profiler._ExperimentalConfig
    try:
        experimental_config = config(**options)
    except TypeError:
        unknown = next(name for name in options if not _accepts(config, name))
        switch = _SWITCH_OF_OPTION[unknown]
        raise Unavailable(f"PyTorch {torch.__version__} does not know {switch}") from None
    profiler = importlib.import_module("torch.profiler.profiler")
    return profiler._KinetoProfile(
        record_shapes=switches.record_shapes,
        profile_memory=switches.profile_memory,
        with_stack=switches.with_stack,
        with_flops=switches.with_flops,
        with_modules=switches.with_modules,
        experimental_config=experimental_config,
    )


_SWITCH_OF_OPTION = {
    "verbose": "with_stack",
    "enable_cuda_sync_events": "sync_events",
    "profile_all_threads": "all_threads",
}


def _accepts(config: Callable[..., Any], option: str) -> bool:
    try:
        config(**{option: True})
    except TypeError:
        return False
    return True


def _can_number_operators(torch: Any) -> bool:
    """Whether this PyTorch can be asked for record function ids."""
    from ._torch_operators import find_support

    version = torch.__version__, getattr(torch.version, "git_version", "")
    return find_support(*version).objection is None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the profiler's warnings out of the program's output."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Sets an environment variable in the block, unless the program has set it."""
    if name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name, None)


_NO_LOG = ("KINETO_LOG_LEVEL", "99")
"""Keeps the profiler's log out of the program's output, if the profiler is set up meanwhile."""

_GIVING_UP_CUPTI = ("TEARDOWN_CUPTI", "1")
"""Makes the profiler give up CUPTI after a window that begins and ends meanwhile."""


def _flops(profiler: Any) -> dict[int, int]:
    """Returns the FLOPs of operators by external correlation id."""
    events = profiler.profiler.kineto_results.events()
    return {event.correlation_id(): event.flops() for event in events if event.flops() > 0}


def _remove_concrete_inputs(path: str) -> None:
    """Removes the values of inputs from a trace. PyTorch's own switch has no effect in 2.15."""
    with open(path, "r+b") as file:
        content = _CONCRETE_INPUTS.sub(b"", file.read())
        file.seek(0)
        file.write(content)
        file.truncate()


_CONCRETE_INPUTS = re.compile(
    rb'"Concrete Inputs"\s*:\s*\[(?:\s*"(?:[^"\\]|\\.)*"\s*,?)*\s*\]\s*,?'
)
"""The member of an event, with the comma after it: another member always follows."""


def _append(path: str, key: str, value: object) -> None:
    """Adds a member to the object in a JSON file, without reading the file."""
    with open(path, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        tail_start = file.seek(max(0, end - 256))
        brace = file.read().rindex(b"}")
        file.seek(tail_start + brace)
        file.write(f", {json.dumps(key)}: {json.dumps(value)}}}".encode())
        file.truncate()


def _spool_folder() -> str:
    """Returns the folder of the spools of the run that this process records into."""
    for session in _native.sessions():
        run = _native.run_dir(session)
        if run is not None and _native.is_active():
            return os.path.join(run, "spool")
    raise Unavailable("no session records a trace; start one with data='trace'")


_running_others: weakref.WeakSet[Any] = weakref.WeakSet()
"""The profilers of the program that run, as far as they are watched: no window may disturb them."""


def _are_others_running(torch: Any) -> bool:
    """Whether a profiler of the program is prepared or running, or another tool's is."""
    are_known = any(getattr(it, "kineto_results", None) is None for it in _running_others)
    return are_known or bool(torch.autograd._profiler_enabled())


def watch_others(torch: Any, on_start: Callable[[], None]) -> Callable[[], None]:
    """Calls `on_start` before a profiler of the program starts; returns a function that ends it."""
    profile = torch.autograd.profiler.profile
    prepare, leave = profile._prepare_trace, profile.__exit__

    def watched_prepare(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_own_call.value:
            on_start()
            _running_others.add(self)
        return prepare(self, *args, **kwargs)

    def watched_leave(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return leave(self, *args, **kwargs)
        finally:
            _running_others.discard(self)

    undo = contextlib.ExitStack()
    undo.callback(replace(profile, "_prepare_trace", watched_prepare))
    undo.callback(replace(profile, "__exit__", watched_leave))
    return undo.close


class _OwnCall(threading.local):
    value = False


_is_own_call = _OwnCall()


@contextlib.contextmanager
def _own_calls() -> Iterator[None]:
    """Distinguishes calls of torch.profiler by marey from those of the program."""
    _is_own_call.value = True
    try:
        yield
    finally:
        _is_own_call.value = False
