"""Which GPU backends there are, and whether they can start here."""

from __future__ import annotations

import os
import sys

from . import _native
from .errors import BackendUnavailable


class Driver:
    """How to ask a vendor's driver whether there is a GPU.

    No named tuple and no dataclass: making one evaluates a string, upon which CPython forgets that
    the program was interrupted, and this module may be imported at the program's end.
    """

    def __init__(self, library: str, initialise: str, count: str, hint: str) -> None:
        self.library = library
        self.initialise = initialise
        self.count = count
        self.hint = hint


CUDA = Driver(
    "libcuda.so.1",
    "cuInit",
    "cuDeviceGetCount",
    "install the NVIDIA driver, or give the container access to the GPU (--gpus all)",
)
HIP = Driver(
    "libamdhip64.so",
    "hipInit",
    "hipGetDeviceCount",
    "install ROCm, or give the container access to /dev/kfd and /dev/dri",
)

DEVICE_NODES = ("/dev/nvidiactl", "/dev/kfd")
"""What there is where a driver has GPUs. To ask the driver would start it, and then no child of a
fork could use it."""

DRIVERS = {
    "cupti": CUDA,
    "cupti_pcsampling": CUDA,
    "instrumentation": CUDA,
    "rocprofiler": HIP,
    "roctracer": HIP,
}


def begin(backend: str | None, *, keeps_activities: bool) -> None:
    """Has the GPU recorded: from now on, or from when the program uses it.

    A process that is forked after its parent used CUDA cannot use it, so nothing is touched here
    that the program does not touch itself, unless the backend is named.

    Raises:
        BackendUnavailable: The backend was named and cannot start.
    """
    paths = [os.path.abspath(path) for path in sys.path if os.path.isdir(path)]
    try:
        _native.start_gpu(
            is_required=backend is not None, keeps_activities=keeps_activities, paths=paths
        )
    except RuntimeError as error:
        _, step, hint, code = _native.gpu_level()
        raise BackendUnavailable(str(backend), step, code, hint) from error
    if _native.gpu_level()[0] == "waiting":
        _listen_for_driver()


def check(backend: str | None) -> None:
    """Refuses a backend that there is no code for, and says why.

    Raises:
        ValueError: There is no such backend.
        BackendUnavailable: It cannot start here.
    """
    if backend in (None, "cupti"):
        return
    driver = DRIVERS.get(str(backend))
    if driver is None:
        raise ValueError(f"Unknown profiler: {backend}")
    failure = _failure(driver)
    if failure is not None:
        raise BackendUnavailable(str(backend), *failure, driver.hint)
    raise BackendUnavailable(
        str(backend),
        "record GPU activity",
        None,
        'this version of marey records NVIDIA GPUs by backend="cupti"; leave the backend out',
    )


def _listen_for_driver() -> None:
    """Has the driver tell `libmarey.so` when the program starts it, unless another tool waits."""
    library = _native.library_path()
    if library is not None:
        os.environ.setdefault(ENV_INJECTION, os.path.abspath(library))
    if why := _untold():
        _native.note_gpu(f"the program had not used CUDA; {why}")


ENV_INJECTION = "CUDA_INJECTION64_PATH"
"""What the driver loads when it is started."""


def _untold() -> str | None:
    """Why the start of CUDA is not told us; `None` if it is."""
    library, other = _native.library_path(), os.environ.get(ENV_INJECTION)
    if library is None or other in (None, os.path.abspath(library)):
        return None
    return (
        f"{ENV_INJECTION} names another tool ({other}), so its start is not told:"
        " start the session when CUDA is in use"
    )


def may_be_held_by_other() -> bool:
    """Whether another tool keeps the GPU's records from us, or that is not known yet."""
    return is_waiting() or is_held_by_other()


def is_waiting() -> bool:
    """Whether the program has yet to use the GPU, as far as we were told."""
    return _native.gpu_level()[0] == "waiting"


def is_held_by_other() -> bool:
    """Whether there is a GPU, and another tool keeps its records from us."""
    level, _, _, code = _native.gpu_level()
    return level == "host" and code in HELD_BY_OTHER


HELD_BY_OTHER = (39, 14)
"""CUPTI's codes for: there is a subscriber, and there can be one, or only such as use its calls."""


def gpu_note() -> str | None:
    """One line on why a profile holds no GPU activity; `None` if it may hold some."""
    level, reason, hint, _ = _native.gpu_level()
    # Idle: another thread has just ended the last session.
    if level in ("cupti", "idle"):
        return None
    if level == "waiting":
        if why := _untold():
            return f"the GPU was not recorded: {why}"
        if any(os.path.exists(node) for node in DEVICE_NODES):
            return "the program used no NVIDIA GPU; the profile holds the host side only"
        return "no GPU was found; the profile holds the host side only"
    note = f"{reason}; {hint}" if hint else reason
    events = sys.modules.get("marey.triton.events")
    if events is not None and events.are_used():
        return f"Triton launches were timed by events: {note}"
    return f"the GPU was not recorded: {note}"


def _failure(driver: Driver) -> tuple[str, int | None] | None:
    """The step at which the driver fails and its code; `None` if there is a GPU.

    Starts the driver: only for backends that were named.
    """
    import ctypes  # slow to import, and only needed here

    try:
        library = ctypes.CDLL(driver.library)
    except OSError:
        return f"load {driver.library}", None
    code = int(getattr(library, driver.initialise)(0))
    if code != 0:
        return driver.initialise, code
    count = ctypes.c_int(0)
    code = int(getattr(library, driver.count)(ctypes.byref(count)))
    if code != 0:
        return driver.count, code
    return None if count.value > 0 else ("find a device", None)
