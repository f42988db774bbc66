"""Checks of the NVIDIA driver with its devices, and of NVML."""

from __future__ import annotations

import os
from dataclasses import dataclass

from marey._names import ENV_NVML_PERIOD_MS

from ._check import Check, State
from ._probe import NoAnswer, Probe

SECTION = "NVIDIA"

Rows = list[list[str]]
"""The result of `_native.probe_gpu`: rows of fields, of which the first names the row."""


@dataclass(frozen=True)
class Driver:
    """The result of the driver's probe."""

    checks: list[Check]
    cuda: tuple[int, int] | None = None
    """The CUDA version that the driver supports; `None` without a device."""
    libraries: tuple[tuple[str, str], ...] | None = None
    """Paths where a libcupti may be, with their sources, in search order; `None` if the probe
    crashed."""


def check_driver(probe: Probe) -> Driver:
    """Returns the lines of the driver and its devices."""
    try:
        rows: Rows = probe.answer()
    except NoAnswer as error:
        text = f"the NVIDIA driver cannot be started: {error}"
        return Driver([Check(SECTION, "driver", "broken", text, "nvidia-smi")])
    checks: list[Check] = []
    cuda = None
    for name, *fields in rows:
        if name == "unavailable":
            checks.append(unavailable_check("driver", fields, broken=("init",)))
        elif name == "driver":
            version = int(fields[0])
            cuda = version // 1000, version % 1000 // 10
            text = f"NVIDIA driver for CUDA {cuda[0]}.{cuda[1]}"
            checks.append(Check(SECTION, "driver", "ok", text, facts={"cuda_version": version}))
        elif name == "device":
            checks.append(_device_check(fields))
    libraries = tuple((row[1], row[2]) for row in rows if row[0] == "library")
    return Driver(checks, cuda, libraries)


def _device_check(fields: list[str]) -> Check:
    number, name, arch, processors, size, uuid = fields
    capability = f"{int(arch) // 10}.{int(arch) % 10}"
    text = f"device {number}: {name}, compute capability {capability}, {_gib(size)}"
    facts = {
        "number": int(number),
        "name": name,
        "compute_capability": capability,
        "multiprocessors": int(processors),
        "memory_bytes": int(size),
        "uuid": uuid,
    }
    return Check(SECTION, "device", "ok", text, facts=facts)


def _gib(size_bytes: str) -> str:
    return f"{int(size_bytes) / 2**30:.1f} GiB"


def unavailable_check(key: str, fields: list[str], *, broken: tuple[str, ...]) -> Check:
    """Returns the line of a row ``unavailable``: broken at the steps `broken`, else missing."""
    step, code, reason, mend = fields
    state: State = "broken" if step in broken else "missing"
    facts = {"step": step, "code": int(code) if code else None}
    return Check(SECTION, key, state, reason, mend or None, facts)


def check_nvml(probe: Probe) -> list[Check]:
    """Returns the lines of NVML, the source of device counters in traces."""
    try:
        rows: Rows = probe.answer()
    except NoAnswer as error:
        return [Check(SECTION, "nvml", "broken", f"NVML cannot be started: {error}", "nvidia-smi")]
    if [row[0] for row in rows] == ["nvml"]:
        mend = "give the container `--gpus all`, or look at `nvidia-smi`"
        facts = _nvml_facts(rows[0])
        return [Check(SECTION, "nvml", "missing", "NVML sees no device", mend, facts)]
    return [_nvml_check(row) for row in rows]


def _nvml_check(row: list[str]) -> Check:
    name, *fields = row
    if name == "unavailable":
        return unavailable_check("nvml", fields, broken=("init",))
    if name == "silent":
        number, reason = fields
        text = f"NVML cannot read device {number}: {reason}"
        facts = {"number": int(number)}
        return Check(SECTION, "nvml_device", "broken", text, "nvidia-smi", facts)
    if name == "device":
        return _nvml_device_check(fields)
    library = _nvml_facts(row)
    text = "NVML {version} with driver {driver_version} ({library})".format(**library)
    if os.environ.get(ENV_NVML_PERIOD_MS) == "0":
        text = f"{text}; {ENV_NVML_PERIOD_MS}=0 turns its counters off"
        return Check(SECTION, "nvml", "missing", text, f"unset {ENV_NVML_PERIOD_MS}", library)
    return Check(SECTION, "nvml", "ok", text, facts=library)


def _nvml_facts(row: list[str]) -> dict[str, str]:
    _, library, driver_version, version = row
    return {"library": library, "driver_version": driver_version, "version": version}


def _nvml_device_check(fields: list[str]) -> Check:
    number, name, size, has_gpm, uuid = fields
    notes = [name, _gib(size) if size else "", "with GPM" if has_gpm == "1" else "without GPM"]
    facts = {
        "number": int(number),
        "name": name,
        "memory_bytes": int(size) if size else None,
        "has_gpm": has_gpm == "1",
        "uuid": uuid,
    }
    text = f"counters of device {number}: {', '.join(filter(None, notes))}"
    return Check(SECTION, "nvml_device", "ok", text, facts=facts)
