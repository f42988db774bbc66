"""Peak rates of devices, with the names of Triton's `triton.profiler.specs`.

The architectures that Triton knows have Triton's numbers. `docs/viewer.md` lists the dense peak
rates of all architectures with their sources.

Attributes:
    flops_by_device: By device type and architecture, a function that returns `max_flops` for a
        width in bits; ``num_sms`` and ``clock_rate`` are keyword arguments.
    amd_bps_by_arch: Bytes per second of the AMD architectures whose rate is a constant.
    amd_fp8_flops_by_arch: 8-bit operations per clock and multiprocessor of HIP architectures.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ._warning import warn

__all__ = [
    "amd_bps_by_arch",
    "amd_fp8_flops_by_arch",
    "flops_by_device",
    "max_bps",
    "max_flops",
]

flops_by_device: dict[str, dict[str, Callable[..., float]]]
amd_bps_by_arch: dict[str, float]
amd_fp8_flops_by_arch: dict[str, int]

_WIDTHS_BITS = (8, 16, 32, 64)


def max_flops(
    device_type: str, arch: str, width: float, num_sms: float, clock_rate: float
) -> float:
    """Returns the peak rate of floating-point operations, without sparsity.

    Args:
        device_type: ``"CUDA"`` or ``"HIP"``.
        arch: Architecture, such as ``"90"``, ``"sm_90a"`` or ``"gfx942"``.
        width: Bits of an operand: 8, 16, 32 or 64.
        num_sms: Number of multiprocessors, as the device's driver counts them.
        clock_rate: Clock of a multiprocessor, in kHz or GHz; the unit is inferred from the size.

    Returns:
        Operations per second. NaN with a warning that gives the reason if the rate is not known.
    """
    from . import _engine

    if width not in _WIDTHS_BITS:
        note = f"the peak tables know operands of 8, 16, 32 and 64 bits, not of {width}"
        return _check_rate(math.nan, note)
    return _check_rate(*_engine.max_flops(device_type, str(arch), int(width), num_sms, clock_rate))


def max_bps(device_type: str, arch: str, bus_width: float, memory_clock_rate: float) -> float:
    """Returns the peak bandwidth between a device and its memory.

    Args:
        device_type: ``"CUDA"`` or ``"HIP"``.
        arch: Architecture, such as ``"90"``, ``"sm_90a"`` or ``"gfx942"``.
        bus_width: Width of the memory bus in bits.
        memory_clock_rate: Clock of the memory, as the driver reports it, in kHz or GHz.

    Returns:
        Bytes per second. NaN with a warning that gives the reason if the rate is not known.
    """
    from . import _engine

    return _check_rate(*_engine.max_bps(device_type, str(arch), bus_width, memory_clock_rate))


def _check_rate(rate: float, note: str | None) -> float:
    if note is not None:
        warn(note)
    return rate


def _flops_by_device() -> dict[str, dict[str, Callable[..., float]]]:
    from . import _engine

    families: dict[str, dict[str, Callable[..., float]]] = {}
    for family, arch, _doc in _engine.architectures():
        # In Triton's tables, architectures with a constant rate need neither argument.
        rate = functools.partial(max_flops, family, arch, num_sms=math.nan, clock_rate=math.nan)
        families.setdefault(family, {})[arch] = rate
    return families


def _amd_bps_by_arch() -> dict[str, float]:
    from . import _engine

    rates = {arch: _engine.max_bps("HIP", arch, math.nan, math.nan)[0] for arch in _hip_archs()}
    return {arch: rate for arch, rate in rates.items() if not math.isnan(rate)}


def _amd_fp8_flops_by_arch() -> dict[str, int]:
    from . import _engine

    one_ghz_khz = 1e6
    rates = {arch: _engine.max_flops("HIP", arch, 8, 1, one_ghz_khz)[0] for arch in _hip_archs()}
    return {arch: int(rate / 1e9) for arch, rate in rates.items()}


def _hip_archs() -> list[str]:
    from . import _engine

    return [arch for family, arch, _doc in _engine.architectures() if family == "HIP"]


_TABLES: dict[str, Callable[[], Any]] = {
    "flops_by_device": _flops_by_device,
    "amd_bps_by_arch": _amd_bps_by_arch,
    "amd_fp8_flops_by_arch": _amd_fp8_flops_by_arch,
}


def __getattr__(name: str) -> Any:
    """Computes a table on first use."""
    if name not in _TABLES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, _TABLES[name]())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
