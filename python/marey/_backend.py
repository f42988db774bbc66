"""The GPU backends: starting them, and the reasons why one cannot start."""

from __future__ import annotations

import os
import sys

from . import _native
from .errors import BackendUnavailable


class Driver:
    """The functions by which a vendor's driver reports whether there is a GPU.

    Not a named tuple or dataclass: creating such a class evaluates a string, which makes CPython
    lose a pending interrupt, and this module may be imported at the end of the program.
    """

    def __init__(self, library: str, init_function: str, count_function: str, hint: str) -> None:
        self.library = library
        self.init_function = init_function
        self.count_function = count_function
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
"""Files that exist where a driver has GPUs. Calling the driver instead would start it, and then no
forked child could use it."""

DRIVERS = {
    "cupti": CUDA,
    "cupti_pcsampling": CUDA,
    "instrumentation": CUDA,
    "rocprofiler": HIP,
    "roctracer": HIP,
}


def start_gpu(backend: str | None, *, keeps_activities: bool) -> None:
    """Starts recording of the GPU: at once, or when the program first uses it.

    A process that is forked after its parent used CUDA cannot use CUDA. So the driver is not
    started before the program starts it, unless the backend is named.

    Raises:
        BackendUnavailable: The named backend cannot start.
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
        _request_injection()


def check_backend(backend: str | None) -> None:
    """Rejects a backend that is not implemented, with the reason.

    Raises:
        ValueError: The backend is unknown.
        BackendUnavailable: The backend cannot start on this machine.
    """
    if backend in (None, "cupti"):
        return
    driver = DRIVERS.get(str(backend))
    if driver is None:
        raise ValueError(f"Unknown profiler: {backend}")
    failure = _find_failure(driver)
    if failure is not None:
        raise BackendUnavailable(str(backend), *failure, driver.hint)
    raise BackendUnavailable(
        str(backend),
        "record GPU activity",
        None,
        'this version of marey records NVIDIA GPUs by backend="cupti"; leave the backend out',
    )


def _request_injection() -> None:
    """Makes the driver load `libmarey.so` when it starts, unless another tool is set."""
    library = _native.library_path()
    if library is not None:
        os.environ.setdefault(ENV_INJECTION, os.path.abspath(library))
    if reason := _injection_conflict():
        _native.note_gpu(f"the program had not used CUDA; {reason}")


ENV_INJECTION = "CUDA_INJECTION64_PATH"
"""The variable with the library that the CUDA driver loads when it is started."""


def _injection_conflict() -> str | None:
    """Returns why the driver does not notify marey of its start; `None` if it does."""
    library, other = _native.library_path(), os.environ.get(ENV_INJECTION)
    if library is None or other in (None, os.path.abspath(library)):
        return None
    return (
        f"{ENV_INJECTION} names another tool ({other}), so marey is not notified of its start:"
        " start the session after the first use of CUDA"
    )


def may_have_other_subscriber() -> bool:
    """Whether another tool is subscribed to CUPTI, or that is not known yet."""
    return is_waiting() or has_other_subscriber()


def is_waiting() -> bool:
    """Whether the program has not used the GPU yet, as far as marey was notified."""
    return _native.gpu_level()[0] == "waiting"


def has_other_subscriber() -> bool:
    """Whether there is a GPU and another tool is subscribed to CUPTI."""
    level, _, _, code = _native.gpu_level()
    return level == "host" and code in OTHER_SUBSCRIBER_CODES


OTHER_SUBSCRIBER_CODES = (39, 14)
"""CUPTI's error codes if another tool has subscribed: a second subscriber is not supported, or not
compatible with the first."""


def gpu_note() -> str | None:
    """Returns one line on why a profile has no GPU activities; `None` if it may have some."""
    level, reason, hint, _ = _native.gpu_level()
    # "idle": another thread has just ended the last session.
    if level in ("cupti", "idle"):
        return None
    if level == "waiting":
        if conflict := _injection_conflict():
            return f"the GPU was not recorded: {conflict}"
        if any(os.path.exists(node) for node in DEVICE_NODES):
            return "the program used no NVIDIA GPU; the profile holds the host side only"
        return "no GPU was found; the profile holds the host side only"
    note = f"{reason}; {hint}" if hint else reason
    events = sys.modules.get("marey.triton.events")
    if events is not None and events.is_timing_launches():
        return f"Triton launches were timed by events: {note}"
    return f"the GPU was not recorded: {note}"


def _find_failure(driver: Driver) -> tuple[str, int | None] | None:
    """Returns the step at which the driver fails and its error code; `None` if there is a GPU.

    Starts the driver, so it is called only for backends that were named.
    """
    import ctypes  # slow to import, and only needed here

    try:
        library = ctypes.CDLL(driver.library)
    except OSError:
        return f"load {driver.library}", None
    code = int(getattr(library, driver.init_function)(0))
    if code != 0:
        return driver.init_function, code
    count = ctypes.c_int(0)
    code = int(getattr(library, driver.count_function)(ctypes.byref(count)))
    if code != 0:
        return driver.count_function, code
    return None if count.value > 0 else ("find a device", None)
