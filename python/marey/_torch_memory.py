"""Readings of memory at the hooks of PyTorch: of each device in use, and of the process.

A reading before a module's scope is entered, and one before it is left, so that what a memory has
grown by in between counts for the scope in which it grew (`_native.Memory`). Steps are read in more
detail than modules: new devices and the peak of the process are looked for there alone.

Start reading at `start`, then `_Readings`.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from . import _native, _session, _torch_scopes
from ._torch_snapshot import MAX_HISTORY, Observer, ScopeHistory

UNKNOWN = -1
"""Stands for a number of bytes that a memory does not tell."""


class Allocator(NamedTuple):
    """The caching allocator of one kind of device, as PyTorch gives access to it."""

    device_type: str
    """The name of the kind, such as ``cuda``."""

    is_initialized: Callable[[], bool]
    """Whether the program has used it; until then, no other function is called."""

    device_count: Callable[[], int]

    counters: Callable[[int], Mapping[str, Any]]
    """Returns all counters of a device at once, nested: ``allocated_bytes``, ``all``, ``peak``."""

    keeps_history: Callable[[], bool] = lambda: False
    """Whether it keeps a history of its allocations, as the program may ask it to."""


def find_allocator(torch: Any) -> Allocator | None:
    """Returns the allocator of the devices that this build of PyTorch supports, if any.

    The one place at which devices come in: a test without a device replaces this function.
    """
    for device_type in ("cuda", "xpu"):
        counters = getattr(torch._C, f"_{device_type}_memoryStats", None)
        if counters is not None:
            module = getattr(torch, device_type)
            keeps_history = getattr(torch._C, f"_{device_type}_isHistoryEnabled", lambda: False)
            return Allocator(
                device_type, module.is_initialized, module.device_count, counters, keeps_history
            )
    counters = getattr(torch._C, "_accelerator_getDeviceStats", None)
    accelerator = getattr(torch, "accelerator", None)
    device = accelerator.current_accelerator() if accelerator else None
    if counters is None or accelerator is None or device is None:
        return None
    is_initialized = torch._C._accelerator_isAllocatorInitialized
    return Allocator(device.type, is_initialized, accelerator.device_count, counters)


class _Readings:
    """The memories that are read."""

    def __init__(self, torch: Any, open_scopes: Callable[[], tuple[str, ...]]) -> None:
        self._host = _native.Memory(_native.HOST_MEMORY)
        self._allocator = find_allocator(torch)
        self._devices: dict[int, _native.Memory] = {}
        self._open_scopes = open_scopes
        self._history: deque[tuple[float, tuple[str, ...]]] = deque(maxlen=MAX_HISTORY)

    def read(self) -> None:
        """Records what is allocated and reserved now, at the innermost scope."""
        resident = _native.resident_bytes()
        if resident is not None:
            self._host.record(resident, UNKNOWN, UNKNOWN)
        if self._allocator is not None and self._devices:
            self._read_devices(self._allocator)

    def read_step(self) -> None:
        """Does the same with the peak of the process, and of devices that are new."""
        resident = _native.resident_bytes()
        # After the size, so that it is not below it.
        peak = _native.peak_resident_bytes()
        if resident is not None:
            self._host.record(resident, UNKNOWN if peak is None else peak, UNKNOWN)
        if self._allocator is not None:
            self._find_devices(self._allocator)
            self._read_devices(self._allocator)

    def _find_devices(self, allocator: Allocator) -> None:
        """Adds the devices that have had memory since the last step."""
        if not allocator.is_initialized():
            return
        for device in range(allocator.device_count()):
            if device not in self._devices and _totals(allocator.counters(device))[1]:
                memory = _native.Memory(f"{allocator.device_type}:{device}")
                # A new dict, because another thread may be reading this one.
                self._devices = {**self._devices, device: memory}

    def _read_devices(self, allocator: Allocator) -> None:
        if not allocator.is_initialized():
            return  # in a forked child, which has the counters of its parent
        for device, memory in self._devices.items():
            memory.record(*_totals(allocator.counters(device)))
        if allocator.keeps_history():
            self._history.append((time.time_ns() / 1e3, self._open_scopes()))

    def scopes(self) -> ScopeHistory:
        """Returns which scopes were open, as far as the allocator's history may go back."""
        return [*self._history, (math.inf, self._open_scopes())]

    def lose_devices(self) -> None:
        """Ends the readings of devices."""
        self._allocator = None


def _totals(counters: Mapping[str, Any]) -> tuple[int, int, int]:
    """Returns the allocated bytes, their peak and the reserved bytes."""
    allocated = counters["allocated_bytes"]["all"]
    return allocated["current"], allocated["peak"], counters["reserved_bytes"]["all"]["current"]


def start(
    torch: Any,
    open_scopes: Callable[[], tuple[str, ...]],
    models: Callable[[], Iterable[Any]],
) -> Callable[[], None]:
    """Begins the readings of memory; returns a function that ends them.

    The caller reads it at modules, with `at_module`, and with `read_step` before and after an
    optimizer step and after backward.

    Args:
        torch: The imported PyTorch.
        open_scopes: Returns the names of the scopes that are open on this thread, outermost first.
        models: Returns the models whose parameters have names.
    """
    global _readings
    readings = _readings = _Readings(torch, open_scopes)
    _observe_out_of_memory(torch, models)

    def stop() -> None:
        global _readings
        if _readings is readings:
            _readings = None

    return stop


def read_at_optimizers(torch: Any) -> Callable[[], None]:
    """Calls `read_step` before each optimizer step; returns a function that ends it."""
    _torch_scopes.configure(torch)
    # `torch.optim` has no attribute for this submodule.
    optimizers = importlib.import_module("torch.optim.optimizer")
    end: Callable[[], None] = optimizers.register_optimizer_step_pre_hook(_at_optimizer).remove
    return end


def scopes() -> ScopeHistory:
    """Returns the open scopes and, if PyTorch keeps a history of allocations, the earlier ones."""
    return [] if _readings is None else _readings.scopes()


def _observe_out_of_memory(torch: Any, models: Callable[[], Iterable[Any]]) -> None:
    """Attaches an observer to the allocator of CUDA once it exists; it cannot be detached."""
    global _is_observing
    attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if attach is None or _is_observing:
        return
    _is_observing = True
    observer = Observer(torch, scopes, models)

    def attach_once() -> None:
        # An exception here would reach the program's first call of CUDA.
        with contextlib.suppress(Exception):
            attach(observer)

    with contextlib.suppress(Exception):
        torch.cuda._lazy_call(attach_once)


def at_module(_module: object) -> None:
    """Reads memory before the scope of a module is entered or left."""
    _read(_Readings.read)


def _at_optimizer(*_: object) -> None:
    if not _torch_scopes.is_compiling():
        read_step()


def is_started() -> bool:
    """Whether `start` is in effect."""
    return _readings is not None


def read_step() -> None:
    """Reads memory at the boundary of a part of a step, if it is recorded."""
    _read(_Readings.read_step)


def _read(method: Callable[[_Readings], None]) -> None:
    readings = _readings
    if readings is None or not _native.is_active():
        return
    try:
        method(readings)
    except Exception as error:
        # An allocator that a program plugs in may have no counters.
        readings.lose_devices()
        _session.say(f"memory of devices is not recorded: PyTorch gave no counters: {error!r}")


_readings: _Readings | None = None
_is_observing = False
