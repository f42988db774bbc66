"""Which GPU backends there are, and whether they can start here."""

from __future__ import annotations

import ctypes
from typing import NoReturn

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

DRIVERS = {
    "cupti": CUDA,
    "cupti_pcsampling": CUDA,
    "instrumentation": CUDA,
    "rocprofiler": HIP,
    "roctracer": HIP,
}


def require(backend: str) -> NoReturn:
    """Says why an explicit backend cannot start.

    Raises:
        ValueError: There is no such backend.
        BackendUnavailable: Always otherwise: this version records the host side.
    """
    driver = DRIVERS.get(backend)
    if driver is None:
        raise ValueError(f"Unknown profiler: {backend}")
    failure = _failure(driver)
    if failure is not None:
        raise BackendUnavailable(backend, *failure, driver.hint)
    raise BackendUnavailable(
        backend,
        "record GPU activity",
        None,
        "this version of marey records the host side only; leave the backend out",
    )


def missing_gpu_note() -> str:
    """One line on why a profile holds no GPU activity."""
    if all(_failure(driver) is not None for driver in (CUDA, HIP)):
        return "no GPU was found; the profile holds the host side only"
    return "this version records the host side only; the GPU's activity is not in the profile"


def _failure(driver: Driver) -> tuple[str, int | None] | None:
    """The step at which the driver fails and its code; `None` if there is a GPU."""
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
